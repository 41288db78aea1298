//! [`Kind`] for one version of a CustomResourceDefinition.

use std::borrow::Cow;

use coracle_api::codec::{DecodeError, Decoded};
use coracle_api::schema::TypeId;
use coracle_crd::{OpenApi, definition_name};
use coracle_meta::field::{ErrorList, FieldError, Path};
use coracle_meta::json_path;
use coracle_meta::name::qualified_name;
use coracle_meta::object::Meta;
use coracle_meta::time::Time;
use coracle_store::{Entry, Revision};
use serde_json::Value;

use super::compiled::Compiled;
use super::definition::{Served, Version};
use crate::form::ObjectSchema;
use crate::keys;
use crate::kind::{Declaration, Kind};
use crate::kinds::apiextensions::custom_resource_definition::CustomResourceDefinition;
use crate::view;

/// Finalizers that are valid without a domain prefix.
const STANDARD_FINALIZERS: [&str; 3] = ["orphan", "foregroundDeletion", "kubernetes"];

/// One version of a custom kind.
pub(super) struct CustomKind {
    served: Served,
    version: usize,
}

impl CustomKind {
    /// A version that is served. The storage version of a terminating definition is available even if it is not
    /// served, because otherwise no client could delete its objects.
    pub(super) fn new(served: Served, version: &str) -> Option<Self> {
        let definition = &served.definition;
        let version = definition.version(version)?;
        let is_stored = served.terminating && definition.storage == version;
        (definition.versions[version].served || is_stored).then_some(Self { served, version })
    }

    /// All served versions.
    pub(super) fn all(served: &Served) -> impl Iterator<Item = Self> {
        let versions = served.definition.versions.iter().enumerate();
        let served_versions = versions.filter(|(_, version)| version.served);
        served_versions.map(|(version, _)| Self { served: served.clone(), version })
    }

    fn facts(&self) -> &Version {
        &self.served.definition.versions[self.version]
    }

    fn compiled(&self) -> Option<&Compiled> {
        self.served.definition.compiled(self.version)
    }

    fn api_version(&self) -> String {
        self.declaration().storage_api_version()
    }

    /// Checks `kind` and `apiVersion`, as kube-apiserver does again for custom objects.
    fn check_type(&self, object: &Value, errors: &mut ErrorList) -> bool {
        let before = errors.len();
        for (field, expected) in
            [("kind", self.declaration().kind.to_string()), ("apiVersion", self.api_version())]
        {
            let found = view::text(object, &[field]);
            if found != expected {
                errors.push(FieldError::invalid(&Path::root(field), found, format!("must be {expected}")));
            }
        }
        errors.len() == before
    }
}

impl Kind for CustomKind {
    fn declaration(&self) -> &Declaration {
        &self.facts().declaration
    }

    fn type_id(&self, _version: &str) -> Option<TypeId> {
        None
    }

