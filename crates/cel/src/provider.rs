//! Types with names: what fields they have.

use std::collections::HashMap;
use std::sync::Arc;

use crate::EvalError;
use crate::decl::{Decl, Shape};
use crate::names::RESERVED;
use crate::types::Type;
use crate::value::Object;

/// Knows types by name, beyond those that are declared.
pub trait TypeProvider: Send + Sync {
    /// Whether there is a type of this name.
    fn has_type(&self, name: &str) -> bool;

    /// The type of a field; none if there is no such field.
    fn field_type(&self, type_name: &str, field: &str) -> Option<Type>;

    /// Whether an object that an expression makes is sound.
    ///
    /// # Errors
    /// When it is not; that is then the value of the expression.
    fn check_object(&self, object: &Object<'_>) -> Result<(), EvalError> {
        let _ = object;
        Ok(())
    }
}

/// The types of declared objects.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeclaredTypes {
    structs: HashMap<Arc<str>, HashMap<Arc<str>, Type>>,
}

impl DeclaredTypes {
    /// Takes up a declaration and everything in it; objects without a name are named after their place.
    pub(crate) fn add(&mut self, place: &str, decl: &Decl) -> Type {
        match decl.shape() {
            Shape::List(items, _) => {
                self.add(&format!("{place}.@idx"), items);
            }
            Shape::Map(values) => {
                self.add(&format!("{place}.@elem"), values);
            }
            Shape::Object(object) => {
                let name: Arc<str> = object.type_name(place).into();
                if !self.structs.contains_key(&name) {
                    // First of all its own entry, so that a type that contains itself ends here.
                    self.structs.insert(name.clone(), HashMap::new());
                    let mut fields = HashMap::new();
                    for field in object.fields() {
                        let place = format!("{name}.{}", field.identifier);
                        fields.insert(field.identifier.clone(), self.add(&place, &field.decl));
                    }
                    self.structs.insert(name, fields);
                }
            }
            _ => {}
        }
        decl.cel_type(place)
    }
}

impl TypeProvider for DeclaredTypes {
    fn has_type(&self, name: &str) -> bool {
        self.structs.contains_key(name)
    }

    fn field_type(&self, type_name: &str, field: &str) -> Option<Type> {
        let fields = self.structs.get(type_name)?;
        let escaped = || RESERVED.contains(&field).then(|| format!("__{field}__"));
        fields.get(field).or_else(|| fields.get(&*escaped()?)).cloned()
    }
}

/// The types of mutating policies: `Object`, whatever is beneath it, and `JSONPatch`.
#[derive(Clone, Copy, Debug)]
pub struct MutationTypes;

const OBJECT: &str = "Object";
const JSON_PATCH: &str = "JSONPatch";

impl TypeProvider for MutationTypes {
    fn has_type(&self, name: &str) -> bool {
        name == JSON_PATCH
            || name.strip_prefix(OBJECT).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }

    fn field_type(&self, type_name: &str, field: &str) -> Option<Type> {
        match (type_name, field) {
            (JSON_PATCH, "op" | "path" | "from") => Some(Type::String),
            (JSON_PATCH, "value") => Some(Type::Dyn),
            (JSON_PATCH, _) => None,
            _ => Some(Type::Dyn),
        }
    }
}
