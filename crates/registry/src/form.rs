//! Forms of objects: type, group and version of the bodies of a kind in one version, or of one of its subresources.
//! Decoding, patches and field ownership use it instead of names of kinds.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use coracle_api::codec::{DecodeError, Decoded, json, settle, unset_field};
use coracle_api::schema::{TypeId, graph, types};
use coracle_meta::apply::typed::Type;
use coracle_meta::apply::{ConversionError, Versions};
use coracle_meta::gvk::split_api_version;
use coracle_meta::schema::{NodeId, Schema};
use serde_json::Value;

use crate::kind::{Kind, Subresource};

/// A type in a schema.
#[derive(Clone, Copy)]
pub struct ObjectSchema<'a> {
    /// The schema.
    pub schema: &'a Schema,
    /// The node of the type.
    pub node: NodeId,
}

impl ObjectSchema<'static> {
    /// The schema of a built-in type.
    pub fn of_type(id: TypeId) -> Self {
        let graph = graph();
        Self { schema: graph.schema(), node: graph.node(id) }
    }
}

/// The form of objects of a kind in one of its versions, or of the bodies of one of its subresources.
#[derive(Clone, Copy)]
pub struct ObjectForm<'a> {
    kind: &'a dyn Kind,
    group: &'a str,
    version: &'a str,
    /// The subresource, if its body is not the object itself.
    part: Option<&'a Subresource>,
}

impl<'a> ObjectForm<'a> {
    /// The form of an object in this version, or of the body of a subresource; an empty `part` stands for the object
    /// itself.
    pub fn new(kind: &'a dyn Kind, version: &'a str, part: &str) -> Self {
        Self::stored(kind, (&kind.declaration().group, version), part)
    }

    /// The same for a stored group and version, which may be those of another kind.
    pub(crate) fn stored(kind: &'a dyn Kind, (group, version): (&'a str, &'a str), part: &str) -> Self {
        let declaration = kind.declaration();
        let part = declaration.subresource(part).filter(|part| part.kind != declaration.kind);
        Self { kind, group, version, part }
    }

    /// Whether the [`Kind`] itself defines the type.
    fn is_own(&self) -> bool {
        self.part.is_none() && self.kind.declaration().group == self.group
    }

    /// Whether objects of the kind can be converted to this version.
    fn is_convertible_to(&self, version: &str) -> bool {
        self.kind.versions_alike() || self.kind.declaration().versions.iter().any(|served| served == version)
    }

    /// Whether the kind is defined by a CustomResourceDefinition.
    pub fn is_custom(&self) -> bool {
        self.kind.declaration().is_custom
    }

