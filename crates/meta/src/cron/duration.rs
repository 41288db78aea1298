//! Durations as Go reads them, such as `1h30m`.

use crate::field::quoted;

/// The longest duration that Go knows, some 292 years.
const MAX_NANOSECONDS: i128 = i64::MAX as i128;

/// How many nanoseconds a duration has; negative if it begins with a minus.
///
/// # Errors
/// Go's message, if it is none.
pub(super) fn go_duration(text: &str) -> Result<i128, String> {
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return Ok(0);
    }
    let mut total = 0;
    loop {
        let (nanoseconds, after) = part(rest, text)?;
        total += nanoseconds;
        if total > MAX_NANOSECONDS {
            return Err(invalid(text));
        }
        if after.is_empty() {
            return Ok(if text.starts_with('-') { -total } else { total });
        }
        rest = after;
    }
}

fn invalid(text: &str) -> String {
    format!("time: invalid duration {}", quoted(text))
}

/// The first number with its unit, in nanoseconds, and what follows.
fn part<'a>(rest: &'a str, text: &str) -> Result<(i128, &'a str), String> {
    let (whole, after) = split_digits(rest);
    let (fraction, after) = after.strip_prefix('.').map_or(("", after), split_digits);
    if whole.is_empty() && fraction.is_empty() {
        return Err(invalid(text));
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| invalid(text))? };
    let end = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
    let (unit, after) = after.split_at(end);
    match (nanoseconds_of(unit), unit) {
        (Some(unit), _) => Ok((i128::from(whole) * i128::from(unit) + fraction_of(fraction, unit), after)),
        (None, "") => Err(format!("time: missing unit in duration {}", quoted(text))),
        (None, unit) => Err(format!("time: unknown unit {} in duration {}", quoted(unit), quoted(text))),
    }
}

/// So many tenths, hundredths and so on of a unit. More digits than nanoseconds can tell do not count.
fn fraction_of(digits: &str, unit: u64) -> i128 {
    let mut place = i128::from(unit);
    let digits = digits.bytes().map(|digit| i128::from(digit - b'0'));
    digits
        .take(18)
        .map_while(|digit| {
            place /= 10;
            (place > 0).then_some(digit * place)
        })
        .sum()
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

fn nanoseconds_of(unit: &str) -> Option<u64> {
    Some(match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}
