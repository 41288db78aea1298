//! The text of a cron schedule: five fields, or a name such as `@daily`.
//!
//! Only whether a schedule can be read is told here, with the messages of the library that
//! upstream reads schedules with (robfig/cron); when it is due is up to the controller.

use coracle_meta::field::quoted;

use super::time_zone;

/// The longest duration that Go knows, some 292 years.
const MAX_NANOSECONDS: u128 = i64::MAX as u128;

/// What a field may hold.
struct Bounds {
    min: u64,
    max: u64,
    names: &'static [(&'static str, u64)],
}

const FIELDS: [Bounds; 5] = [
    Bounds { min: 0, max: 59, names: &[] },
    Bounds { min: 0, max: 23, names: &[] },
    Bounds { min: 1, max: 31, names: &[] },
    Bounds {
        min: 1,
        max: 12,
        names: &[
            ("jan", 1),
            ("feb", 2),
            ("mar", 3),
            ("apr", 4),
            ("may", 5),
            ("jun", 6),
            ("jul", 7),
            ("aug", 8),
            ("sep", 9),
            ("oct", 10),
            ("nov", 11),
            ("dec", 12),
        ],
    },
    Bounds {
        min: 0,
        max: 6,
        names: &[("sun", 0), ("mon", 1), ("tue", 2), ("wed", 3), ("thu", 4), ("fri", 5), ("sat", 6)],
    },
];

/// Whether a schedule can be read.
///
/// # Errors
/// A message for the client, when it cannot.
pub(super) fn check(schedule: &str) -> Result<(), String> {
    let schedule = without_zone(schedule)?;
    if let Some(name) = schedule.strip_prefix('@') {
        return check_name(schedule, name);
    }
    let fields: Vec<_> = schedule.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        return Err(format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" ")));
    }
    fields.iter().zip(&FIELDS).try_for_each(|(field, bounds)| check_field(field, bounds))
}

/// The schedule after a `TZ=` or `CRON_TZ=`, which is refused elsewhere.
fn without_zone(schedule: &str) -> Result<&str, String> {
    if !schedule.starts_with("TZ=") && !schedule.starts_with("CRON_TZ=") {
        return Ok(schedule);
    }
    let Some((zone, rest)) = schedule.split_once(' ') else {
        // Upstream's library panics here, and the message is that of the panic.
        return Err("invalid schedule format: runtime error: slice bounds out of range [:-1]".to_owned());
    };
    let zone = zone.split_once('=').map_or("", |(_, zone)| zone);
    if !zone.is_empty() && !time_zone::is_known(zone) {
        return Err(format!("provided bad location {zone}: unknown time zone {zone}"));
    }
    Ok(rest.trim())
}

fn check_name(schedule: &str, name: &str) -> Result<(), String> {
    if ["yearly", "annually", "monthly", "weekly", "daily", "midnight", "hourly"].contains(&name) {
        return Ok(());
    }
    match name.strip_prefix("every ") {
        Some(duration) => {
            check_duration(duration).map_err(|error| format!("failed to parse duration {schedule}: {error}"))
        }
        None => Err(format!("unrecognized descriptor: {schedule}")),
    }
}

/// Whether Go reads this as a duration, such as `1h30m`.
fn check_duration(text: &str) -> Result<(), String> {
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return Ok(());
    }
    let mut total: u128 = 0;
    loop {
        let (nanoseconds, after) = duration_part(rest, text)?;
        total += nanoseconds;
        if total > MAX_NANOSECONDS {
            return Err(invalid_duration(text));
        }
        if after.is_empty() {
            return Ok(());
        }
        rest = after;
    }
}

fn invalid_duration(text: &str) -> String {
    format!("time: invalid duration {}", quoted(text))
}

/// The first number with its unit, in nanoseconds without their fraction, and what follows.
fn duration_part<'a>(rest: &'a str, text: &str) -> Result<(u128, &'a str), String> {
    let (whole, after) = split_digits(rest);
    let (fraction, after) = after.strip_prefix('.').map_or(("", after), split_digits);
    if whole.is_empty() && fraction.is_empty() {
        return Err(invalid_duration(text));
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| invalid_duration(text))? };
    let end = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
    let (unit, after) = after.split_at(end);
    match (nanoseconds_of(unit), unit) {
        (Some(nanoseconds), _) => Ok((u128::from(whole) * u128::from(nanoseconds), after)),
        (None, "") => Err(format!("time: missing unit in duration {}", quoted(text))),
        (None, unit) => Err(format!("time: unknown unit {} in duration {}", quoted(unit), quoted(text))),
    }
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

fn check_field(field: &str, bounds: &Bounds) -> Result<(), String> {
    field.split(',').filter(|range| !range.is_empty()).try_for_each(|range| check_range(range, bounds))
}

