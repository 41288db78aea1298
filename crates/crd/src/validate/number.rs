//! Validation of numbers.
//!
//! Limits in the schema are floating-point numbers. kube-apiserver first checks whether the limit
//! itself is a value of the type; if so it compares as integers, otherwise as floating-point
//! numbers.

use coracle_meta::field::BadValue;
use serde_json::Number;

use super::Types;
use super::path::ValuePath;
use super::violation::{Outcome, Violation};
use crate::structural::{Facet, Schema, Type};

/// The largest integer up to which all integers are exactly representable as a float64.
const MAX_JSON_INTEGER: f64 = 9_007_199_254_740_991.0;

#[derive(Clone, Copy)]
enum ParsedNumber {
    Whole(i64),
    Float(f64),
}

impl ParsedNumber {
    fn float(self) -> f64 {
        match self {
            #[expect(clippy::cast_precision_loss, reason = "kube-apiserver compares floats")]
            Self::Whole(number) => number as f64,
            Self::Float(number) => number,
        }
    }
}

/// Type and format that determine the range; unspecified if there are several.
#[derive(Clone, Copy)]
struct Range<'a> {
    ty: Type,
    format: &'a str,
}

impl Range<'_> {
    /// Returns true if a number is in the range of the type.
    fn contains(self, number: ParsedNumber) -> bool {
        match (self.ty, self.format) {
            (Type::Integer, "int32") => whole(number).is_some_and(|number| i32::try_from(number).is_ok()),
            (Type::Integer, _) => whole(number).is_some(),
            #[expect(clippy::cast_possible_truncation, reason = "the result is only tested for overflow")]
            (Type::Number, "float") => (number.float() as f32).is_finite(),
            _ => true,
        }
    }

    fn violation(self, what: &str, path: &ValuePath<'_>) -> Violation {
        let ty = self.ty.name();
        Violation::whole(match self.format {
            "" => format!("{what} value must be of type {ty} (default format) in {path}"),
            format => format!("{what} value must be of type {ty} with format {format} in {path}"),
        })
    }
}

fn whole(number: ParsedNumber) -> Option<i64> {
    match number {
        ParsedNumber::Whole(number) => Some(number),
        ParsedNumber::Float(number) if number.fract() == 0.0 && number.abs() <= MAX_JSON_INTEGER => {
            Some(truncate(number))
        }
        // kube-apiserver formats the number and parses it as an integer.
        ParsedNumber::Float(number) => format!("{number}").parse().ok(),
    }
}

pub(super) fn check(
    number: &Number,
    types: Types,
    format: &str,
    schema: Schema<'_>,
    path: &ValuePath<'_>,
) -> Outcome {
    let number = match (number.as_i64(), number.as_f64()) {
        (Some(whole), _) => ParsedNumber::Whole(whole),
        (None, float) => ParsedNumber::Float(float.unwrap_or(f64::NAN)),
    };
    let ty =
        types.single().filter(|ty| matches!(ty, Type::Integer | Type::Number)).unwrap_or(Type::Unspecified);
    let format = match (ty, format) {
        (Type::Integer, "int32" | "int64") | (Type::Number, "float" | "double") => format,
        _ => "",
    };
    let check = Check { number, range: Range { ty, format }, path };
    let mut outcome = Outcome { matches: 1, ..Outcome::default() };
    if !check.range.contains(number) {
        outcome.add(check.range.violation("Checked", path));
    }
    for facet in schema.facets() {
        if let Facet::MultipleOf(factor) = *facet {
            check.limit("MultipleOf", factor, &mut outcome, |as_whole| check.multiple_of(factor, as_whole));
        }
    }
    for facet in schema.facets() {
        if let Facet::Minimum(min) = *facet {
            let exclusive = schema.excludes_minimum();
            check.limit("Minimum boundary", min, &mut outcome, |as_whole| {
                check.minimum(min, exclusive, as_whole)
            });
        }
    }
    for facet in schema.facets() {
        if let Facet::Maximum(max) = *facet {
            let exclusive = schema.excludes_maximum();
            check.limit("Maximum boundary", max, &mut outcome, |as_whole| {
                check.maximum(max, exclusive, as_whole)
            });
        }
    }
    outcome
}

