//! Parser for cron schedules: five fields, or a descriptor such as `@daily`.
//!
//! Syntax, meaning and error messages are those of robfig/cron, the library that Kubernetes uses.
//! Computing the next time of a schedule needs a calendar and is not done here.

use crate::field::quoted;
use crate::time::parse_go_duration;

/// Allowed values and names of a field.
struct Bounds {
    min: u64,
    max: u64,
    names: &'static [(&'static str, u64)],
}

const MINUTES: Bounds = Bounds { min: 0, max: 59, names: &[] };
const HOURS: Bounds = Bounds { min: 0, max: 23, names: &[] };
const DAYS: Bounds = Bounds { min: 1, max: 31, names: &[] };
const MONTHS: Bounds = Bounds {
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
};
const WEEKDAYS: Bounds = Bounds {
    min: 0,
    max: 6,
    names: &[("sun", 0), ("mon", 1), ("tue", 2), ("wed", 3), ("thu", 4), ("fri", 5), ("sat", 6)],
};

/// A parsed schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// Due at every minute that matches the calendar.
    At(Calendar),
    /// Due this long after the last time, at least one second.
    Every {
        /// The interval in seconds.
        seconds: u64,
    },
}

/// The minutes, hours, days, months and weekdays at which a schedule is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Calendar {
    minutes: Field,
    hours: Field,
    days: Field,
    months: Field,
    weekdays: Field,
}

/// The values of one field, as a bit set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Field {
    values: u64,
    /// True for `*` and `?`; decides how days of month and weekdays combine.
    open: bool,
}

impl Field {
    const fn all(bounds: &Bounds) -> Self {
        Self { values: ((1 << (bounds.max + 1)) - 1) & !((1 << bounds.min) - 1), open: true }
    }

    const fn first(bounds: &Bounds) -> Self {
        Self { values: 1 << bounds.min, open: false }
    }

    fn has(self, value: u8) -> bool {
        value < 64 && self.values & (1 << value) != 0
    }
}

impl Calendar {
    /// Returns true if the minute matches.
    pub fn has_minute(&self, minute: u8) -> bool {
        self.minutes.has(minute)
    }

    /// Returns true if the hour matches.
    pub fn has_hour(&self, hour: u8) -> bool {
        self.hours.has(hour)
    }

    /// Returns true if the month matches, counted from 1.
    pub fn has_month(&self, month: u8) -> bool {
        self.months.has(month)
    }

    /// Returns true if the day matches: `day` of the month, counted from 1, and `weekday`, with
    /// Sunday as 0. If the schedule restricts both fields, a day that matches either is due.
    pub fn has_day(&self, day: u8, weekday: u8) -> bool {
        let (day, weekday) = (self.days.has(day), self.weekdays.has(weekday));
        if self.days.open || self.weekdays.open { day && weekday } else { day || weekday }
    }
}

impl Schedule {
    /// Parses a schedule without a time zone.
    ///
    /// # Errors
    /// A message for the client if the schedule is malformed.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("empty spec string".to_owned());
        }
        if text.starts_with('@') {
            return named(text);
        }
        let fields: Vec<_> = text.split_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = fields[..] else {
            return Err(format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" ")));
        };
        Ok(Self::At(Calendar {
            minutes: field(minutes, &MINUTES)?,
            hours: field(hours, &HOURS)?,
            days: field(days, &DAYS)?,
            months: field(months, &MONTHS)?,
            weekdays: field(weekdays, &WEEKDAYS)?,
        }))
    }
}

/// Splits off the time zone of a `TZ=` or `CRON_TZ=` prefix. Returns the zone, if any, and the
/// schedule.
///
/// # Errors
/// A message for the client if no schedule follows the prefix.
pub fn split_zone(text: &str) -> Result<(Option<&str>, &str), String> {
    if !text.starts_with("TZ=") && !text.starts_with("CRON_TZ=") {
        return Ok((None, text));
    }
    let Some((zone, rest)) = text.split_once(' ') else {
        // robfig/cron panics here; kube-apiserver returns the text of the panic.
        return Err("invalid schedule format: runtime error: slice bounds out of range [:-1]".to_owned());
    };
    let zone = zone.split_once('=').map_or("", |(_, zone)| zone);
    Ok((Some(zone), rest.trim()))
}

fn named(text: &str) -> Result<Schedule, String> {
    let mut calendar = Calendar {
        minutes: Field::first(&MINUTES),
        hours: Field::first(&HOURS),
        days: Field::all(&DAYS),
        months: Field::all(&MONTHS),
        weekdays: Field::all(&WEEKDAYS),
    };
    match text {
        "@yearly" | "@annually" => {
            calendar.days = Field::first(&DAYS);
            calendar.months = Field::first(&MONTHS);
        }
        "@monthly" => calendar.days = Field::first(&DAYS),
        "@weekly" => calendar.weekdays = Field::first(&WEEKDAYS),
        "@daily" | "@midnight" => {}
        "@hourly" => calendar.hours = Field::all(&HOURS),
        _ => {
            let Some(duration) = text.strip_prefix("@every ") else {
                return Err(format!("unrecognized descriptor: {text}"));
            };
            let nanos = parse_go_duration(duration)
                .map_err(|error| format!("failed to parse duration {text}: {error}"))?;
            let seconds = u64::try_from(nanos / 1_000_000_000).unwrap_or_default();
            return Ok(Schedule::Every { seconds: seconds.max(1) });
        }
    }
    Ok(Schedule::At(calendar))
}

