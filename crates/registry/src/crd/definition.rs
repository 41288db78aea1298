//! Declaration of the kind of a CustomResourceDefinition, without its schemas.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use coracle_base::OnDeepStack;
use coracle_meta::go_json;
use coracle_meta::gvk::compare_versions;
use coracle_meta::json_path::JsonPath;
use coracle_store::{Entry, Revision};
use ring::digest;
use serde_json::Value;

use super::cells::Cells;
use super::compiled::Compiled;
use super::scale;
use crate::encode::type_prefix;
use crate::kind::{Declaration, Generation, Scope, StatusMetadata, Subresource};
use crate::view;

/// Number of bytes of the published hash, as in kube-apiserver (`storageVersionHashLength`).
const STORAGE_HASH_BYTES: usize = 8;

/// A definition as of one write of it.
#[derive(Clone)]
pub(super) struct Served {
    pub(super) definition: Arc<Definition>,
    /// Revision of the definition: objects that were written later conform to it.
    pub(super) since: Revision,
    /// Whether the definition is terminating, and its objects are being deleted.
    pub(super) terminating: bool,
}

/// The part of a definition that clusters with an equal definition share.
pub(super) struct Definition {
    /// The stored definition, from which schemas are compiled on demand.
    entry: Entry,
    /// The first bytes of all stored objects.
    pub(super) stored_prefix: String,
    pub(super) storage_api_version: String,
    /// Index of the storage version.
    pub(super) storage: usize,
    pub(super) versions: Vec<Version>,
    /// Whether versions differ in `apiVersion` only.
    pub(super) versions_alike: bool,
    /// A hash of the definition.
    pub(super) fingerprint: u64,
}

/// One version of a definition.
pub(super) struct Version {
    pub(super) name: String,
    pub(super) served: bool,
    pub(super) declaration: Declaration,
    pub(super) cells: Cells,
    /// Fields for field selectors and their paths.
    pub(super) selectable: Vec<(String, Option<JsonPath>)>,
    pub(super) scale: Option<scale::Limits>,
    compiled: OnceLock<Option<OnDeepStack<Compiled>>>,
}

impl Served {
    /// The served kind; none unless the definition is established.
    pub(super) fn of(entry: &Entry, object: &Value) -> Option<Self> {
        if !condition(object, "Established") {
            return None;
        }
        let definition = Arc::new(Definition::of(entry, object)?);
        let (since, terminating) = (entry.mod_revision(), condition(object, "Terminating"));
        Some(Self { definition, since, terminating })
    }
}

impl Definition {
    fn of(entry: &Entry, object: &Value) -> Option<Self> {
        let spec = view::at(object, &["spec"])?;
        let names = view::at(object, &["status", "acceptedNames"])?;
        let (group, kind) = (view::text(spec, &["group"]), view::text(names, &["kind"]));
        if [view::text(names, &["plural"]), group, kind].contains(&"") {
            return None;
        }
        let all = view::items(spec, &["versions"]);
        let storage = all.iter().position(|version| view::is_true(version, &["storage"]))?;
        let storage_version = view::text(&all[storage], &["name"]);
        let storage_api_version = format!("{group}/{storage_version}");
        // No hash is published for a version that is not served.
        let is_seen = view::is_true(&all[storage], &["served"]);
        let hash = if is_seen { storage_hash(group, storage_version, kind) } else { String::new() };
        let facts = Facts { spec, names, group, kind, hash };
        Some(Self {
            entry: entry.clone(),
            stored_prefix: type_prefix(&storage_api_version, kind),
            storage_api_version,
            storage,
            versions: all.iter().map(|version| facts.version(version)).collect(),
            fingerprint: fingerprint(entry).unwrap_or(0),
            versions_alike: view::text(spec, &["conversion", "strategy"]) != "Webhook",
        })
    }

    /// Whether another write of a definition has the same content.
    pub(super) fn is_of(&self, entry: &Entry) -> bool {
        content(&self.entry.value_bytes()) == content(&entry.value_bytes())
    }

    /// The schema of a version, compiled on first use. None if the version is unknown.
    pub(super) fn compiled(&self, index: usize) -> Option<&Compiled> {
        let version = self.versions.get(index)?;
        let compile = || Compiled::of(&self.schema(index)?).map(OnDeepStack::new);
        version.compiled.get_or_init(compile).as_ref().map(OnDeepStack::value)
    }

    /// The schema of a version as it was written.
    pub(super) fn schema(&self, index: usize) -> Option<Value> {
        let object: Value = go_json::from_stored(&self.entry.value_bytes()).ok()?;
        let version = view::items(&object, &["spec", "versions"]).get(index)?;
        view::at(version, &["schema", "openAPIV3Schema"]).cloned()
    }

    pub(super) fn version(&self, name: &str) -> Option<usize> {
        self.versions.iter().position(|version| version.name == name)
    }
}

