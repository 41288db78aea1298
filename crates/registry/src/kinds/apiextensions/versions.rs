//! The versions of a custom kind, and the parts that may differ between them.

use std::collections::BTreeSet;

use coracle_meta::field::{BadValue, ErrorList, FieldError, Path};
use serde_json::Value;

use super::options::ValidationOptions;
use super::{names, parts, walk};
use crate::kinds::rules;
use crate::{internal_types, view};

/// Maximum length of a deprecation warning, as in Kubernetes.
const MAX_WARNING_BYTES: usize = 256;

/// A part of a version. If it is equal in all versions, kube-apiserver moves it to the definition itself, which is
/// visible in the paths of errors.
#[derive(Clone, Copy)]
enum Part {
    Schema,
    Subresources,
    Columns,
    SelectableFields,
}

impl Part {
    const ALL: [Self; 4] = [Self::Schema, Self::Subresources, Self::Columns, Self::SelectableFields];

    fn name(self) -> &'static str {
        match self {
            Self::Schema => "schema",
            Self::Subresources => "subresources",
            Self::Columns => "additionalPrinterColumns",
            Self::SelectableFields => "selectableFields",
        }
    }

    fn shared_name(self) -> &'static str {
        match self {
            Self::Schema => "validation",
            _ => self.name(),
        }
    }
}

/// The versions of a definition.
pub(super) struct Versions<'a> {
    definition: &'a Value,
    all: &'a [Value],
    options: &'a ValidationOptions<'a>,
}

impl<'a> Versions<'a> {
    pub(super) fn of(definition: &'a Value, options: &'a ValidationOptions<'a>) -> Self {
        Self { definition, all: view::items(definition, &["spec", "versions"]), options }
    }

    /// Validates that versions are unique, that one is stored, and the parts that differ.
    pub(super) fn check(&self, path: &Path<'_>, errors: &mut ErrorList) {
        self.check_schemas_are_there(&path.child("versions"), errors);
        let preserving = view::is_true(self.definition, &["spec", "preserveUnknownFields"]);
        let has_default = |root| walk::any(root, |schema| schema.get("default").is_some());
        if preserving && walk::roots(self.definition).any(has_default) {
            let detail = "must be false in order to use defaults in the schema";
            errors.push(FieldError::invalid(&path.child("preserveUnknownFields"), true, detail));
        }
        let versions_path = path.child("versions");
        for (index, version) in self.all.iter().enumerate() {
            let path = versions_path.index(index);
            names::check_label(view::text(version, &["name"]), &path.child("name"), errors);
            check_deprecation(version, &path.child("deprecationWarning"), errors);
            for part in Part::ALL.into_iter().filter(|part| !self.shares(*part)) {
                self.check_part(part, version, &path.child(part.name()), errors);
            }
        }
        self.check_names(&versions_path, errors);
        // kube-apiserver keeps the first version in a field of its own, too.
        if let Some(first) = self.all.first().map(|version| view::text(version, &["name"]))
            && !first.is_empty()
        {
            names::check_label(first, &path.child("version"), errors);
        }
    }

    /// Validates the parts that are equal in all versions.
    pub(super) fn check_shared(&self, path: &Path<'_>, errors: &mut ErrorList) {
        let Some(first) = self.all.first() else { return };
        for part in Part::ALL.into_iter().filter(|part| self.shares(*part)) {
            self.check_part(part, first, &path.child(part.shared_name()), errors);
        }
    }

    fn check_schemas_are_there(&self, path: &Path<'_>, errors: &mut ErrorList) {
        let detail = match self.options.requires_schemas {
            true => "",
            false if view::is_true(self.definition, &["spec", "preserveUnknownFields"]) => return,
            false => "because otherwise all fields are pruned",
        };
        for (index, version) in self.all.iter().enumerate() {
            let matters = self.options.requires_schemas || view::is_true(version, &["served"]);
            if matters && view::at(version, &["schema", "openAPIV3Schema"]).is_none() {
                let path = path.index(index);
                errors.push(FieldError::required(&path.child("schema.openAPIV3Schema"), detail));
            }
        }
    }

    fn check_names(&self, path: &Path<'_>, errors: &mut ErrorList) {
        let is_shared =
            |field: &str| Part::ALL.into_iter().any(|part| part.name() == field && self.shares(part));
        let mut invalid = |detail: &str| {
            errors.push(FieldError::invalid(path, self.printed(is_shared), detail));
        };
        let names: BTreeSet<_> = self.all.iter().map(|version| view::text(version, &["name"])).collect();
        if names.len() != self.all.len() {
            invalid("must contain unique version names");
        }
        if self.all.iter().filter(|version| view::is_true(version, &["storage"])).count() != 1 {
            invalid("must have exactly one version marked as storage version");
        }
    }

    /// The versions as messages print them: without the parts that are equal in all of them, which kube-apiserver
    /// moves elsewhere.
    fn printed(&self, is_shared: impl Fn(&str) -> bool) -> BadValue {
        let mut versions = Value::Array(self.all.to_vec());
        for version in versions.as_array_mut().into_iter().flatten() {
            if let Value::Object(fields) = version {
                fields.retain(|field, _| !is_shared(field));
            }
        }
        let is_list = view::at(self.definition, &["spec", "versions"]).is_some_and(Value::is_array);
        let versions = Some(&versions).filter(|_| is_list);
        internal_types::printed("[@apiextensions.CustomResourceDefinitionVersion", versions)
    }

    fn check_part(&self, part: Part, version: &Value, path: &Path<'_>, errors: &mut ErrorList) {
        match part {
            Part::Schema => {
                let has_status = |version: &Value| view::at(version, &["subresources", "status"]).is_some();
                let has_status = match self.shares(part) {
                    true => self.all.iter().any(has_status),
                    false => has_status(version),
                };
                parts::check_schema(version, has_status, self.options, path, errors);
            }
            Part::Subresources => parts::check_subresources(version, path, errors),
            Part::Columns => parts::check_columns(version, path, errors),
            Part::SelectableFields => {
                let shared = self.shares(part);
                // Fields that are not beside their schema are not looked up in it.
                let beside = shared == self.shares(Part::Schema);
                parts::check_selectable_fields(version, beside, shared, self.options, path, errors);
            }
        }
    }

    fn shares(&self, part: Part) -> bool {
        let Some(first) = self.all.first() else { return true };
        self.all.iter().all(|version| rules::same(version.get(part.name()), first.get(part.name())))
    }
}

fn check_deprecation(version: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(warning) = version.get("deprecationWarning").and_then(Value::as_str) else { return };
    let mut invalid = |detail: String| errors.push(FieldError::invalid(path, warning, detail));
    if !view::is_true(version, &["deprecated"]) {
        return invalid("can only be set for deprecated versions".to_owned());
    }
    if warning.len() > MAX_WARNING_BYTES {
        invalid(format!("must be <= {MAX_WARNING_BYTES} characters long"));
    }
    if warning.is_empty() {
        invalid("must not be an empty string".to_owned());
    }
    if let Some((index, _)) = warning.char_indices().find(|(_, character)| character.is_control()) {
        invalid(format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {index}"
        ));
    }
}