fn field(text: &str, bounds: &Bounds) -> Result<Field, String> {
    let mut all = Field { values: 0, open: false };
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let part = range(part, bounds)?;
        all.values |= part.values;
        all.open |= part.open;
    }
    Ok(all)
}

/// Parses a number, `first-last` or `*`, each with an optional `/step`.
fn range(text: &str, bounds: &Bounds) -> Result<Field, String> {
    let steps: Vec<_> = text.split('/').collect();
    let ends: Vec<_> = steps[0].split('-').collect();
    let mut open = false;
    let (first, mut last) = match ends.as_slice() {
        ["*" | "?", ..] => {
            open = true;
            (bounds.min, bounds.max)
        }
        [only] => {
            let only = number_or_name(only, bounds)?;
            (only, only)
        }
        [first, last] => (number_or_name(first, bounds)?, number_or_name(last, bounds)?),
        _ => {
            number_or_name(ends[0], bounds)?;
            return Err(format!("too many hyphens: {text}"));
        }
    };
    let step = match steps.as_slice() {
        [_] => 1,
        [_, step] => number(step)?,
        _ => return Err(format!("too many slashes: {text}")),
    };
    // `3/5` means `3-/5`, to the end.
    if steps.len() == 2 && ends.len() == 1 {
        last = bounds.max;
    }
    check_bounds(first, last, step, text, bounds)?;
    let step_size = usize::try_from(step).unwrap_or(usize::MAX);
    let values = (first..=last).step_by(step_size).fold(0, |values, value| values | 1 << value);
    Ok(Field { values, open: open && step == 1 })
}

fn check_bounds(first: u64, last: u64, step: u64, text: &str, bounds: &Bounds) -> Result<(), String> {
    let Bounds { min, max, .. } = bounds;
    if first < *min {
        Err(format!("beginning of range ({first}) below minimum ({min}): {text}"))
    } else if last > *max {
        Err(format!("end of range ({last}) above maximum ({max}): {text}"))
    } else if first > last {
        Err(format!("beginning of range ({first}) beyond end of range ({last}): {text}"))
    } else if step == 0 {
        Err(format!("step of range should be a positive number: {text}"))
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

    fn calendar(text: &str) -> Calendar {
        let Ok(Schedule::At(calendar)) = Schedule::parse(text) else { panic!("{text}") };
        calendar
    }

    #[test]
    fn fields_match_their_values() {
        let parsed = calendar("*/20 1-5/2 1,15 jan-MAR ?");
        let of = |has: &dyn Fn(u8) -> bool| (0..64).filter(|value| has(*value)).collect::<Vec<u8>>();
        assert_eq!(of(&|minute| parsed.has_minute(minute)), [0, 20, 40]);
        assert_eq!(of(&|hour| parsed.has_hour(hour)), [1, 3, 5]);
        assert_eq!(of(&|month| parsed.has_month(month)), [1, 2, 3]);
        assert_eq!(of(&|day| parsed.has_day(day, 4)), [1, 15]);
        assert_eq!(of(&|minute| calendar("50/5 4 31 12 sun").has_minute(minute)), [50, 55]);
        assert_eq!(of(&|minute| calendar(", 0 * * *").has_minute(minute)), [0u8; 0]);
    }

    #[test]
    fn day_matches_if_either_restricted_day_field_matches() {
        let either = calendar("0 0 13 * fri");
        assert!(either.has_day(13, 1) && either.has_day(1, 5) && !either.has_day(1, 1));
        let both = calendar("0 0 13 * *");
        assert!(both.has_day(13, 1) && !both.has_day(1, 5));
        let stepped = calendar("0 0 */2 * fri");
        assert!(stepped.has_day(2, 5), "a stepped `*` does not count as open");
    }

    #[test]
    fn descriptors_equal_their_fields() {
        for (name, fields) in [
            ("@yearly", "0 0 1 1 *"),
            ("@annually", "0 0 1 1 *"),
            ("@monthly", "0 0 1 * *"),
            ("@weekly", "0 0 * * 0"),
            ("@daily", "0 0 * * *"),
            ("@midnight", "0 0 * * *"),
            ("@hourly", "0 * * * *"),
        ] {
            assert_eq!(Schedule::parse(name), Schedule::parse(fields), "{name}");
        }
        for (text, seconds) in [("1h30.5m", 5430), ("0", 1), ("-5h", 1), ("1.9s", 1), ("90s", 90)] {
            assert_eq!(Schedule::parse(&format!("@every {text}")), Ok(Schedule::Every { seconds }), "{text}");
        }
    }

    #[test]
    fn time_zone_prefix_is_split_off() {
        assert_eq!(split_zone("* * * * *"), Ok((None, "* * * * *")));
        assert_eq!(split_zone("TZ=UTC  @daily "), Ok((Some("UTC"), "@daily")));
        assert_eq!(split_zone("CRON_TZ=Europe/Rome @daily"), Ok((Some("Europe/Rome"), "@daily")));
        let panicked = "invalid schedule format: runtime error: slice bounds out of range [:-1]";
        assert_eq!(split_zone("TZ=UTC"), Err(panicked.to_owned()));
    }

    #[test]
    fn malformed_schedule_returns_message_of_kube_apiserver() {
        for (schedule, expected) in [
            ("", "empty spec string"),
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
        ] {
            assert_eq!(Schedule::parse(schedule), Err(expected.to_owned()), "{schedule}");
        }
    }
}
