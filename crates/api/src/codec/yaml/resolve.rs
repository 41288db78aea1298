//! Resolution of plain scalars in YAML 1.1.

use serde_json::{Number, Value};

/// A scalar that JSON can express, or a number that it cannot.
pub(super) enum Resolved {
    Value(Value),
    /// NaN or infinity.
    NoNumber(&'static str),
}

/// Resolves a plain scalar without a tag.
pub(super) fn plain(text: &str) -> Resolved {
    let value = match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            Value::Bool(true)
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Value::Bool(false)
        }
        ".nan" | ".NaN" | ".NAN" => return Resolved::NoNumber("NaN"),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => return Resolved::NoNumber("+Inf"),
        "-.inf" | "-.Inf" | "-.INF" => return Resolved::NoNumber("-Inf"),
        _ => return number(text),
    };
    Resolved::Value(value)
}

fn number(text: &str) -> Resolved {
    let first = text.as_bytes()[0];
    let number = match first {
        b'.' if is_decimal(text) => text.parse().ok(),
        b'+' | b'-' | b'0'..=b'9' => {
            // YAML timestamps are strings here, and an underscore may be anywhere.
            let digits = text.replace('_', "");
            if let Some(whole) = whole(&digits) {
                return Resolved::Value(whole);
            }
            is_decimal(&digits).then(|| digits.parse().ok()).flatten()
        }
        _ => None,
    };
    match number.and_then(Number::from_f64) {
        Some(number) => Resolved::Value(Value::Number(number)),
        // Go reports a range error, and the scalar remains a string.
        None => Resolved::Value(Value::from(text)),
    }
}

/// An integer of 64 bits with the prefix of its base; a leading zero is one too.
fn whole(text: &str) -> Option<Value> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (base, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &digits[2..]),
        [b'0', b'b' | b'B', ..] => (2, &digits[2..]),
        [b'0', b'o' | b'O', ..] => (8, &digits[2..]),
        [b'0', _, ..] => (8, &digits[1..]),
        _ => (10, digits),
    };
    if digits.starts_with(['+', '-']) {
        return None;
    }
    let size = u64::from_str_radix(digits, base).ok()?;
    if negative {
        return 0_i64.checked_sub_unsigned(size).map(Value::from);
    }
    Some(Value::from(size))
}

/// Digits with at most one point and an optional exponent.
fn is_decimal(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let all_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let (before, after) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let has_digits = !before.is_empty() || !after.is_empty();
    let exponent_fits = exponent.is_none_or(|exponent| {
        let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        !digits.is_empty() && all_digits(digits)
    });
    has_digits && all_digits(before) && all_digits(after) && exponent_fits
}
