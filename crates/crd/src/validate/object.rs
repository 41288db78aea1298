//! Checks of objects and maps.

use serde_json::{Map, Value};

use super::fault::{Fault, Outcome};
use super::place::Place;
use super::{Correlated, Validator};
use crate::structural::{Additional, Facet, Schema};

impl Validator {
    pub(super) fn fields(
        self,
        schema: Schema<'_>,
        fields: &Map<String, Value>,
        place: &Place<'_>,
        correlated: Option<Correlated<'_>>,
    ) -> Outcome {
        let mut outcome = Outcome::default();
        check_count(fields, schema, place, &mut outcome);
        let additional = schema.additional();
        // What is known is told after what is not, each ascending by name.
        let mut known = Outcome::default();
        for (name, field) in fields {
            if let Some(property) = schema.property(name) {
                let correlated = child(correlated, name, place);
                known.merge(self.correlated(property, field, &place.property(name), correlated));
                continue;
            }
            match additional {
                Additional::Forbidden => {
                    let message = format!("{place}.{name} in body is a forbidden property");
                    outcome.add(Fault::invalid(place, name.as_str(), message));
                }
                Additional::Schema(additional) => {
                    let correlated = child(correlated, name, place);
                    outcome.merge(self.correlated(additional, field, &place.key(name), correlated));
                }
                Additional::Unsaid | Additional::Allowed => {}
            }
        }
        outcome.merge(known);
        for facet in schema.facets() {
            let Facet::Required(names) = facet else { continue };
            for name in names.iter().filter(|name| !fields.contains_key(&***name)) {
                outcome.add(Fault::required(&place.key(name)));
            }
        }
        outcome
    }
}

/// What a field was before. The type of the whole object is not asked for: both were converted to
/// the same.
fn child<'a>(correlated: Option<Correlated<'a>>, name: &str, place: &Place<'_>) -> Option<Correlated<'a>> {
    correlated?.key(name).filter(|_| !(place.is_root() && matches!(name, "kind" | "apiVersion")))
}

fn check_count(fields: &Map<String, Value>, schema: Schema<'_>, place: &Place<'_>, outcome: &mut Outcome) {
    let found = i64::try_from(fields.len()).unwrap_or(i64::MAX);
    for facet in schema.facets() {
        match *facet {
            Facet::MinProperties(min) if found < min => {
                let message = format!("{place} in body should have at least {min} properties");
                outcome.add(Fault::invalid(place, found, message));
            }
            Facet::MaxProperties(max) if found > max => {
                let message = format!("{place} in body should have at most {max} properties");
                outcome.add(Fault::too_many(place, found, max, message));
            }
            _ => {}
        }
    }
}