struct Check<'a> {
    number: ParsedNumber,
    range: Range<'a>,
    path: &'a ValuePath<'a>,
}

impl Check<'_> {
    fn limit(
        &self,
        what: &str,
        limit: f64,
        outcome: &mut Outcome,
        check: impl FnOnce(Option<i64>) -> Option<Violation>,
    ) {
        let fits = self.range.contains(ParsedNumber::Float(limit));
        if !fits {
            outcome.add(self.range.violation(what, self.path));
        }
        let as_whole = match self.number {
            ParsedNumber::Whole(number) if fits => Some(number),
            _ => None,
        };
        check(as_whole).into_iter().for_each(|violation| outcome.add(violation));
    }

    fn maximum(&self, max: f64, exclusive: bool, as_whole: Option<i64>) -> Option<Violation> {
        let exceeds = match as_whole {
            Some(number) => number > truncate(max) || (exclusive && number == truncate(max)),
            None => self.number.float() > max || (exclusive && self.number.float() == max),
        };
        let less = if exclusive { "less than" } else { "less than or equal to" };
        exceeds.then(|| self.out_of_bounds(&format!("should be {less}"), max, as_whole))
    }

    fn minimum(&self, min: f64, exclusive: bool, as_whole: Option<i64>) -> Option<Violation> {
        let falls_short = match as_whole {
            Some(number) => number < truncate(min) || (exclusive && number == truncate(min)),
            None => self.number.float() < min || (exclusive && self.number.float() == min),
        };
        let greater = if exclusive { "greater than" } else { "greater than or equal to" };
        falls_short.then(|| self.out_of_bounds(&format!("should be {greater}"), min, as_whole))
    }

    fn out_of_bounds(&self, what: &str, limit: f64, as_whole: Option<i64>) -> Violation {
        match as_whole {
            Some(number) => self.violation(number.into(), format!("{what} {}", truncate(limit))),
            None => self.violation(self.number.float().into(), format!("{what} {}", go_float(limit))),
        }
    }

    fn multiple_of(&self, factor: f64, as_whole: Option<i64>) -> Option<Violation> {
        let (is_positive, is_multiple, factor_text, factor_value) = match as_whole {
            Some(number) => {
                let factor = truncate(factor);
                (factor > 0, factor > 0 && number % factor == 0, factor.to_string(), BadValue::from(factor))
            }
            None => {
                let number = self.number.float();
                let times = if factor < 1.0 { 1.0 / factor * number } else { number / factor };
                (factor > 0.0, is_json_integer(times), go_float(factor), BadValue::from(factor))
            }
        };
        if !is_positive {
            let message =
                format!("factor MultipleOf declared for {} must be positive: {factor_text}", self.path);
            return Some(Violation::invalid(self.path, factor_value, message));
        }
        let found = as_whole.map_or_else(|| BadValue::from(self.number.float()), BadValue::from);
        (!is_multiple).then(|| self.violation(found, format!("should be a multiple of {factor_text}")))
    }

    fn violation(&self, found: BadValue, message: String) -> Violation {
        Violation::invalid(self.path, found, format!("{} in body {message}", self.path))
    }
}

/// Truncates the fraction.
fn truncate(number: f64) -> i64 {
    #[expect(clippy::cast_possible_truncation, reason = "kube-apiserver truncates limits of integers")]
    let truncate = number as i64;
    truncate
}

fn go_float(number: f64) -> String {
    BadValue::Float(number).to_string()
}

/// Returns true if a number is an integer within the range of JSON, up to rounding errors.
/// kube-apiserver allows no rounding errors for negative numbers.
pub(super) fn is_json_integer(number: f64) -> bool {
    const EPSILON: f64 = 1e-9;
    let whole = number.trunc();
    if !number.is_finite() || number.abs() > MAX_JSON_INTEGER {
        return false;
    }
    number == whole || (whole > 0.0 && (number - whole) / (number + whole) < EPSILON)
}