/// The part of a stored definition that determines its kind. Definitions with equal content have equal kinds.
fn content(bytes: &[u8]) -> Option<[&[u8]; 2]> {
    let status = crate::scan::value(bytes, "status")?;
    Some([crate::scan::value(bytes, "spec")?, crate::scan::value(status, "acceptedNames")?])
}

/// A hash of [`content`].
pub(super) fn fingerprint(entry: &Entry) -> Option<u64> {
    let mut hasher = DefaultHasher::new();
    content(&entry.value_bytes())?.hash(&mut hasher);
    Some(hasher.finish())
}

fn condition(object: &Value, kind: &str) -> bool {
    let conditions = view::items(object, &["status", "conditions"]).iter();
    let found = conditions.filter(|condition| view::text(condition, &["type"]) == kind);
    found.into_iter().any(|condition| view::text(condition, &["status"]) == "True")
}

/// The hash by which clients detect a change of the storage version.
fn storage_hash(group: &str, version: &str, kind: &str) -> String {
    let digest = digest::digest(&digest::SHA256, format!("{group}/{version}/{kind}").as_bytes());
    STANDARD.encode(&digest.as_ref()[..STORAGE_HASH_BYTES])
}

/// Data that all versions share.
struct Facts<'a> {
    spec: &'a Value,
    names: &'a Value,
    group: &'a str,
    kind: &'a str,
    hash: String,
}

impl Facts<'_> {
    fn version(&self, version: &Value) -> Version {
        let name = view::text(version, &["name"]).to_owned();
        let cells = Cells::of(view::items(version, &["additionalPrinterColumns"]));
        let selectable: Vec<_> = view::items(version, &["selectableFields"])
            .iter()
            .map(|field| view::text(field, &["jsonPath"]))
            .map(|path| (path.trim_start_matches('.').to_owned(), JsonPath::parse(path).ok()))
            .collect();
        let scale = view::at(version, &["subresources", "scale"]);
        let declaration = Declaration {
            columns: cells.columns(),
            selectable_fields: selectable.iter().map(|(name, _)| Cow::Owned(name.clone())).collect(),
            ..self.declaration(version, &name)
        };
        Version {
            served: view::is_true(version, &["served"]),
            name,
            declaration,
            cells,
            selectable,
            scale: scale.map(scale::Limits::of),
            compiled: OnceLock::new(),
        }
    }

    fn declaration(&self, version: &Value, name: &str) -> Declaration {
        let text = |field: &str| view::text(self.names, &[field]).to_owned();
        let texts = |field: &str| {
            let items = view::items(self.names, &[field]).iter().filter_map(Value::as_str);
            items.map(|item| Cow::Owned(item.to_owned())).collect()
        };
        let namespaced = view::text(self.spec, &["scope"]) == "Namespaced";
        let subresources = self.subresources(version);
        let has_status = subresources.iter().any(|part| part.name == "status");
        let scope = if namespaced { Scope::Namespaced } else { Scope::Cluster };
        Declaration {
            versions: vec![Cow::Owned(name.to_owned())],
            list_kind: Some(text("listKind").into()),
            short_names: texts("shortNames"),
            categories: texts("categories"),
            subresources,
            is_custom: true,
            prefixed_finalizers: false,
            generation: if has_status { Generation::Content } else { Generation::All },
            status_metadata: StatusMetadata::Kept,
            deprecated: self.deprecation(version, name).map(Cow::Owned),
            unconditional_update: false,
            storage_version_hash: self.hash.clone().into(),
            ..Declaration::new(
                self.group.to_owned(),
                &[],
                self.kind.to_owned(),
                text("plural"),
                text("singular"),
                scope,
            )
        }
    }

    fn subresources(&self, version: &Value) -> Vec<Subresource> {
        let mut parts = Vec::new();
        if view::at(version, &["subresources", "status"]).is_some() {
            parts.push(Subresource::status(self.kind.to_owned()));
        }
        if let Some(scale) = view::at(version, &["subresources", "scale"]) {
            parts.push(Subresource::scale_at(scale::paths(scale)));
        }
        parts
    }

    /// The deprecation warning of a version.
    fn deprecation(&self, version: &Value, name: &str) -> Option<String> {
        if !view::is_true(version, &["deprecated"]) {
            return None;
        }
        if let Some(warning) = view::at(version, &["deprecationWarning"]).and_then(Value::as_str) {
            return Some(warning.to_owned());
        }
        let Self { group, kind, .. } = self;
        let is_better = |other: &&Value| {
            view::is_true(other, &["served"])
                && !view::is_true(other, &["deprecated"])
                && compare_versions(name, view::text(other, &["name"])) == Ordering::Less
        };
        let better = view::items(self.spec, &["versions"]).iter().filter(is_better);
        let best = better.map(|other| view::text(other, &["name"])).max_by(|a, b| compare_versions(a, b));
        let warning = format!("{group}/{name} {kind} is deprecated");
        Some(best.map_or(warning.clone(), |best| format!("{warning}; use {group}/{best} {kind}")))
    }
}
