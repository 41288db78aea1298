//! Validation options of CustomResourceDefinitions.
//!
//! Validation became stricter over the years, and cost estimates change. An update may keep a violation that the old
//! definition has already (ratcheting), so each newer rule applies only if the old definition satisfies it.

use coracle_crd::{ExpressionCosts, Structural, UnknownInDefaults};
use coracle_meta::field::{ErrorList, Path};
use serde_json::Value;

use super::{ca_bundle, schema, structural, walk};
use crate::kinds::rules;
use crate::view;

/// Versions of ConversionReview that the server supports.
pub(super) const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];

/// Rules that apply to a definition, besides those that always do.
pub(super) struct ValidationOptions<'a> {
    pub(super) schema: SchemaOptions,
    /// Every version must have a schema.
    pub(super) requires_schemas: bool,
    /// The conversion webhook must accept a supported ConversionReview version.
    pub(super) requires_known_review: bool,
    /// The CA bundle of the conversion webhook must contain certificates.
    pub(super) requires_ca_bundle: bool,
    old: Option<&'a Value>,
}

/// Rules that apply to a schema.
#[derive(Clone, Copy)]
pub(super) struct SchemaOptions {
    /// Types must be those of OpenAPI.
    pub(super) requires_known_types: bool,
    pub(super) requires_structural: bool,
    /// Items of sets must be atomic.
    pub(super) requires_atomic_sets: bool,
    /// Items of sets and maps must not be nullable, and their keys must be required or have defaults.
    pub(super) requires_item_keys: bool,
    pub(super) unknown_in_defaults: UnknownInDefaults,
    pub(super) expression_costs: ExpressionCosts,
}

/// Fields that are valid only in a structural schema.
const STRUCTURAL_IF_SAID: [&str; 5] = [
    "default",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-validations",
];

/// Fields that are valid only in a structural schema if they are true.
const STRUCTURAL_IF_TRUE: [&str; 2] = ["x-kubernetes-embedded-resource", "x-kubernetes-int-or-string"];

impl SchemaOptions {
    /// All rules, for a new schema.
    pub(super) const NEW: Self = Self {
        requires_known_types: true,
        requires_structural: true,
        requires_atomic_sets: true,
        requires_item_keys: true,
        unknown_in_defaults: UnknownInDefaults::Refused,
        expression_costs: ExpressionCosts::Limited,
    };

    fn after(old: &Value) -> Self {
        let any = |holds: fn(&Value) -> bool| walk::roots(old).any(|root| walk::any(root, holds));
        let keeps_unknown = walk::roots(old).any(has_unknown_in_defaults);
        Self {
            requires_known_types: !any(|schema| !schema::has_known_type(schema)),
            requires_structural: walk::roots(old).all(is_structural),
            requires_atomic_sets: !any(|schema| finds(schema, schema::check_set_items)),
            requires_item_keys: !any(|schema| finds(schema, schema::check_list_items)),
            unknown_in_defaults: match keeps_unknown {
                true => UnknownInDefaults::Kept,
                false => UnknownInDefaults::Refused,
            },
            expression_costs: ExpressionCosts::Limited,
        }
    }
}

impl<'a> ValidationOptions<'a> {
    /// All rules, for a new definition.
    pub(super) fn new() -> Self {
        Self {
            schema: SchemaOptions::NEW,
            requires_schemas: true,
            requires_known_review: true,
            requires_ca_bundle: false,
            old: None,
        }
    }

    /// The rules for a definition that replaces another.
    pub(super) fn after(old: &'a Value, old_is_established: bool) -> Self {
        let config = view::at(old, &["spec", "conversion", "webhook", "clientConfig"]);
        let reviews = view::items(old, &["spec", "conversion", "webhook", "conversionReviewVersions"]);
        let is_known = |review: &Value| REVIEW_VERSIONS.iter().any(|known| review == known);
        Self {
            schema: SchemaOptions::after(old),
            requires_schemas: walk::roots(old).count() == view::items(old, &["spec", "versions"]).len(),
            requires_known_review: reviews.is_empty() || reviews.iter().any(is_known),
            requires_ca_bundle: old_is_established && config.is_none_or(ca_bundle::is_valid_or_none),
            old: Some(old),
        }
    }

    /// The rules for this definition, whose fields may require structural schemas.
    pub(super) fn of(mut self, definition: &Value) -> Self {
        self.schema.requires_structural |= !view::is_true(definition, &["spec", "preserveUnknownFields"])
            || walk::roots(definition).any(|root| walk::any(root, needs_structure));
        self
    }

    /// The rules for the schema of a version. An unchanged schema may keep its expression costs.
    pub(super) fn of_version(&self, version: &Value) -> SchemaOptions {
        let old_schema = self.old.and_then(|old| schema_of(old, view::text(version, &["name"])));
        let unchanged = old_schema.is_some_and(|old| rules::same(version.get("schema"), old));
        let expression_costs =
            if unchanged { ExpressionCosts::Tolerated } else { self.schema.expression_costs };
        SchemaOptions { expression_costs, ..self.schema }
    }

    /// Whether the old version had the same selectable fields.
    pub(super) fn had_selectable_fields(&self, version: &Value) -> bool {
        const FIELD: &str = "selectableFields";
        let old = self.old.map_or(&[][..], |old| view::items(old, &["spec", "versions"]));
        let named = old.iter().find(|old| old.get("name") == version.get("name"));
        named.is_some_and(|old| rules::same(old.get(FIELD), version.get(FIELD)))
    }
}

/// The schema of a version. If the schemas of all versions are equal, a missing version has that schema, too.
fn schema_of<'a>(definition: &'a Value, version: &str) -> Option<Option<&'a Value>> {
    let versions = view::items(definition, &["spec", "versions"]);
    let first = versions.first()?.get("schema");
    if versions.iter().all(|version| rules::same(version.get("schema"), first)) {
        return Some(first);
    }
    versions.iter().find(|known| view::text(known, &["name"]) == version).map(|known| known.get("schema"))
}

fn needs_structure(schema: &Value) -> bool {
    STRUCTURAL_IF_SAID.iter().any(|field| schema.get(field).is_some())
        || STRUCTURAL_IF_TRUE.iter().any(|field| view::is_true(schema, &[field]))
}

/// Whether a check reports errors.
fn finds(schema: &Value, check: fn(&Value, &Path<'_>, &mut ErrorList)) -> bool {
    let mut errors = ErrorList::new();
    check(schema, &Path::NIL, &mut errors);
    !errors.is_empty()
}

fn is_structural(root: &Value) -> bool {
    Structural::parse(root).is_ok() && !finds(root, structural::check)
}

fn has_unknown_in_defaults(root: &Value) -> bool {
    walk::any(root, |schema| schema.get("default").is_some())
        && is_structural(root)
        && Structural::parse(root).is_ok_and(|root| root.has_unknown_in_defaults())
}
