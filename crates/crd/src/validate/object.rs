//! Validation of objects and maps.

use serde_json::{Map, Value};

use super::path::ValuePath;
use super::violation::{Outcome, Violation};
use super::{Correlated, Validator};
use crate::structural::{Additional, Facet, Schema};

impl Validator {
    pub(super) fn fields(
        self,
        schema: Schema<'_>,
        fields: &Map<String, Value>,
        path: &ValuePath<'_>,
        correlated: Option<Correlated<'_>>,
    ) -> Outcome {
        let mut outcome = Outcome::default();
        check_count(fields, schema, path, &mut outcome);
        let additional = schema.additional();
        // Violations of declared properties are reported after those of undeclared ones, each
        // sorted by name.
        let mut declared = Outcome::default();
        for (name, field) in fields {
            if let Some(property) = schema.property(name) {
                let correlated = child(correlated, name, path);
                declared.merge(self.correlated(property, field, &path.property(name), correlated));
                continue;
            }
            match additional {
                Additional::Forbidden => {
                    let message = format!("{path}.{name} in body is a forbidden property");
                    outcome.add(Violation::invalid(path, name.as_str(), message));
                }
                Additional::Schema(additional) => {
                    let correlated = child(correlated, name, path);
                    outcome.merge(self.correlated(additional, field, &path.key(name), correlated));
                }
                Additional::Unspecified | Additional::Allowed => {}
            }
        }
        outcome.merge(declared);
        for facet in schema.facets() {
            let Facet::Required(names) = facet else { continue };
            for name in names.iter().filter(|name| !fields.contains_key(&***name)) {
                outcome.add(Violation::required(&path.key(name)));
            }
        }
        outcome
    }
}

/// Returns the correlated field. `apiVersion` and `kind` of the whole object are ignored: both
/// objects were converted to the same version.
fn child<'a>(correlated: Option<Correlated<'a>>, name: &str, path: &ValuePath<'_>) -> Option<Correlated<'a>> {
    correlated?.key(name).filter(|_| !(path.is_root() && matches!(name, "kind" | "apiVersion")))
}

fn check_count(fields: &Map<String, Value>, schema: Schema<'_>, path: &ValuePath<'_>, outcome: &mut Outcome) {
    let found = i64::try_from(fields.len()).unwrap_or(i64::MAX);
    for facet in schema.facets() {
        match *facet {
            Facet::MinProperties(min) if found < min => {
                let message = format!("{path} in body should have at least {min} properties");
                outcome.add(Violation::invalid(path, found, message));
            }
            Facet::MaxProperties(max) if found > max => {
                let message = format!("{path} in body should have at most {max} properties");
                outcome.add(Violation::too_many(path, found, max, message));
            }
            _ => {}
        }
    }
}