    /// API group.
    pub fn group(&self) -> &'a str {
        let other = self.part.and_then(|part| part.group_version.as_ref());
        other.map_or(self.group, |(group, _)| group)
    }

    /// API version.
    pub fn version(&self) -> &'a str {
        let other = self.part.and_then(|part| part.group_version.as_ref());
        other.map_or(self.version, |(_, version)| version)
    }

    /// Kind.
    pub fn kind(&self) -> &'a str {
        self.part.map_or(&self.kind.declaration().kind, |part| &part.kind)
    }

    /// Group and version, such as `apps/v1`.
    pub fn api_version(&self) -> Cow<'a, str> {
        let (group, version) = (self.group(), self.version());
        if group.is_empty() { version.into() } else { format!("{group}/{version}").into() }
    }

    /// Type for the codecs, if there is one.
    pub fn type_id(&self) -> Option<TypeId> {
        if self.is_own() {
            return self.kind.type_id(self.version);
        }
        types().kind(self.group(), self.version(), self.kind())
    }

    /// Schema for patches and server-side apply, if there is one.
    pub fn schema(&self) -> Option<ObjectSchema<'a>> {
        if self.is_own() {
            return self.kind.schema(self.version);
        }
        self.type_id().map(ObjectSchema::of_type)
    }

    /// Converts a tree that was decoded without its type, or changed by a patch, into this form, and reports the
    /// problems that strict field validation rejects.
    ///
    /// # Errors
    /// If a value does not have the type of its field.
    pub fn conform(&self, object: Value) -> Result<Decoded, DecodeError> {
        if self.is_own() {
            return self.kind.conform(self.version, object);
        }
        match self.type_id() {
            Some(id) => json::conform(object, id),
            None => Ok(Decoded { object, problems: Vec::new() }),
        }
    }

    /// Like [`ObjectForm::conform`], where kube-apiserver converts the tree directly instead of encoding and decoding
    /// it: its messages for type errors differ.
    ///
    /// # Errors
    /// If a value does not have the type of its field.
    pub fn convert(&self, object: Value) -> Result<Decoded, DecodeError> {
        match self.type_id() {
            Some(id) => json::convert(object, id),
            None => self.conform(object),
        }
    }

    /// A fast path of [`ObjectForm::conform`] for trees without any problem; returns all others unchanged.
    ///
    /// # Errors
    /// The same tree, if it needs the full check.
    pub fn conform_soon(&self, object: Value) -> Result<Value, Value> {
        match self.type_id() {
            Some(id) => json::conform_soon(object, id),
            None => Err(object),
        }
    }

    /// Whether objects of this form are stored in another.
    pub(crate) fn is_converted(&self) -> bool {
        self.is_own() && self.kind.declaration().is_converted(self.version)
    }

    /// Converts a stored object into this form.
    pub fn of_stored<'o>(&self, stored: Cow<'o, Value>) -> Cow<'o, Value> {
        if !self.is_converted() {
            return stored;
        }
        Cow::Owned(self.kind.convert_out(self.version, stored.into_owned()))
    }

    /// Converts an object of this form into the stored form.
    pub fn to_stored(&self, object: Value) -> Value {
        if self.is_converted() { self.kind.convert_in(self.version, object) } else { object }
    }

    /// Removes the parts of an object that are not stored, after field ownership is computed.
    pub(crate) fn settle(&self, object: &mut Value) {
        if let Some(id) = self.type_id() {
            settle(object, id);
        }
    }

    /// The value that a field has unless it is set, if any.
    pub(crate) fn unset_field(&self, name: &str) -> Option<Value> {
        self.type_id().and_then(|id| unset_field(id, name))
    }

    /// The initial object, for types whose objects always have some fields.
    pub(crate) fn initial(&self) -> Option<Arc<Value>> {
        self.type_id().map(|id| initial(ObjectSchema::of_type(id)))
    }
}

/// Versions between which managed fields are converted. Versions of another group are not among them even if its
/// objects are the same ones: kube-apiserver distinguishes the types of the core group from all others, and drops the
/// ownership of fields of an Event that were written through the other group.
impl Versions for ObjectForm<'_> {
    fn object_type(&self, api_version: &str) -> Option<Type<'_>> {
        let (group, version) = split_api_version(api_version);
        let found = if group == self.group() && version == self.version() {
            self.schema()
        } else if self.is_own() && group == self.group && self.is_convertible_to(version) {
            self.kind.schema(version)
        } else {
            None
        };
        found.map(|found| Type::new(found.schema, found.node))
    }

    fn convert(&self, object: &Value, from: &str, to: &str) -> Result<Value, ConversionError> {
        let failed = |reason: String| ConversionError { from: from.to_owned(), to: to.to_owned(), reason };
        let mut object = object.clone();
        if self.kind.versions_alike()
            && let Value::Object(fields) = &mut object
        {
            fields.insert("apiVersion".to_owned(), to.into());
            return Ok(object);
        }
        let [source, target] = [from, to].map(|version| {
            let (_, version) = split_api_version(version);
            ObjectForm::new(self.kind, version, "")
        });
        if !self.is_convertible_to(target.version) {
            return Err(failed("no such version".to_owned()));
        }
        // Fields of other managers are found by removing all others, so that required fields of the type may be
        // absent.
        let whole = source.convert(object).map_err(|error| failed(error.to_string()))?.object;
        let converted = target.of_stored(Cow::Owned(source.to_stored(whole))).into_owned();
        target.convert(converted).map(|decoded| decoded.object).map_err(|error| failed(error.to_string()))
    }
}

/// Cached, because the result is the same for all objects of a built-in type; the cache is bounded by the number of
/// kinds.
fn initial(of: ObjectSchema<'static>) -> Arc<Value> {
    static KNOWN: RwLock<BTreeMap<NodeId, Arc<Value>>> = RwLock::new(BTreeMap::new());
    if let Some(initial) = KNOWN.read().unwrap_or_else(PoisonError::into_inner).get(&of.node) {
        return initial.clone();
    }
    let made = Arc::new(Type::new(of.schema, of.node).initial());
    KNOWN.write().unwrap_or_else(PoisonError::into_inner).entry(of.node).or_insert(made).clone()
}
