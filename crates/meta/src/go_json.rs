//! JSON numbers in the form in which kube-apiserver stores and prints them.
//!
//! kube-apiserver decodes a number of an untyped tree as an int64 if its text is an integer of that
//! size, and as a float64 otherwise, and prints it with Go's `encoding/json`. A tree of this crate
//! has one canonical form for each number: the one that parsing its printed text yields. So numbers
//! that print alike compare equal, and an object that was stored and read again equals the object
//! that was stored.

use std::io;
use std::ops::Range;

use serde::{Deserialize, Serialize};
use serde_json::de::StrRead;
use serde_json::ser::{CompactFormatter, Formatter, Serializer};
use serde_json::{Deserializer, Number, Value};

use crate::patch::MAX_DEPTH;

/// Decimal exponents for which Go's `encoding/json` prints no exponent.
const PLAIN_IN_JSON: Range<i32> = -6..21;

/// Decimal exponents for which Go's `%v` and its YAML encoder print no exponent.
const PLAIN_IN_GENERAL: Range<i32> = -4..6;

/// Absolute values of fractional numbers that `serde_json` prints exactly as Go does.
const SAME_TEXT_AS_SERDE_JSON: Range<f64> = 1e-4..1e15;

/// The largest magnitude up to which every integer is exactly representable as a float64.
const MAX_EXACT_INTEGER: f64 = 9_007_199_254_740_992.0;

/// Converts a float64 in an untyped tree. `None` if JSON cannot express it.
///
/// Negative zero becomes zero: kube-apiserver prints it as `-0` and reads that as an integer when
/// it loads the object.
pub fn number(value: f64) -> Option<Number> {
    if value.fract() != 0.0 {
        return Number::from_f64(value);
    }
    if value.abs() <= MAX_EXACT_INTEGER {
        #[expect(clippy::cast_possible_truncation, reason = "it is whole and fits")]
        return Some((value as i64).into());
    }
    // Go prints the shortest digits and pads with zeros, so the printed integer may differ from the
    // exact value of the float64.
    let text = float_text(value);
    let signed = text.parse::<i64>().map(Number::from);
    let whole = signed.or_else(|_| text.parse::<u64>().map(Number::from));
    whole.ok().or_else(|| Number::from_f64(value))
}

/// Converts a float64 in a field of type float64. `None` if JSON cannot express it. Negative zero
/// is preserved, because kube-apiserver decodes the field as a float64 again.
pub fn typed_number(value: f64) -> Option<Number> {
    if value == 0.0 && value.is_sign_negative() { Number::from_f64(value) } else { number(value) }
}

/// Formats a float64 as Go's `encoding/json` does.
pub fn float_text(value: f64) -> String {
    Digits::of(value).text(PLAIN_IN_JSON, 1)
}

/// Formats a float64 as Go's `%v` and its YAML encoder do.
pub fn general_text(value: f64) -> String {
    Digits::of(value).text(PLAIN_IN_GENERAL, 2)
}

/// Formats a float32 like [`general_text`], with the digits of a float32; the YAML decoder prints
/// keys so.
pub fn general_text_of_f32(value: f32) -> String {
    Digits::read(|text| CompactFormatter.write_f32(text, value)).text(PLAIN_IN_GENERAL, 2)
}

/// The shortest decimal that parses to a number; among those the nearest, with an even last digit
/// on a tie.
///
/// `serde_json` computes the digits, because `std` does not round to even.
struct Digits {
    is_negative: bool,
    /// Without decimal point and trailing zeros.
    digits: String,
    /// Decimal exponent of the first digit.
    exponent: i32,
}

impl Digits {
    fn of(value: f64) -> Self {
        Self::read(|text| CompactFormatter.write_f64(text, value))
    }

