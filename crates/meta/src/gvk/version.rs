//! Priority order of API versions, for discovery and the preferred version of a kind.

use std::cmp::Ordering;

/// Stability of a version, in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stability {
    Alpha,
    Beta,
    General,
}

/// Compares two versions; the greater one is preferred.
///
/// GA versions precede beta, beta precedes alpha, then the higher number wins: `v2 > v1 > v2beta1 >
/// v1beta2 > v1alpha1`. Names in any other format come last, in alphabetical order.
pub fn compare_versions(a: &str, b: &str) -> Ordering {
    match (parse(a), parse(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(_), None) => Ordering::Greater,
        (None, Some(_)) => Ordering::Less,
        (None, None) => b.cmp(a),
    }
}

/// Parses stability, major and minor number of a version such as `v1` or `v2beta1`.
fn parse(version: &str) -> Option<(Stability, i64, i64)> {
    let rest = version.strip_prefix('v')?;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (major, rest) = rest.split_at(digits);
    let (stability, minor) = if rest.is_empty() {
        (Stability::General, "0")
    } else if let Some(minor) = rest.strip_prefix("beta") {
        (Stability::Beta, minor)
    } else {
        (Stability::Alpha, rest.strip_prefix("alpha")?)
    };
    Some((stability, number(major)?, number(minor)?))
}

fn number(digits: &str) -> Option<i64> {
    // `i64::from_str` would also accept a sign.
    if digits.bytes().all(|byte| byte.is_ascii_digit()) { digits.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stable_version_compares_greater() {
        let ordered = [
            "v10",
            "v2",
            "v1",
            "v11beta2",
            "v10beta3",
            "v3beta1",
            "v12alpha1",
            "v11alpha2",
            "foo1",
            "foo10",
            "v1gamma",
            "v99999999999999999999",
        ];
        for (i, a) in ordered.iter().enumerate() {
            for (j, b) in ordered.iter().enumerate() {
                assert_eq!(compare_versions(a, b), j.cmp(&i), "{a} and {b}");
            }
        }
    }
}
