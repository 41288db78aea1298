//! Type providers: named types and their fields.

use std::collections::HashMap;
use std::sync::Arc;

use crate::EvalError;
use crate::decl::{Decl, Shape};
use crate::names::RESERVED;
use crate::types::Type;
use crate::value::Object;

/// Provides named types beyond the declared ones.
pub trait TypeProvider: Send + Sync {
    /// Returns true if the provider has a type of this name.
    fn has_type(&self, name: &str) -> bool;

    /// Returns the type of a field; `None` if the type has no such field.
    fn field_type(&self, type_name: &str, field: &str) -> Option<Type>;

    /// Validates an object that an expression creates.
    ///
    /// # Errors
    /// If the object is invalid; the evaluation then fails with this error.
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
    /// Adds a declaration and all declarations in it; objects without a name are named after their
    /// path.
    pub(crate) fn add(&mut self, path: &str, decl: &Decl) -> Type {
        match decl.shape() {
            Shape::List(items, _) => {
                self.add(&format!("{path}.@idx"), items);
            }
            Shape::Map(values) => {
                self.add(&format!("{path}.@elem"), values);
            }
            Shape::Object(object) => {
                let name: Arc<str> = object.type_name(path).into();
                if !self.structs.contains_key(&name) {
                    // Insert the entry before its fields, so that a recursive type terminates here.
                    self.structs.insert(name.clone(), HashMap::new());
                    let mut fields = HashMap::new();
                    for field in object.fields() {
                        let path = format!("{name}.{}", field.identifier);
                        fields.insert(field.identifier.clone(), self.add(&path, &field.decl));
                    }
                    self.structs.insert(name, fields);
                }
            }
            _ => {}
        }
        decl.cel_type(path)
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

/// The types of mutating policies: `Object`, its descendants such as `Object.spec`, and
/// `JSONPatch`.
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
