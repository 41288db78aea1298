//! What is sent and stored looks like: the form of a kind's objects in one version, or of one of
//! their parts. Whoever decodes, patches or notes owners asks here and not by names.

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

/// A type in a graph of types.
#[derive(Clone, Copy)]
pub struct ObjectSchema<'a> {
    /// The graph.
    pub schema: &'a Schema,
    /// The type.
    pub node: NodeId,
}

impl ObjectSchema<'static> {
    /// A built-in type.
    pub fn of_type(id: TypeId) -> Self {
        let graph = graph();
        Self { schema: graph.schema(), node: graph.node(id) }
    }
}

/// The form of objects of a kind in one of its versions, or of what is sent to one of their parts.
#[derive(Clone, Copy)]
pub struct ObjectForm<'a> {
    kind: &'a dyn Kind,
    group: &'a str,
    version: &'a str,
    /// Where what is sent is not the object.
    part: Option<&'a Subresource>,
}

impl<'a> ObjectForm<'a> {
    /// Of what is sent to an object in this version, or to this part of it; the object itself is
    /// the part without a name.
    pub fn new(kind: &'a dyn Kind, version: &'a str, part: &str) -> Self {
        Self::stored(kind, (&kind.declaration().group, version), part)
    }

    /// The same as it is stored, which may be as objects of another group.
    pub(crate) fn stored(kind: &'a dyn Kind, (group, version): (&'a str, &'a str), part: &str) -> Self {
        let declaration = kind.declaration();
        let part = declaration.subresource(part).filter(|part| part.kind != declaration.kind);
        Self { kind, group, version, part }
    }

    /// Whether the kind itself says what it looks like.
    fn is_own(&self) -> bool {
        self.part.is_none() && self.kind.declaration().group == self.group
    }

    /// Whether objects of the kind can be told in this version, too.
    fn is_convertible_to(&self, version: &str) -> bool {
        self.kind.versions_alike() || self.kind.declaration().versions.iter().any(|served| served == version)
    }

    /// Whether it is a part of objects whose kind comes with a definition.
    pub fn is_custom(&self) -> bool {
        self.kind.declaration().is_custom
    }

    /// Its group.
    pub fn group(&self) -> &'a str {
        let other = self.part.and_then(|part| part.group_version.as_ref());
        other.map_or(self.group, |(group, _)| group)
    }

    /// Its version.
    pub fn version(&self) -> &'a str {
        let other = self.part.and_then(|part| part.group_version.as_ref());
        other.map_or(self.version, |(_, version)| version)
    }

    /// Its kind.
    pub fn kind(&self) -> &'a str {
        self.part.map_or(&self.kind.declaration().kind, |part| &part.kind)
    }

    /// Its group and version, such as `apps/v1`.
    pub fn api_version(&self) -> Cow<'a, str> {
        let (group, version) = (self.group(), self.version());
        if group.is_empty() { version.into() } else { format!("{group}/{version}").into() }
    }

    /// The type by which the codecs know it, if they do.
    pub fn type_id(&self) -> Option<TypeId> {
        if self.is_own() {
            return self.kind.type_id(self.version);
        }
        types().kind(self.group(), self.version(), self.kind())
    }

    /// The type by which apply and patches walk it, if there is one.
    pub fn schema(&self) -> Option<ObjectSchema<'a>> {
        if self.is_own() {
            return self.kind.schema(self.version);
        }
        self.type_id().map(ObjectSchema::of_type)
    }

    /// Brings a tree that was read without its type, or changed by a patch, into this form, and
    /// tells what a strict reader refuses.
    ///
    /// # Errors
    /// If it has a value that does not fit.
    pub fn conform(&self, object: Value) -> Result<Decoded, DecodeError> {
        if self.is_own() {
            return self.kind.conform(self.version, object);
        }
        match self.type_id() {
            Some(id) => json::conform(object, id),
            None => Ok(Decoded { object, problems: Vec::new() }),
        }
    }

    /// The same where upstream converts the tree and does not write and read it again: it says in
    /// other words what does not fit.
    ///
    /// # Errors
    /// If it has a value that does not fit.
    pub fn convert(&self, object: Value) -> Result<Decoded, DecodeError> {
        match self.type_id() {
            Some(id) => json::convert(object, id),
            None => self.conform(object),
        }
    }

    /// The same for trees of which it is soon told that a strict reader refuses nothing; any other is given back.
    ///
    /// # Errors
    /// The same tree, if it takes more to tell.
    pub fn conform_soon(&self, object: Value) -> Result<Value, Value> {
        match self.type_id() {
            Some(id) => json::conform_soon(object, id),
            None => Err(object),
        }
    }

    /// Whether objects of this form are kept in another.
    pub(crate) fn is_converted(&self) -> bool {
        self.is_own() && self.kind.declaration().is_converted(self.version)
    }

    /// An object in the form in which it is kept, brought into this one.
    pub fn of_stored<'o>(&self, stored: Cow<'o, Value>) -> Cow<'o, Value> {
        if !self.is_converted() {
            return stored;
        }
        Cow::Owned(self.kind.convert_out(self.version, stored.into_owned()))
    }

    /// The way back.
    pub fn to_stored(&self, object: Value) -> Value {
        if self.is_converted() { self.kind.convert_in(self.version, object) } else { object }
    }

    /// Leaves of an object what is stored of it, once it is known who owns what.
    pub(crate) fn settle(&self, object: &mut Value) {
        if let Some(id) = self.type_id() {
            settle(object, id);
        }
    }

    /// What stands in a field that nobody has written, if anything does.
    pub(crate) fn unset_field(&self, name: &str) -> Option<Value> {
        self.type_id().and_then(|id| unset_field(id, name))
    }

    /// What there is before anybody has written anything, for types whose objects never lack some
    /// fields.
    pub(crate) fn initial(&self) -> Option<Arc<Value>> {
        self.type_id().map(|id| initial(ObjectSchema::of_type(id)))
    }
}

/// The versions between which owners of fields are told. Those of another group are not among them, though
/// its objects may be the same ones: upstream knows the types of the core group and of all others apart,
/// and forgets who wrote an Event through the other of its groups.
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
        // What others own is found by removing the rest, which may leave less than objects of the type ever have.
        let whole = source.convert(object).map_err(|error| failed(error.to_string()))?.object;
        let converted = target.of_stored(Cow::Owned(source.to_stored(whole))).into_owned();
        target.convert(converted).map(|decoded| decoded.object).map_err(|error| failed(error.to_string()))
    }
}

/// The same for all objects of a built-in type, so it is made once; there are as many as kinds.
fn initial(of: ObjectSchema<'static>) -> Arc<Value> {
    static KNOWN: RwLock<BTreeMap<NodeId, Arc<Value>>> = RwLock::new(BTreeMap::new());
    if let Some(initial) = KNOWN.read().unwrap_or_else(PoisonError::into_inner).get(&of.node) {
        return initial.clone();
    }
    let made = Arc::new(Type::new(of.schema, of.node).initial());
    KNOWN.write().unwrap_or_else(PoisonError::into_inner).entry(of.node).or_insert(made).clone()
}
