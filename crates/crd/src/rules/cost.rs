//! Cost limits of the rules of a definition, based on estimates.

use coracle_meta::field::{ErrorList, FieldError, Path};

use super::declare::{max_items, max_properties};
use crate::structural::{Schema, Type};

/// Maximum estimated cost of one expression.
pub(super) const EXPRESSION_LIMIT: u64 = 10_000_000;

/// Maximum estimated cost of all expressions of a schema.
const SCHEMA_LIMIT: u64 = 100_000_000;

/// Maximum number of expensive rules listed in the error.
const MAX_NAMED: usize = 4;

/// Maximum number of occurrences of a value in an object; `None` if it is unbounded.
pub(super) type Cardinality = Option<u64>;

/// Returns the cardinality of values within a value of this schema.
pub(super) fn within(cardinality: Cardinality, schema: Schema<'_>) -> Cardinality {
    let factor = match schema.ty() {
        Type::Object if schema.additional().is_specified() => max_properties(schema)?,
        Type::Array => max_items(schema)?,
        _ => 1,
    };
    Some(product(cardinality?, factor))
}

/// Saturating multiplication.
pub(super) fn product(cost: u64, times: u64) -> u64 {
    cost.saturating_mul(times)
}

/// The total cost of all rules of a schema.
#[derive(Default)]
pub(super) struct Total {
    sum: u64,
    /// Sorted by cost, descending.
    most_expensive: Vec<(String, u64)>,
}

impl Total {
    pub(super) fn add(&mut self, path: &Path<'_>, cost: u64) {
        self.sum = self.sum.saturating_add(cost);
        // Costs below one percent of the limit are not relevant.
        if cost >= SCHEMA_LIMIT / 100 {
            self.most_expensive.push((path.to_string(), cost));
            self.most_expensive.sort_by_key(|(_, cost)| std::cmp::Reverse(*cost));
            self.most_expensive.truncate(MAX_NAMED);
        }
    }

    /// Rejects a schema whose rules exceed the limit in total.
    pub(super) fn check(&self, path: &Path<'_>, errors: &mut ErrorList) {
        if self.sum <= SCHEMA_LIMIT {
            return;
        }
        for (rule, _) in &self.most_expensive {
            let detail =
                "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
            errors.push(FieldError::forbidden(&Path::root(rule), detail));
        }
        let name = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        errors.push(FieldError::forbidden(path, excess(name, self.sum, SCHEMA_LIMIT)));
    }
}

/// Returns the message for an exceeded limit.
pub(super) fn excess(name: &str, cost: u64, limit: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "the message contains only the order of magnitude")]
    let factor = cost as f64 / limit as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{name} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, \
         maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}
