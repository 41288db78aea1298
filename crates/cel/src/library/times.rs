//! Accessors of timestamps and durations.

use jiff::civil::Weekday;
use jiff::tz::{Offset, TimeZone, TimeZoneDatabase};
use jiff::{Timestamp as Instant, Zoned};

use crate::EvalError;
use crate::value::{Timestamp, Value};

use super::{Function, mismatch};

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "getFullYear",
        overloads: &[
            ("timestamp_to_year", "timestamp.() -> int"),
            ("timestamp_to_year_with_tz", "timestamp.(string) -> int"),
        ],
        call: full_year,
    },
    Function {
        name: "getMonth",
        overloads: &[
            ("timestamp_to_month", "timestamp.() -> int"),
            ("timestamp_to_month_with_tz", "timestamp.(string) -> int"),
        ],
        call: month,
    },
    Function {
        name: "getDayOfYear",
        overloads: &[
            ("timestamp_to_day_of_year", "timestamp.() -> int"),
            ("timestamp_to_day_of_year_with_tz", "timestamp.(string) -> int"),
        ],
        call: day_of_year,
    },
    Function {
        name: "getDayOfMonth",
        overloads: &[
            ("timestamp_to_day_of_month", "timestamp.() -> int"),
            ("timestamp_to_day_of_month_with_tz", "timestamp.(string) -> int"),
        ],
        call: day_of_month,
    },
    Function {
        name: "getDate",
        overloads: &[
            ("timestamp_to_day_of_month_1_based", "timestamp.() -> int"),
            ("timestamp_to_day_of_month_1_based_with_tz", "timestamp.(string) -> int"),
        ],
        call: date,
    },
    Function {
        name: "getDayOfWeek",
        overloads: &[
            ("timestamp_to_day_of_week", "timestamp.() -> int"),
            ("timestamp_to_day_of_week_with_tz", "timestamp.(string) -> int"),
        ],
        call: day_of_week,
    },
    Function {
        name: "getHours",
        overloads: &[
            ("timestamp_to_hours", "timestamp.() -> int"),
            ("timestamp_to_hours_with_tz", "timestamp.(string) -> int"),
            ("duration_to_hours", "duration.() -> int"),
        ],
        call: hours,
    },
    Function {
        name: "getMinutes",
        overloads: &[
            ("timestamp_to_minutes", "timestamp.() -> int"),
            ("timestamp_to_minutes_with_tz", "timestamp.(string) -> int"),
            ("duration_to_minutes", "duration.() -> int"),
        ],
        call: minutes,
    },
    Function {
        name: "getSeconds",
        overloads: &[
            ("timestamp_to_seconds", "timestamp.() -> int"),
            ("timestamp_to_seconds_tz", "timestamp.(string) -> int"),
            ("duration_to_seconds", "duration.() -> int"),
        ],
        call: seconds,
    },
    Function {
        name: "getMilliseconds",
        overloads: &[
            ("timestamp_to_milliseconds", "timestamp.() -> int"),
            ("timestamp_to_milliseconds_with_tz", "timestamp.(string) -> int"),
            ("duration_to_milliseconds", "duration.() -> int"),
        ],
        call: milliseconds,
    },
];

type Flow<'d> = Result<Value<'d>, EvalError>;

const NANOS_PER_MILLISECOND: i64 = 1_000_000;

fn full_year<'d>(args: &[Value<'d>]) -> Flow<'d> {
    part(args, |local| local.year().into(), None)
}

fn month<'d>(args: &[Value<'d>]) -> Flow<'d> {
    part(args, |local| i64::from(local.month()) - 1, None)
}

fn day_of_year<'d>(args: &[Value<'d>]) -> Flow<'d> {
    part(args, |local| i64::from(local.day_of_year()) - 1, None)
}

fn day_of_month<'d>(args: &[Value<'d>]) -> Flow<'d> {
    part(args, |local| i64::from(local.day()) - 1, None)
}

fn date<'d>(args: &[Value<'d>]) -> Flow<'d> {
    part(args, |local| local.day().into(), None)
}

fn day_of_week<'d>(args: &[Value<'d>]) -> Flow<'d> {
    part(args, |local| local.weekday().since(Weekday::Sunday).into(), None)
}

fn hours<'d>(args: &[Value<'d>]) -> Flow<'d> {
    part(args, |local| local.hour().into(), Some(3600 * 1000 * NANOS_PER_MILLISECOND))
}

fn minutes<'d>(args: &[Value<'d>]) -> Flow<'d> {
    part(args, |local| local.minute().into(), Some(60 * 1000 * NANOS_PER_MILLISECOND))
}

fn seconds<'d>(args: &[Value<'d>]) -> Flow<'d> {
    part(args, |local| local.second().into(), Some(1000 * NANOS_PER_MILLISECOND))
}

fn milliseconds<'d>(args: &[Value<'d>]) -> Flow<'d> {
    part(args, |local| local.millisecond().into(), Some(NANOS_PER_MILLISECOND))
}

/// Returns a component of a timestamp, in UTC or another zone, or a duration converted to a unit.
fn part<'d>(args: &[Value<'d>], take: fn(&Zoned) -> i64, unit: Option<i64>) -> Flow<'d> {
    match (args, unit) {
        ([Value::Timestamp(point)], _) => Ok(Value::Int(take(&local(*point, TimeZone::UTC)?))),
        ([Value::Timestamp(point), Value::String(zone)], _) => {
            Ok(Value::Int(take(&local(*point, zone_of(zone.as_str())?)?)))
        }
        ([Value::Duration(span)], Some(unit)) => Ok(Value::Int(span.0 / unit)),
        _ => mismatch(),
    }
}

fn local(point: Timestamp, zone: TimeZone) -> Result<Zoned, EvalError> {
    let nanos = i32::try_from(point.nanos).unwrap_or_default();
    let instant = Instant::new(point.seconds, nanos);
    instant.map(|instant| instant.to_zoned(zone)).map_err(|_| EvalError::failed("timestamp overflow"))
}

/// Parses a time zone: its name, or an offset `[+-]hh:mm`.
fn zone_of(text: &str) -> Result<TimeZone, EvalError> {
    let Some((hours, minutes)) = text.split_once(':') else { return named_zone(text) };
    let number = |text: &str| {
        let error = || EvalError::failed(format!("strconv.Atoi: parsing {text:?}: invalid syntax"));
        text.parse::<i32>().map_err(|_| error())
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    let total = hours.saturating_mul(60);
    let total =
        if text.starts_with('-') { total.saturating_sub(minutes) } else { total.saturating_add(minutes) };
    let offset = Offset::from_seconds(total.saturating_mul(60));
    offset.map(TimeZone::fixed).map_err(|_| EvalError::failed(format!("unknown time zone {text}")))
}

fn named_zone(name: &str) -> Result<TimeZone, EvalError> {
    if name.is_empty() || name == "UTC" {
        return Ok(TimeZone::UTC);
    }
    // Use the bundled time zones: the result of an expression must not depend on the machine.
    let database = TimeZoneDatabase::bundled();
    database.get(name).map_err(|_| EvalError::failed(format!("unknown time zone {name}")))
}
