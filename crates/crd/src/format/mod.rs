//! String formats (`format` of a schema), validated as in kube-apiserver.

mod email;
mod network;
mod numbers;
mod times;
mod uri;

/// Name of a format without hyphens, which are ignored, and its validation.
type Format = (&'static str, fn(&str) -> bool);

const FORMATS: [Format; 26] = [
    ("bsonobjectid", numbers::is_bson_object_id),
    ("byte", numbers::is_base64),
    ("cidr", network::is_cidr),
    ("creditcard", numbers::is_credit_card),
    ("date", times::is_date),
    ("datetime", times::is_date_time),
    ("duration", times::is_duration),
    ("email", email::is_email),
    ("hexcolor", numbers::is_hex_color),
    ("hostname", network::is_hostname),
    ("ipv4", network::is_ipv4),
    ("ipv6", network::is_ipv6),
    ("isbn", |text| numbers::is_isbn10(text) || numbers::is_isbn13(text)),
    ("isbn10", numbers::is_isbn10),
    ("isbn13", numbers::is_isbn13),
    ("k8slongname", network::is_long_name),
    ("k8sshortname", network::is_short_name),
    ("mac", network::is_mac),
    ("password", |_| true),
    ("rgbcolor", numbers::is_rgb_color),
    ("ssn", numbers::is_ssn),
    ("uri", uri::is_request_uri),
    ("uuid", |text| numbers::is_uuid(text, None)),
    ("uuid3", |text| numbers::is_uuid(text, Some(b'3'))),
    ("uuid4", |text| numbers::is_uuid(text, Some(b'4'))),
    ("uuid5", |text| numbers::is_uuid(text, Some(b'5'))),
];

fn find(name: &str) -> Option<&'static Format> {
    let find = |name: &str| FORMATS.iter().find(|(format, _)| *format == name);
    if name.contains('-') { find(&name.replace('-', "")) } else { find(name) }
}

/// Returns true if the string format is known.
pub(crate) fn is_known(name: &str) -> bool {
    !name.is_empty() && find(name).is_some()
}

/// Returns true if the format is known for values of a type; the type may be empty.
pub fn is_known_for(schema_type: &str, format: &str) -> bool {
    match schema_type {
        "" | "string" => is_known(format),
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        _ => false,
    }
}

/// Returns true if a string has the format. Unknown formats match every string.
pub(crate) fn matches(name: &str, text: &str) -> bool {
    find(name).is_none_or(|(_, matches)| matches(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_match_recorded_samples() {
        let mut wrong = Vec::new();
        for line in include_str!("samples.txt").lines().filter(|line| !line.starts_with('#')) {
            let [format, expected, text] = line.splitn(3, ' ').collect::<Vec<_>>()[..] else {
                panic!("format, expectation and text: {line}");
            };
            let text: String = serde_json::from_str(text).unwrap();
            assert!(is_known(format), "{format}");
            if matches(format, &text) != (expected == "yes") {
                wrong.push(line);
            }
        }
        assert_eq!(wrong, [""; 0]);
    }
}
