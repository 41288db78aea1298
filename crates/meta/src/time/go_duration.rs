//! Lengths of time as Go prints them, which stand in objects and in messages that are compared with upstream's.

use std::time::Duration;

/// As `1h2m3.5s`, and below a second as `1.5ms`.
pub fn go_duration(duration: Duration) -> String {
    let nanos = duration.subsec_nanos();
    if duration.as_secs() == 0 {
        return match nanos {
            0 => "0s".to_owned(),
            1..1_000 => format!("{nanos}ns"),
            1_000..1_000_000 => format!("{}µs", decimal(nanos.into(), 3)),
            _ => format!("{}ms", decimal(nanos.into(), 6)),
        };
    }
    let (minutes, seconds) = (duration.as_secs() / 60, duration.as_secs() % 60);
    let seconds = decimal(u128::from(seconds) * 1_000_000_000 + u128::from(nanos), 9);
    match (minutes / 60, minutes % 60) {
        (0, 0) => format!("{seconds}s"),
        (0, minutes) => format!("{minutes}m{seconds}s"),
        (hours, minutes) => format!("{hours}h{minutes}m{seconds}s"),
    }
}

/// A whole number with so many digits behind the point, without zeros at the end.
fn decimal(number: u128, digits: usize) -> String {
    let unit = 10_u128.pow(u32::try_from(digits).unwrap_or(0));
    let fraction = format!("{:0digits$}", number % unit);
    match fraction.trim_end_matches('0') {
        "" => (number / unit).to_string(),
        fraction => format!("{}.{fraction}", number / unit),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_look_as_in_go() {
        for (nanos, expected) in [
            (0, "0s"),
            (7, "7ns"),
            (1_500, "1.5µs"),
            (2_000_000, "2ms"),
            (2_050_000, "2.05ms"),
            (1_000_000_000, "1s"),
            (1_500_000_000, "1.5s"),
            (60_000_000_000, "1m0s"),
            (900_000_000_000, "15m0s"),
            (3_723_004_000_000, "1h2m3.004s"),
        ] {
            assert_eq!(go_duration(Duration::from_nanos(nanos)), expected);
        }
    }
}