/// A number, or `first-last`, or `*`, each perhaps with a `/step`.
fn check_range(range: &str, bounds: &Bounds) -> Result<(), String> {
    let steps: Vec<_> = range.split('/').collect();
    let ends: Vec<_> = steps[0].split('-').collect();
    let (first, mut last) = match ends.as_slice() {
        ["*" | "?", ..] => (bounds.min, bounds.max),
        [only] => {
            let only = number_or_name(only, bounds)?;
            (only, only)
        }
        [first, last] => (number_or_name(first, bounds)?, number_or_name(last, bounds)?),
        _ => {
            number_or_name(ends[0], bounds)?;
            return Err(format!("too many hyphens: {range}"));
        }
    };
    let step = match steps.as_slice() {
        [_] => 1,
        [_, step] => number(step)?,
        _ => return Err(format!("too many slashes: {range}")),
    };
    // `3/5` means `3-/5`, to the end.
    if steps.len() == 2 && ends.len() == 1 {
        last = bounds.max;
    }
    check_bounds(first, last, step, range, bounds)
}

fn check_bounds(first: u64, last: u64, step: u64, range: &str, bounds: &Bounds) -> Result<(), String> {
    let Bounds { min, max, .. } = bounds;
    if first < *min {
        Err(format!("beginning of range ({first}) below minimum ({min}): {range}"))
    } else if last > *max {
        Err(format!("end of range ({last}) above maximum ({max}): {range}"))
    } else if first > last {
        Err(format!("beginning of range ({first}) beyond end of range ({last}): {range}"))
    } else if step == 0 {
        Err(format!("step of range should be a positive number: {range}"))
    } else {
        Ok(())
    }
}

fn number_or_name(text: &str, bounds: &Bounds) -> Result<u64, String> {
    let named = bounds.names.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
    named.map_or_else(|| number(text), |(_, number)| Ok(*number))
}

fn number(text: &str) -> Result<u64, String> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let problem = if unsigned.is_empty() || !unsigned.bytes().all(|byte| byte.is_ascii_digit()) {
        "invalid syntax"
    } else {
        match text.parse::<i64>() {
            Ok(negative) if negative < 0 => {
                return Err(format!("negative number ({negative}) not allowed: {text}"));
            }
            Ok(number) => return Ok(number.unsigned_abs()),
            Err(_) => "value out of range",
        }
    };
    Err(format!("failed to parse int from {text}: strconv.Atoi: parsing {}: {problem}", quoted(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_schedules_are_read() {
        for schedule in [
            "* * * * *",
            "*/5 0-23/2 1,15 jan-MAR ?",
            "3/10 4 31 12 sun",
            "  0 0 * * 6 ",
            "@daily",
            "@every 1h30.5m",
            "@every 0",
            "TZ=UTC * * * * *",
            ", 0 * * *",
        ] {
            assert_eq!(check(schedule), Ok(()), "{schedule}");
        }
    }

    #[test]
    fn messages_are_upstreams() {
        for (schedule, expected) in [
            ("error", "expected exactly 5 fields, found 1: [error]"),
            ("* * * * * *", "expected exactly 5 fields, found 6: [* * * * * *]"),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            ("5-3 * * * *", "beginning of range (5) beyond end of range (3): 5-3"),
            ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
            ("1/2/3 * * * *", "too many slashes: 1/2/3"),
            ("*/0 * * * *", "step of range should be a positive number: */0"),
            ("a * * * *", "failed to parse int from a: strconv.Atoi: parsing \"a\": invalid syntax"),
            (
                "99999999999999999999 * * * *",
                "failed to parse int from 99999999999999999999: strconv.Atoi: parsing \"99999999999999999999\": \
                 value out of range",
            ),
            ("*/-1 * * * *", "negative number (-1) not allowed: -1"),
            ("@often", "unrecognized descriptor: @often"),
            ("@every x", "failed to parse duration @every x: time: invalid duration \"x\""),
            (
                "@every 1.5.5h",
                "failed to parse duration @every 1.5.5h: time: missing unit in duration \"1.5.5h\"",
            ),
            (
                "@every 9999999h",
                "failed to parse duration @every 9999999h: time: invalid duration \"9999999h\"",
            ),
            ("@every 5", "failed to parse duration @every 5: time: missing unit in duration \"5\""),
            ("@every 5y", "failed to parse duration @every 5y: time: unknown unit \"y\" in duration \"5y\""),
            ("TZ=x * * * * *", "provided bad location x: unknown time zone x"),
            ("TZ=UTC", "invalid schedule format: runtime error: slice bounds out of range [:-1]"),
        ] {
            assert_eq!(check(schedule), Err(expected.to_owned()), "{schedule}");
        }
    }
}
