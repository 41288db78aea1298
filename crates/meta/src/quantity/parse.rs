//! Reads a quantity, in all the ways that upstream takes.

use std::str::FromStr;

use super::{Format, Quantity, shift_decimal};

/// Text that is not a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseQuantityError {
    /// It does not have the form.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    /// Its number cannot be read, or has too many digits.
    #[error("unable to parse numeric part of quantity")]
    Numeric,
    /// Its suffix is unknown.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

/// What a suffix means.
#[derive(Clone, Copy)]
struct Suffix {
    format: Format,
    /// Of ten, or of two for [`Format::BinarySi`].
    exponent: i32,
}

/// The pieces of a quantity's text.
struct Pieces<'a> {
    negative: bool,
    /// Without leading zeros, but never empty.
    whole: &'a str,
    fraction: &'a str,
    suffix: &'a str,
}

/// Finest fraction that is kept, as a power of ten.
const FINEST: i64 = -9;

impl FromStr for Quantity {
    type Err = ParseQuantityError;

    fn from_str(text: &str) -> Result<Self, ParseQuantityError> {
        let pieces = split(text)?;
        let suffix = interpret(pieces.suffix).ok_or(ParseQuantityError::Suffix)?;
        let short = is_short(&pieces, suffix);
        if !short && !text.strip_suffix(pieces.suffix).unwrap_or(text).contains(|c: char| c.is_ascii_digit())
        {
            return Err(ParseQuantityError::Numeric);
        }
        let mut quantity = match suffix.format {
            Format::BinarySi => binary(&pieces, suffix.exponent)?,
            format => {
                let exponent = i64::from(suffix.exponent) - length(pieces.fraction);
                rounded(digits(&pieces)?, exponent, format)?
            }
        };
        if pieces.negative {
            quantity.mantissa = -quantity.mantissa;
        }
        if short && looks_canonical(&pieces, suffix) && quantity.to_string() != text {
            quantity.text = Some(text.into());
        }
        Ok(quantity)
    }
}

/// Takes the text apart. Digits may be missing everywhere: `.`, `-` and `Ki` are zero.
fn split(text: &str) -> Result<Pieces<'_>, ParseQuantityError> {
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
        Ok(Pieces { negative, whole, fraction, suffix })
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
            #[expect(clippy::cast_possible_truncation, reason = "upstream cuts the exponent to 32 bits")]
            let exponent = number as i32;
            (Format::DecimalExponent, exponent)
        }
    };
    Some(Suffix { format, exponent })
}

/// All digits as one number.
fn digits(pieces: &Pieces<'_>) -> Result<i128, ParseQuantityError> {
    let mut number: i128 = 0;
    for byte in pieces.whole.bytes().chain(pieces.fraction.trim_end_matches('0').bytes()) {
        let digit = i128::from(byte - b'0');
        number = number
            .checked_mul(10)
            .and_then(|number| number.checked_add(digit))
            .ok_or(ParseQuantityError::Numeric)?;
    }
    let zeros = length(pieces.fraction) - length(pieces.fraction.trim_end_matches('0'));
    let (number, _) = shift_decimal(number, zeros).ok_or(ParseQuantityError::Numeric)?;
    Ok(number)
}

/// A number with nothing finer than a billionth, rounded up.
fn rounded(number: i128, exponent: i64, format: Format) -> Result<Quantity, ParseQuantityError> {
    let shift = (exponent - FINEST).min(0);
    let (number, _) = shift_decimal(number, shift).ok_or(ParseQuantityError::Numeric)?;
    let exponent = i32::try_from(exponent.max(FINEST)).map_err(|_| ParseQuantityError::Numeric)?;
    Ok(Quantity::from_parts(number, exponent, format))
}

/// A number with a binary suffix, which upstream caps at the largest `i64`.
fn binary(pieces: &Pieces<'_>, exponent: i32) -> Result<Quantity, ParseQuantityError> {
    let largest = Quantity::new(i64::MAX, Format::BinarySi);
    let factor = 1_i128 << exponent;
    let whole = pieces.whole.parse::<i128>().ok().and_then(|whole| whole.checked_mul(factor));
    if whole.is_none_or(|whole| whole >= i64::MAX.into()) {
        return Ok(largest);
    }
    let number = digits(pieces)?.checked_mul(factor).ok_or(ParseQuantityError::Numeric)?;
    let quantity = rounded(number, -length(pieces.fraction), Format::BinarySi)?;
    if quantity > largest {
        return Ok(largest);
    }
    let less_than_one = !quantity.is_zero() && quantity < Quantity::new(1, Format::BinarySi);
    Ok(if less_than_one { quantity.with_format(Format::DecimalSi) } else { quantity })
}

/// Whether upstream reads the number without its arbitrary precision. That way has two
/// oddities: it takes missing digits for zero, and it may keep the text; see
/// [`looks_canonical`].
fn is_short(pieces: &Pieces<'_>, suffix: Suffix) -> bool {
    let (whole, fraction) = (length(pieces.whole), length(pieces.fraction));
    let exponent = i64::from(suffix.exponent);
    if suffix.format == Format::BinarySi {
        return fraction == 0 && whole + exponent * 3 / 10 <= 14;
    }
    whole + fraction <= 18 && exponent - fraction >= FINEST
}

/// Whether upstream takes the text for canonical, rightly or not, and so shows it again as
/// it was written: `+1`, `1.234` and `1E3` stay what they are, `1.5` becomes `1500m`.
fn looks_canonical(pieces: &Pieces<'_>, suffix: Suffix) -> bool {
    if suffix.format == Format::BinarySi {
        return pieces.whole.parse::<u64>().is_ok_and(|whole| whole % 8 != 0);
    }
    let exponent = i64::from(suffix.exponent) - length(pieces.fraction);
    let zeros = pieces.whole.bytes().chain(pieces.fraction.bytes()).rev().take_while(|byte| *byte == b'0');
    exponent % 3 == 0 && zeros.count() < 3 && !pieces.whole.starts_with('0')
}

/// A length as a number that may become negative.
fn length(digits: &str) -> i64 {
    i64::try_from(digits.len()).unwrap_or(i64::MAX)
}
