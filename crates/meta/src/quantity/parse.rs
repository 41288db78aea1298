//! Parser for quantities, which accepts every format that Kubernetes accepts.

use std::str::FromStr;

use super::{Format, Quantity, shift_decimal};

/// The reason why a string is not a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseQuantityError {
    /// The string does not match the format.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    /// The number is malformed, or has too many digits.
    #[error("unable to parse numeric part of quantity")]
    Numeric,
    /// The suffix is unknown.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

/// A parsed suffix.
#[derive(Clone, Copy)]
struct Suffix {
    format: Format,
    /// Exponent of ten, or of two for [`Format::BinarySi`].
    exponent: i32,
}

/// The parts of a quantity's text.
struct Parts<'a> {
    negative: bool,
    /// Without leading zeros, but not empty.
    whole: &'a str,
    fraction: &'a str,
    suffix: &'a str,
}

/// Resolution, as a power of ten.
const RESOLUTION: i64 = -9;

impl FromStr for Quantity {
    type Err = ParseQuantityError;

    fn from_str(text: &str) -> Result<Self, ParseQuantityError> {
        let parts = split(text)?;
        let suffix = interpret(parts.suffix).ok_or(ParseQuantityError::Suffix)?;
        let is_short_number = is_short(&parts, suffix);
        if !is_short_number
            && !text.strip_suffix(parts.suffix).unwrap_or(text).contains(|c: char| c.is_ascii_digit())
        {
            return Err(ParseQuantityError::Numeric);
        }
        let mut quantity = match suffix.format {
            Format::BinarySi => binary(&parts, suffix.exponent)?,
            format => {
                let exponent = i64::from(suffix.exponent) - length(parts.fraction);
                rounded(digits(&parts)?, exponent, format)?
            }
        };
        if parts.negative {
            quantity.mantissa = -quantity.mantissa;
        }
        if is_short_number && looks_canonical(&parts, suffix) && quantity.to_string() != text {
            quantity.text = Some(text.into());
        }
        Ok(quantity)
    }
}

/// Splits the text. All digits are optional: `.`, `-` and `Ki` are zero.
fn split(text: &str) -> Result<Parts<'_>, ParseQuantityError> {
    if text.is_empty() {
        return Err(ParseQuantityError::Format);
    }
    let negative = text.starts_with('-');
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (whole, rest) = take_while(unsigned, |byte| byte.is_ascii_digit());
    let whole = match whole.trim_start_matches('0') {
        "" => "0",
        whole => whole,
    };
    let (fraction, suffix) = match rest.strip_prefix('.') {
        Some(rest) => take_while(rest, |byte| byte.is_ascii_digit()),
        None => ("", rest),
    };
    let (_, end) = take_while(suffix, |byte| b"eEinumkKMGTP".contains(&byte));
    let end = end.strip_prefix(['-', '+']).unwrap_or(end);
    if end.bytes().all(|byte| byte.is_ascii_digit()) {
        Ok(Parts { negative, whole, fraction, suffix })
    } else {
        Err(ParseQuantityError::Format)
    }
}

fn take_while(text: &str, fits: impl Fn(u8) -> bool) -> (&str, &str) {
    text.split_at(text.bytes().position(|byte| !fits(byte)).unwrap_or(text.len()))
}

fn interpret(suffix: &str) -> Option<Suffix> {
    let (format, exponent) = match suffix {
        "n" => (Format::DecimalSi, -9),
        "u" => (Format::DecimalSi, -6),
        "m" => (Format::DecimalSi, -3),
        "" => (Format::DecimalSi, 0),
        "k" => (Format::DecimalSi, 3),
        "M" => (Format::DecimalSi, 6),
        "G" => (Format::DecimalSi, 9),
        "T" => (Format::DecimalSi, 12),
        "P" => (Format::DecimalSi, 15),
        "E" => (Format::DecimalSi, 18),
        "Ki" => (Format::BinarySi, 10),
        "Mi" => (Format::BinarySi, 20),
        "Gi" => (Format::BinarySi, 30),
        "Ti" => (Format::BinarySi, 40),
        "Pi" => (Format::BinarySi, 50),
        "Ei" => (Format::BinarySi, 60),
        _ => {
            let number: i64 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            #[expect(
                clippy::cast_possible_truncation,
                reason = "apimachinery truncates the exponent to 32 bits"
            )]
            let exponent = number as i32;
            (Format::DecimalExponent, exponent)
        }
    };
    Some(Suffix { format, exponent })
}

