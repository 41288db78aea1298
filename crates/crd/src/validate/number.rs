//! Checks of numbers.
//!
//! Limits are floating-point numbers in the schema. Upstream first asks whether the limit itself is a
//! number of the type, and compares as whole numbers if so, as floating-point ones otherwise.

use coracle_meta::field::BadValue;
use serde_json::Number;

use super::Types;
use super::fault::{Fault, Outcome};
use super::place::Place;
use crate::structural::{Facet, Schema, Type};

/// The largest whole number up to which every whole number is a float.
const MAX_JSON_INTEGER: f64 = 9_007_199_254_740_991.0;

#[derive(Clone, Copy)]
enum Found {
    Whole(i64),
    Float(f64),
}

impl Found {
    fn float(self) -> f64 {
        match self {
            #[expect(clippy::cast_precision_loss, reason = "upstream compares them so")]
            Self::Whole(number) => number as f64,
            Self::Float(number) => number,
        }
    }
}

/// The type and format that decide the range; only where there is one of each.
#[derive(Clone, Copy)]
struct Range<'a> {
    ty: Type,
    format: &'a str,
}

impl Range<'_> {
    /// Whether a number is in the range of the type.
    fn contains(self, number: Found) -> bool {
        match (self.ty, self.format) {
            (Type::Integer, "int32") => whole(number).is_some_and(|number| i32::try_from(number).is_ok()),
            (Type::Integer, _) => whole(number).is_some(),
            #[expect(clippy::cast_possible_truncation, reason = "whether it fits is the question")]
            (Type::Number, "float") => (number.float() as f32).is_finite(),
            _ => true,
        }
    }

    fn fault(self, what: &str, place: &Place<'_>) -> Fault {
        let ty = self.ty.name();
        Fault::whole(match self.format {
            "" => format!("{what} value must be of type {ty} (default format) in {place}"),
            format => format!("{what} value must be of type {ty} with format {format} in {place}"),
        })
    }
}

fn whole(number: Found) -> Option<i64> {
    match number {
        Found::Whole(number) => Some(number),
        Found::Float(number) if number.fract() == 0.0 && number.abs() <= MAX_JSON_INTEGER => {
            Some(cut(number))
        }
        // Upstream writes the number down and reads it as a whole one.
        Found::Float(number) => format!("{number}").parse().ok(),
    }
}

pub(super) fn check(
    number: &Number,
    types: Types,
    format: &str,
    schema: Schema<'_>,
    place: &Place<'_>,
) -> Outcome {
    let number = match (number.as_i64(), number.as_f64()) {
        (Some(whole), _) => Found::Whole(whole),
        (None, float) => Found::Float(float.unwrap_or(f64::NAN)),
    };
    let ty = types.single().filter(|ty| matches!(ty, Type::Integer | Type::Number)).unwrap_or(Type::Unsaid);
    let format = match (ty, format) {
        (Type::Integer, "int32" | "int64") | (Type::Number, "float" | "double") => format,
        _ => "",
    };
    let check = Check { number, range: Range { ty, format }, place };
    let mut outcome = Outcome { matches: 1, ..Outcome::default() };
    if !check.range.contains(number) {
        outcome.add(check.range.fault("Checked", place));
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
    number: Found,
    range: Range<'a>,
    place: &'a Place<'a>,
}

impl Check<'_> {
    fn limit(
        &self,
        what: &str,
        limit: f64,
        outcome: &mut Outcome,
        check: impl FnOnce(Option<i64>) -> Option<Fault>,
    ) {
        let fits = self.range.contains(Found::Float(limit));
        if !fits {
            outcome.add(self.range.fault(what, self.place));
        }
        let as_whole = match self.number {
            Found::Whole(number) if fits => Some(number),
            _ => None,
        };
        check(as_whole).into_iter().for_each(|fault| outcome.add(fault));
    }

    fn maximum(&self, max: f64, exclusive: bool, as_whole: Option<i64>) -> Option<Fault> {
        let exceeds = match as_whole {
            Some(number) => number > cut(max) || (exclusive && number == cut(max)),
            None => self.number.float() > max || (exclusive && self.number.float() == max),
        };
        let less = if exclusive { "less than" } else { "less than or equal to" };
        exceeds.then(|| self.beyond(&format!("should be {less}"), max, as_whole))
    }

    fn minimum(&self, min: f64, exclusive: bool, as_whole: Option<i64>) -> Option<Fault> {
        let falls_short = match as_whole {
            Some(number) => number < cut(min) || (exclusive && number == cut(min)),
            None => self.number.float() < min || (exclusive && self.number.float() == min),
        };
        let greater = if exclusive { "greater than" } else { "greater than or equal to" };
        falls_short.then(|| self.beyond(&format!("should be {greater}"), min, as_whole))
    }

    fn beyond(&self, what: &str, limit: f64, as_whole: Option<i64>) -> Fault {
        match as_whole {
            Some(number) => self.fault(number.into(), format!("{what} {}", cut(limit))),
            None => self.fault(self.number.float().into(), format!("{what} {}", go_float(limit))),
        }
    }

    fn multiple_of(&self, factor: f64, as_whole: Option<i64>) -> Option<Fault> {
        let (is_positive, is_multiple, shown, factor_value) = match as_whole {
            Some(number) => {
                let factor = cut(factor);
                (factor > 0, factor > 0 && number % factor == 0, factor.to_string(), BadValue::from(factor))
            }
            None => {
                let number = self.number.float();
                let times = if factor < 1.0 { 1.0 / factor * number } else { number / factor };
                (factor > 0.0, is_json_integer(times), go_float(factor), BadValue::from(factor))
            }
        };
        if !is_positive {
            let message = format!("factor MultipleOf declared for {} must be positive: {shown}", self.place);
            return Some(Fault::invalid(self.place, factor_value, message));
        }
        let found = as_whole.map_or_else(|| BadValue::from(self.number.float()), BadValue::from);
        (!is_multiple).then(|| self.fault(found, format!("should be a multiple of {shown}")))
    }

    fn fault(&self, found: BadValue, message: String) -> Fault {
        Fault::invalid(self.place, found, format!("{} in body {message}", self.place))
    }
}

/// Without what is after the point.
fn cut(number: f64) -> i64 {
    #[expect(clippy::cast_possible_truncation, reason = "limits of whole numbers are cut off so upstream")]
    let cut = number as i64;
    cut
}

fn go_float(number: f64) -> String {
    BadValue::Float(number).to_string()
}

/// Whether a number is a whole one that JSON can carry, give or take what computing it costs. Upstream
/// gives nothing below zero.
pub(super) fn is_json_integer(number: f64) -> bool {
    const EPSILON: f64 = 1e-9;
    let whole = number.trunc();
    if !number.is_finite() || number.abs() > MAX_JSON_INTEGER {
        return false;
    }
    number == whole || (whole > 0.0 && (number - whole) / (number + whole) < EPSILON)
}
