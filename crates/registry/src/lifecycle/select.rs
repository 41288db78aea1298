//! Label and field selectors on stored bytes: names and namespaces are read from the key, labels and simple fields by
//! a scan, and only the remaining fields from a parsed tree.

use std::cell::OnceCell;

use coracle_meta::object::Meta;
use coracle_meta::selector::labels::Labels;
use coracle_meta::selector::{fields, labels};
use coracle_store::Entry;
use serde_json::Value;

use super::read;
use crate::error::Result;
use crate::kind::{Declaration, Kind, Scope};
use crate::scan;

/// Fields for field selectors whose value is the string at their path, by group and resource.
/// [`Kind::selectable_value`] gives the same values, but needs a parsed tree. A test compares both.
const PLAIN_FIELDS: &[(&str, &str, &[&str])] = &[
    (
        "",
        "pods",
        &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "status.phase",
            "status.nominatedNodeName",
        ],
    ),
    ("", "namespaces", &["status.phase"]),
    ("", "secrets", &["type"]),
    ("", "services", &["spec.clusterIP", "spec.type"]),
    ("certificates.k8s.io", "certificatesigningrequests", &["spec.signerName"]),
    ("resource.k8s.io", "resourceslices", &["spec.nodeName", "spec.driver"]),
];

/// Label and field selectors.
#[derive(Clone, Debug)]
pub struct Selection {
    /// The label selector.
    pub labels: labels::Selector,
    /// The field selector.
    pub fields: fields::Selector,
}

impl Default for Selection {
    fn default() -> Self {
        Self { labels: labels::Selector::everything(), fields: fields::Selector::everything() }
    }
}

impl Selection {
    /// Whether the selectors match all objects.
    pub fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_everything()
    }

    /// Whether an object matches.
    pub fn matches(&self, kind: &dyn Kind, object: &Value) -> bool {
        let meta = Meta::of(object);
        let by_labels = self.labels.is_everything() || self.labels.matches(&meta.labels());
        by_labels
            && self.fields.requirements().iter().all(|requirement| {
                let value = match &*requirement.field {
                    "metadata.name" => meta.name().into(),
                    "metadata.namespace" => meta.namespace().into(),
                    field => kind.selectable_value(object, field),
                };
                (*value == *requirement.value) == requirement.equal
            })
    }

    /// Whether a stored object matches.
    pub(super) fn selects(&self, kind: &dyn Kind, entry: &Entry) -> Result<bool> {
        if self.is_everything() {
            return Ok(true);
        }
        let declaration = kind.declaration();
        match self.selects_by_scan(declaration, entry) {
            Some(selected) => Ok(selected),
            None => Ok(self.matches(kind, &read(kind, entry)?)),
        }
    }

    /// `None` if only a parsed tree can tell.
    fn selects_by_scan(&self, declaration: &Declaration, entry: &Entry) -> Option<bool> {
        let mut certain = true;
        let stored = OnceCell::new();
        let bytes = || stored.get_or_init(|| entry.value_bytes());
        // Value of the previous requirement's field: `a!=b,a!=c` is common.
        let mut last = ("", None);
        // Cheap requirements first: they exclude most objects that do not match.
        for requirement in self.fields.requirements() {
            let field = &*requirement.field;
            if last.0 != field {
                let value = match field {
                    "metadata.name" => Some(name(entry)),
                    "metadata.namespace" => Some(namespace(declaration, entry)),
                    field => plain_field(declaration, bytes(), field),
                };
                last = (field, value);
            }
            let Some(value) = last.1 else {
                certain = false;
                continue;
            };
            if (value == &*requirement.value) != requirement.equal {
                return Some(false);
            }
        }
        if !self.labels.is_everything() && !self.labels.matches(&Scanned(scan::labels(bytes())?)) {
            return Some(false);
        }
        certain.then_some(true)
    }
}

struct Scanned<'a>(Vec<(&'a str, &'a str)>);

impl Labels for Scanned<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(name, _)| *name == key).map(|(_, value)| *value)
    }
}

fn plain_field<'a>(declaration: &Declaration, bytes: &'a [u8], field: &str) -> Option<&'a str> {
    let (_, _, plain) = PLAIN_FIELDS
        .iter()
        .find(|(group, plural, _)| *plural == declaration.plural && *group == declaration.group)?;
    if !plain.contains(&field) {
        return None;
    }
    match field.split_once('.') {
        Some((part, name)) => scan::text(bytes, &[part, name]),
        None => scan::text(bytes, &[field]),
    }
}

/// The last segment of the key.
fn name(entry: &Entry) -> &str {
    parts(entry).next().unwrap_or_default()
}

fn namespace<'a>(declaration: &Declaration, entry: &'a Entry) -> &'a str {
    match declaration.scope {
        Scope::Namespaced => parts(entry).nth(1).unwrap_or_default(),
        Scope::Cluster => "",
    }
}

fn parts(entry: &Entry) -> impl Iterator<Item = &str> {
    // All keys are valid UTF-8.
    std::str::from_utf8(entry.key()).unwrap_or_default().rsplit('/')
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use coracle_meta::object::MetaMut;
    use coracle_store::{EntryParts, Revision};

    use super::*;
    use crate::catalog::BUILT_IN;
    use crate::encode::Encoded;
    use crate::keys;

    fn entry(kind: &dyn Kind, object: &Value) -> Entry {
        let meta = Meta::of(object);
        let key = keys::key(kind.declaration(), meta.namespace(), meta.name());
        let encoded = Encoded::of(object);
        Entry::from_parts(&EntryParts {
            key: Bytes::from(key),
            value: encoded.bytes,
            stamp: Some(encoded.stamp),
            create_revision: Revision::new(1),
            mod_revision: Revision::new(12),
            version: 1,
            expires_at: None,
        })
    }

    /// For every kind, its samples, and every field and label: the scan agrees with the parsed tree.
    #[test]
    fn selection_by_scan_agrees_with_selection_by_tree() {
        for kind in BUILT_IN {
            let declaration = kind.declaration();
            for sample in kind.samples().valid {
                let mut object = sample;
                kind.set_defaults(&mut object);
                let Some(mut meta) = MetaMut::of(&mut object) else { continue };
                meta.set("labels", Some(serde_json::json!({"app": "a", "tier": ""})));
                let entry = entry(*kind, &object);
                let mut fields: Vec<String> =
                    declaration.selectable_fields.iter().map(ToString::to_string).collect();
                fields.extend(["metadata.name".into(), "metadata.namespace".into()]);
                for field in fields {
                    let own = match &*field {
                        "metadata.name" => Meta::of(&object).name().to_owned(),
                        "metadata.namespace" => Meta::of(&object).namespace().to_owned(),
                        field => kind.selectable_value(&object, field).into_owned(),
                    };
                    for (value, labels) in [
                        (&*own, ""),
                        ("other", ""),
                        (&*own, "app=a"),
                        (&*own, "app!=a"),
                        (&*own, "!tier"),
                        ("", "tier="),
                    ] {
                        let selection = Selection {
                            labels: labels.parse().unwrap(),
                            fields: fields::Selector::equals(&*field, value),
                        };
                        assert_eq!(
                            selection.selects(*kind, &entry).unwrap(),
                            selection.matches(*kind, &object),
                            "{}: {field}={value:?} {labels} of {object}",
                            declaration.group_resource()
                        );
                    }
                }
            }
        }
    }
}
