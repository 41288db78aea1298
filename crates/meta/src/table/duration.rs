//! Human-readable durations, as in the AGE column of `kubectl get`.

use crate::time::Time;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;

/// Formats a duration with two or three significant digits: `59s`, `2m3s`, `5h`, `3d4h`, `2y3d`.
pub fn human_duration(seconds: i64) -> String {
    match seconds {
        // A duration of -1 s is clock skew and prints as zero.
        ..=-2 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 => pair(seconds, MINUTE, "m", 1, "s"),
        600..10_800 => format!("{}m", seconds / MINUTE),
        10_800..28_800 => pair(seconds, HOUR, "h", MINUTE, "m"),
        28_800..172_800 => format!("{}h", seconds / HOUR),
        172_800..691_200 => pair(seconds, DAY, "d", HOUR, "h"),
        691_200..63_072_000 => format!("{}d", seconds / DAY),
        63_072_000..252_288_000 => pair(seconds, YEAR, "y", DAY, "d"),
        _ => format!("{}y", seconds / YEAR),
    }
}

fn pair(seconds: i64, unit: i64, name: &str, small_unit: i64, small_name: &str) -> String {
    let (large, small) = (seconds / unit, seconds % unit / small_unit);
    if small == 0 { format!("{large}{name}") } else { format!("{large}{name}{small}{small_name}") }
}

/// Formats a duration in a single unit: `59s`, `2m`, `5h`, `3d`, `2y`.
pub fn short_human_duration(seconds: i64) -> String {
    match seconds {
        ..=-2 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..MINUTE => format!("{seconds}s"),
        MINUTE..HOUR => format!("{}m", seconds / MINUTE),
        HOUR..DAY => format!("{}h", seconds / HOUR),
        DAY..YEAR => format!("{}d", seconds / DAY),
        _ => format!("{}y", seconds / YEAR),
    }
}

/// Formats a cell of the AGE column; `<unknown>` for an unset timestamp.
pub fn translate_timestamp_since(timestamp: Option<Time>, now: Time) -> String {
    match timestamp {
        Some(timestamp) if !timestamp.is_zero() => human_duration(now.0.saturating_sub(timestamp.0)),
        _ => "<unknown>".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_formatted_as_in_kubectl() {
        for (seconds, long, short) in [
            (-2, "<invalid>", "<invalid>"),
            (-1, "0s", "0s"),
            (0, "0s", "0s"),
            (59, "59s", "59s"),
            (119, "119s", "1m"),
            (120, "2m", "2m"),
            (123, "2m3s", "2m"),
            (600, "10m", "10m"),
            (3 * HOUR - 1, "179m", "2h"),
            (3 * HOUR, "3h", "3h"),
            (5 * HOUR + 60, "5h1m", "5h"),
            (8 * HOUR, "8h", "8h"),
            (47 * HOUR, "47h", "1d"),
            (2 * DAY, "2d", "2d"),
            (3 * DAY + 4 * HOUR, "3d4h", "3d"),
            (8 * DAY, "8d", "8d"),
            (400 * DAY, "400d", "1y"),
            (2 * YEAR, "2y", "2y"),
            (2 * YEAR + 3 * DAY, "2y3d", "2y"),
            (8 * YEAR + 3 * DAY, "8y", "8y"),
        ] {
            assert_eq!(
                (human_duration(seconds).as_str(), short_human_duration(seconds).as_str()),
                (long, short)
            );
        }
        assert_eq!(translate_timestamp_since(None, Time(0)), "<unknown>");
        assert_eq!(translate_timestamp_since(Some(Time(-60)), Time(0)), "60s");
    }
}
