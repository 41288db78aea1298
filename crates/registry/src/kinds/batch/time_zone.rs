//! Names of time zones.

use coracle_meta::field::{BadValue, ErrorList, FieldError, Path};

/// Names in the IANA database, sorted.
const NAMES: &str = include_str!("time_zones.txt");

/// Maximum length of a segment of a name.
const MAX_PART_BYTES: usize = 14;

/// Validates the name of a time zone.
pub(super) fn validate(name: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let mut refuse = |detail: String| {
        errors.push(FieldError::invalid(path, BadValue::named(name), detail));
    };
    if name.is_empty() {
        refuse("timeZone must be nil or non-empty string".to_owned());
    } else if !name.split('/').all(is_part) {
        refuse(format!("unknown time zone {name}"));
    } else {
        if name.eq_ignore_ascii_case("local") {
            refuse(
                "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
                    .to_owned(),
            );
        }
        if name.contains("..") {
            refuse("time: invalid location name".to_owned());
        } else if !is_known(name) {
            refuse(format!("unknown time zone {name}"));
        }
    }
}

/// Whether a time zone is known. `Local` is, so [`validate`] rejects it separately.
pub(super) fn is_known(name: &str) -> bool {
    name == "Local" || NAMES.lines().any(|known| known == name)
}

fn is_part(part: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-_+".contains(&byte);
    !part.is_empty()
        && part.len() <= MAX_PART_BYTES
        && part.bytes().all(allowed)
        && !part.starts_with('-')
        && !matches!(part, "." | "..")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str) -> String {
        let mut errors = ErrorList::new();
        validate(name, &Path::root("tz"), &mut errors);
        errors.to_string()
    }

    #[test]
    fn time_zones_must_be_in_the_database() {
        assert!(NAMES.lines().is_sorted());
        for name in ["UTC", "Etc/GMT+5", "America/Argentina/Buenos_Aires", "Europe/Zurich"] {
            assert_eq!(check(name), "");
        }
        assert_eq!(check("a..b"), "tz: Invalid value: \"a..b\": time: invalid location name");
        assert_eq!(check("Mars/Base"), "tz: Invalid value: \"Mars/Base\": unknown time zone Mars/Base");
        assert_eq!(check("a..b"), "tz: Invalid value: \"a..b\": time: invalid location name");
        assert_eq!(check("utc"), "tz: Invalid value: \"utc\": unknown time zone utc");
        assert_eq!(check(""), "tz: Invalid value: \"\": timeZone must be nil or non-empty string");
        for name in ["/UTC", "../UTC", "-UTC", "A b", "Europe//Zurich", "ABCDEFGHIJKLMNO"] {
            assert!(check(name).ends_with(&format!("unknown time zone {name}")));
        }
        let explicit = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        assert_eq!(check("Local"), format!("tz: Invalid value: \"Local\": {explicit}"));
    }
}