    fn schema(&self, version: &str) -> Option<ObjectSchema<'_>> {
        let definition = &self.served.definition;
        definition.compiled(definition.version(version)?).map(Compiled::object_schema)
    }

    fn conform(&self, _version: &str, object: Value) -> Result<Decoded, DecodeError> {
        match self.compiled() {
            Some(compiled) => compiled.conform(object, false),
            None => Ok(Decoded { object, problems: Vec::new() }),
        }
    }

    fn versions_alike(&self) -> bool {
        self.served.definition.versions_alike
    }

    fn reads_as_stored(&self, json: &[u8], written_at: Revision) -> bool {
        // Objects that were written in this version, after the definition, are pruned and have all defaults already.
        let definition = &self.served.definition;
        written_at > self.served.since
            && definition.storage == self.version
            && json.starts_with(definition.stored_prefix.as_bytes())
    }

    /// Prunes unknown fields and sets defaults in the version of the stored object, and then prunes again in this
    /// version, as kube-apiserver does.
    fn read_stored(&self, stored: Value) -> Value {
        let definition = &self.served.definition;
        let written_in = view::text(&stored, &["apiVersion"]).rsplit('/').next().unwrap_or_default();
        let written_in = definition.version(written_in).unwrap_or(self.version);
        let mut object = decoded(definition.compiled(written_in), stored);
        set_api_version(&mut object, self.api_version());
        if written_in == self.version { object } else { pruned(self.compiled(), object) }
    }

    fn to_stored<'a>(&self, object: &'a Value) -> Cow<'a, Value> {
        let stored = &self.served.definition.storage_api_version;
        if view::text(object, &["apiVersion"]) == stored {
            return Cow::Borrowed(object);
        }
        let mut object = object.clone();
        set_api_version(&mut object, stored.clone());
        // The bytes may be served unchanged, so they must be what kube-apiserver would read back.
        let definition = &self.served.definition;
        Cow::Owned(decoded(definition.compiled(definition.storage), object))
    }

    fn creation_refused(&self) -> Option<&'static str> {
        let message = "create not allowed while custom resource definition is terminating";
        self.served.terminating.then_some(message)
    }

    fn set_defaults(&self, object: &mut Value) {
        if let Some(compiled) = self.compiled() {
            compiled.structural.set_defaults(object);
        }
    }

    /// Restores the old metadata, except for the managed fields, which are written with the status.
    fn prepare_for_status_update(&self, new: &mut Value, old: &Value, _now: Time) {
        let owners = new.pointer("/metadata/managedFields").cloned();
        let (Some(new), Some(old)) = (new.get_mut("metadata"), old.get("metadata")) else { return };
        *new = old.clone();
        if let Value::Object(fields) = new {
            fields.remove("managedFields");
            fields.extend(owners.map(|owners| ("managedFields".to_owned(), owners)));
        }
    }

    fn validate_create(&self, object: &Value, errors: &mut ErrorList) {
        if !self.check_type(object, errors) {
            return;
        }
        if let Some(compiled) = self.compiled() {
            compiled.structural.check_create(object, errors);
        }
        if let Some(scale) = &self.facts().scale {
            scale.check_spec(object, errors);
            scale.check_status(object, errors);
        }
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        if !self.check_type(new, errors) {
            return;
        }
        if let Some(compiled) = self.compiled() {
            compiled.structural.check_update(new, old, errors);
        }
        if let Some(scale) = &self.facts().scale {
            scale.check_spec(new, errors);
            scale.check_status(new, errors);
        }
    }

    fn validate_status_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        if !self.check_type(new, errors) {
            return;
        }
        if let Some(compiled) = self.compiled() {
            compiled.structural.check_status_update(new, old, errors);
        }
        if let Some(scale) = &self.facts().scale {
            scale.check_status(new, errors);
        }
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let known: Vec<&str> = old.map(|old| Meta::of(old).finalizers().collect()).unwrap_or_default();
        let mut added: Vec<&str> = Meta::of(new).finalizers().filter(|name| !known.contains(name)).collect();
        added.sort_unstable();
        added.dedup();
        let mut warnings: Vec<String> = added.into_iter().flat_map(finalizer_warnings).collect();
        if let (Some(compiled), Some(old)) = (self.compiled(), old) {
            warnings.extend(compiled.structural.update_warnings(new, old));
        }
        warnings
    }

    fn selectable_value<'a>(&self, object: &'a Value, field: &str) -> Cow<'a, str> {
        let path = self.facts().selectable.iter().find(|(name, _)| name == field);
        let found = path.and_then(|(_, path)| path.as_ref()?.first(object).ok()?);
        match found.filter(|value| !value.is_null()) {
            Some(value) => json_path::text(&value).into_owned().into(),
            None => "".into(),
        }
    }

    fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        self.facts().cells.row(object, now)
    }

    fn told_verbs(&self) -> Vec<&'static str> {
        // In the order of kube-apiserver.
        let all = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
        let brings_in = |verb: &&str| matches!(*verb, "patch" | "create" | "update");
        all.into_iter().filter(|verb| !self.served.terminating || !brings_in(verb)).collect()
    }

    fn definitions(&self, open_api: OpenApi) -> Vec<(String, Value)> {
        let (facts, declaration) = (self.facts(), self.declaration());
        let list_kind = declaration.list_kind();
        let paths: Vec<String> = facts.selectable.iter().map(|(name, _)| format!(".{name}")).collect();
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        let published = coracle_crd::CustomKind {
            group: &declaration.group,
            version: &facts.name,
            kind: &declaration.kind,
            list_kind: &list_kind,
            plural: &declaration.plural,
            selectable_fields: &paths,
        };
        let name = |kind: &str| definition_name(&declaration.group, &facts.name, kind);
        let schema = self.served.definition.schema(self.version);
        vec![
            (name(&declaration.kind), published.definition(schema.as_ref(), open_api)),
            (name(&list_kind), published.list_definition(open_api)),
        ]
    }

    fn fingerprint(&self) -> u64 {
        self.served.definition.fingerprint
    }

    fn depends_on(&self) -> Option<String> {
        let name = self.declaration().group_resource();
        Some(keys::key(CustomResourceDefinition.declaration(), "", &name))
    }

    fn holds_with(&self, entry: &Entry) -> bool {
        // A deletion of the definition does not count: its objects are deleted first, and watches must deliver that.
        self.served.definition.is_of(entry)
    }

    #[cfg(any(test, feature = "samples"))]
    fn samples(&self) -> crate::samples::Samples {
        crate::samples::Samples::none()
    }
}

fn set_api_version(object: &mut Value, api_version: String) {
    if let Value::Object(fields) = object {
        fields.insert("apiVersion".to_owned(), api_version.into());
    }
}

/// Prunes a stored object by the schema of its version, and sets the defaults of that schema.
fn decoded(compiled: Option<&Compiled>, object: Value) -> Value {
    let mut object = pruned(compiled, object);
    if let Some(compiled) = compiled {
        compiled.structural.set_defaults(&mut object);
    }
    object
}

/// Prunes an object by a schema. An object that violates the schema stays unchanged: validation rejects it when it is
/// written again.
fn pruned(compiled: Option<&Compiled>, object: Value) -> Value {
    let Some(compiled) = compiled else { return object };
    let unconformed = object.clone();
    compiled.conform(object, true).map_or(unconformed, |decoded| decoded.object)
}

fn finalizer_warnings(name: &str) -> Vec<String> {
    let warning = |message: &str| format!("metadata.finalizers: {name:?}: {message}");
    let mut warnings: Vec<String> = qualified_name(name).iter().map(|message| warning(message)).collect();
    if !name.contains('/') && !STANDARD_FINALIZERS.contains(&name) {
        let with_path = if name.contains('.') { " including a path (/)" } else { "" };
        warnings.push(warning(&format!(
            "prefer a domain-qualified finalizer name{with_path} to avoid accidental conflicts with other finalizer writers"
        )));
    }
    warnings
}