/// Parses all digits as one number.
fn digits(parts: &Parts<'_>) -> Result<i128, ParseQuantityError> {
    let mut number: i128 = 0;
    for byte in parts.whole.bytes().chain(parts.fraction.trim_end_matches('0').bytes()) {
        let digit = i128::from(byte - b'0');
        number = number
            .checked_mul(10)
            .and_then(|number| number.checked_add(digit))
            .ok_or(ParseQuantityError::Numeric)?;
    }
    let zeros = length(parts.fraction) - length(parts.fraction.trim_end_matches('0'));
    let (number, _) = shift_decimal(number, zeros).ok_or(ParseQuantityError::Numeric)?;
    Ok(number)
}

/// Creates a quantity, rounded up to a billionth.
fn rounded(number: i128, exponent: i64, format: Format) -> Result<Quantity, ParseQuantityError> {
    let shift = (exponent - RESOLUTION).min(0);
    let (number, _) = shift_decimal(number, shift).ok_or(ParseQuantityError::Numeric)?;
    let exponent = i32::try_from(exponent.max(RESOLUTION)).map_err(|_| ParseQuantityError::Numeric)?;
    Ok(Quantity::from_parts(number, exponent, format))
}

/// Creates a quantity with a binary suffix, which apimachinery caps at the largest `i64`.
fn binary(parts: &Parts<'_>, exponent: i32) -> Result<Quantity, ParseQuantityError> {
    let largest = Quantity::new(i64::MAX, Format::BinarySi);
    let factor = 1_i128 << exponent;
    let whole = parts.whole.parse::<i128>().ok().and_then(|whole| whole.checked_mul(factor));
    if whole.is_none_or(|whole| whole >= i64::MAX.into()) {
        return Ok(largest);
    }
    let number = digits(parts)?.checked_mul(factor).ok_or(ParseQuantityError::Numeric)?;
    let quantity = rounded(number, -length(parts.fraction), Format::BinarySi)?;
    if quantity > largest {
        return Ok(largest);
    }
    let less_than_one = !quantity.is_zero() && quantity < Quantity::new(1, Format::BinarySi);
    Ok(if less_than_one { quantity.with_format(Format::DecimalSi) } else { quantity })
}

/// Returns true if apimachinery parses the number on its fast path, without arbitrary precision.
/// That path has two peculiarities: missing digits are zero, and it may preserve the text; see
/// [`looks_canonical`].
fn is_short(parts: &Parts<'_>, suffix: Suffix) -> bool {
    let (whole, fraction) = (length(parts.whole), length(parts.fraction));
    let exponent = i64::from(suffix.exponent);
    if suffix.format == Format::BinarySi {
        return fraction == 0 && whole + exponent * 3 / 10 <= 14;
    }
    whole + fraction <= 18 && exponent - fraction >= RESOLUTION
}

/// Returns true if apimachinery considers the text canonical, correctly or not, and so prints it
/// unchanged: `+1`, `1.234` and `1E3` stay as they are, `1.5` becomes `1500m`.
fn looks_canonical(parts: &Parts<'_>, suffix: Suffix) -> bool {
    if suffix.format == Format::BinarySi {
        return parts.whole.parse::<u64>().is_ok_and(|whole| whole % 8 != 0);
    }
    let exponent = i64::from(suffix.exponent) - length(parts.fraction);
    let zeros = parts.whole.bytes().chain(parts.fraction.bytes()).rev().take_while(|byte| *byte == b'0');
    exponent % 3 == 0 && zeros.count() < 3 && !parts.whole.starts_with('0')
}

/// Returns the length as a signed number.
fn length(digits: &str) -> i64 {
    i64::try_from(digits.len()).unwrap_or(i64::MAX)
}