    /// Parses the text that `write` produces.
    fn read(write: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> Self {
        let mut text = Vec::with_capacity(32);
        write(&mut text).expect("memory takes every number");
        let text = std::str::from_utf8(&text).expect("numbers are ASCII");
        let unsigned = text.strip_prefix('-').unwrap_or(text);
        let (decimal, exponent) = unsigned.split_once('e').unwrap_or((unsigned, "0"));
        let exponent: i32 = exponent.parse().expect("the exponent of a float64 has at most three digits");
        let (whole, fraction) = decimal.split_once('.').unwrap_or((decimal, ""));
        let all = format!("{whole}{fraction}");
        let significant = all.trim_start_matches('0');
        let digits = significant.trim_end_matches('0').to_owned();
        // At most 17 digits and 4 zeros.
        let shift = (all.len() - significant.len() + 1) as i32;
        Self { is_negative: text.starts_with('-'), digits, exponent: exponent + whole.len() as i32 - shift }
    }

    /// Formats the number, with an exponent of at least `exponent_digits` digits outside of
    /// `plain`. A positive exponent always has at least two digits.
    fn text(&self, plain: Range<i32>, exponent_digits: usize) -> String {
        let Self { digits, exponent, .. } = self;
        let sign = if self.is_negative { "-" } else { "" };
        if digits.is_empty() {
            return format!("{sign}0");
        }
        let size = exponent.unsigned_abs() as usize;
        if !plain.contains(exponent) {
            let (first, rest) = digits.split_at(1);
            let point = if rest.is_empty() { "" } else { "." };
            return match *exponent < 0 {
                true => format!("{sign}{first}{point}{rest}e-{size:0exponent_digits$}"),
                false => format!("{sign}{first}{point}{rest}e+{size:02}"),
            };
        }
        if *exponent < 0 {
            return format!("{sign}0.{:0>width$}", digits, width = size - 1 + digits.len());
        }
        match digits.split_at_checked(size + 1) {
            Some((whole, "")) => format!("{sign}{whole}"),
            Some((whole, fraction)) => format!("{sign}{whole}.{fraction}"),
            None => format!("{sign}{digits:0<width$}", width = size + 1),
        }
    }
}

/// Writes compact JSON with numbers formatted as in Go.
///
/// # Errors
/// If the writer fails, or a map key is not a string.
pub fn to_writer(writer: impl io::Write, value: &(impl Serialize + ?Sized)) -> serde_json::Result<()> {
    value.serialize(&mut Serializer::with_formatter(writer, GoNumbers))
}

/// Serializes to compact JSON with numbers formatted as in Go.
///
/// # Errors
/// If a map key is not a string.
pub fn to_vec(value: &(impl Serialize + ?Sized)) -> serde_json::Result<Vec<u8>> {
    let mut text = Vec::with_capacity(128);
    to_writer(&mut text, value)?;
    Ok(text)
}

/// Maximum nesting depth of text that [`read_text`] accepts: an object, the managedFields that are
/// added to it, and the list or watch event around it.
const MAX_TEXT_DEPTH: usize = MAX_DEPTH + 16;

/// Default depth limit of `serde_json`.
const SERDE_JSON_DEPTH: usize = 127;

/// Parses JSON text from a client or server into a tree, such as the value of an annotation.
///
/// # Errors
/// If the text is not JSON, or nested deeper than objects may be.
pub fn from_text(text: &str) -> serde_json::Result<Value> {
    read_text(text, |deserializer| Value::deserialize(deserializer))
}

/// Deserializes JSON text from a client or server, which may be nested as deep as objects.
///
/// # Errors
/// If the text is not JSON, or nested deeper than objects may be, or `read` fails.
pub fn read_text<'t, T>(
    text: &'t str,
    mut read: impl FnMut(&mut Deserializer<StrRead<'t>>) -> serde_json::Result<T>,
) -> serde_json::Result<T> {
    let mut deserializer = Deserializer::from_str(text);
    let result = read(&mut deserializer).and_then(|value| deserializer.end().map(|()| value));
    // The depth is measured only after a failure, because few texts are deep.
    if result.is_ok() || !(SERDE_JSON_DEPTH..=MAX_TEXT_DEPTH).contains(&text_depth(text.as_bytes())) {
        return result;
    }
    let mut deserializer = Deserializer::from_str(text);
    deserializer.disable_recursion_limit();
    let value = read(&mut deserializer)?;
    deserializer.end()?;
    Ok(value)
}

/// Returns the nesting depth of brackets in JSON text. For other text it is an upper bound of the
/// depth that a parser reaches.
fn text_depth(text: &[u8]) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let (mut is_in_string, mut is_escaped) = (false, false);
    for byte in text {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_in_string => is_escaped = true,
            b'"' => is_in_string = !is_in_string,
            b'{' | b'[' if !is_in_string => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' if !is_in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// Parses JSON that this program wrote to the store.
///
/// `serde_json` stops at a depth of 128, which is less than the decoders accept. They limit the
/// depth of every tree that is stored, so this parser has no limit. It recurses, so it must not be
/// used for text from a client; [`from_text`] is for such text.
///
/// # Errors
/// If the text is not JSON.
pub fn from_stored(text: &[u8]) -> serde_json::Result<Value> {
    let mut deserializer = Deserializer::from_slice(text);
    deserializer.disable_recursion_limit();
    let value = Value::deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(value)
}

/// JSON formatter that prints numbers as Go does.
struct GoNumbers;

impl Formatter for GoNumbers {
    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        if value.fract() != 0.0 && SAME_TEXT_AS_SERDE_JSON.contains(&value.abs()) {
            return CompactFormatter.write_f64(writer, value);
        }
        writer.write_all(float_text(value).as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::on_large_stack;

    fn written(value: &Value) -> String {
        String::from_utf8(to_vec(value).unwrap()).unwrap()
    }

    #[test]
    fn text_up_to_depth_limit_of_objects_is_parsed() {
        on_large_stack(|| {
            let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
            for levels in [1, SERDE_JSON_DEPTH, SERDE_JSON_DEPTH + 1, MAX_TEXT_DEPTH] {
                assert!(from_text(&nested(levels)).is_ok(), "{levels}");
            }
            assert!(from_text(&nested(MAX_TEXT_DEPTH + 1)).is_err());
        });
        assert!(from_text("[] []").is_err() && from_text("").is_err());
        assert_eq!(text_depth(br#"{"a[[[": ["\"[[", {}], "b": "]"}"#), 3);
    }

    #[test]
    fn floats_are_formatted_as_in_go() {
        for (value, in_json, in_general) in [
            (0.0, "0", "0"),
            (-0.0, "-0", "-0"),
            (1.0, "1", "1"),
            (1.5, "1.5", "1.5"),
            (-0.25, "-0.25", "-0.25"),
            (0.0001, "0.0001", "0.0001"),
            (0.00001, "0.00001", "1e-05"),
            (0.000_001, "0.000001", "1e-06"),
            (0.000_000_1, "1e-7", "1e-07"),
            (123_456.5, "123456.5", "123456.5"),
            (1e6, "1000000", "1e+06"),
            (1e16, "10000000000000000", "1e+16"),
            (9_223_372_036_854_775_000.0, "9223372036854775000", "9.223372036854775e+18"),
            (1e20, "100000000000000000000", "1e+20"),
            (1e21, "1e+21", "1e+21"),
            (1.25e-12, "1.25e-12", "1.25e-12"),
            (1.5e300, "1.5e+300", "1.5e+300"),
            (5e-324, "5e-324", "5e-324"),
            // Halfway between two texts with the same number of digits: the even one is printed.
            (-f64::from_bits(0x4312_e317_9f33_0455), "-1329060043866389.2", "-1.3290600438663892e+15"),
            (f64::MAX, "1.7976931348623157e+308", "1.7976931348623157e+308"),
        ] {
            assert_eq!((float_text(value).as_str(), general_text(value).as_str()), (in_json, in_general));
            assert_eq!(written(&json!([value])), format!("[{in_json}]"));
        }
        assert_eq!(general_text_of_f32(0.1), "0.1");
        assert_eq!(general_text_of_f32(1_234_567.5), "1.2345675e+06");
    }

    #[test]
    fn number_of_float_equals_parsed_text() {
        for (value, expected) in [
            (1.0, json!(1)),
            (-0.0, json!(0)),
            (-3.0, json!(-3)),
            (0.5, json!(0.5)),
            (9_007_199_254_740_993.0, json!(9_007_199_254_740_992_i64)),
            (9_223_372_036_854_775_000.0, json!(9_223_372_036_854_775_000_i64)),
            (-9_223_372_036_854_775_808.0, json!(-9_223_372_036_854_775_808.0)),
            (18_446_744_073_709_550_000.0, json!(18_446_744_073_709_550_000_u64)),
            (18_446_744_073_709_551_615.0, json!(18_446_744_073_709_551_615.0)),
            (1e20, json!(1e20)),
            (1e300, json!(1e300)),
        ] {
            let number = number(value).map(Value::Number).unwrap();
            assert_eq!(number, expected);
            assert_eq!(serde_json::from_str::<Value>(&written(&number)).unwrap(), expected);
        }
        assert_eq!(number(f64::NAN), None);
        assert_eq!(number(f64::INFINITY), None);
        assert_eq!(written(&json!([typed_number(-0.0), typed_number(2.0)])), "[-0,2]");
    }
}
