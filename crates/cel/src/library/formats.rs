//! Named formats library (`format.dns1123Label()` etc.).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use coracle_meta::name::{
    label_value, object_dns_label, object_dns_subdomain, object_dns1035_label, qualified_name,
};

use crate::EvalError;
use crate::value::{Extension, Timestamp, Value};

use super::{Function, mismatch, urls};

/// A named format.
#[derive(Debug)]
pub(crate) struct NamedFormat {
    pub(crate) name: &'static str,
    /// Returns the errors of a string; empty if it has the format.
    validate: fn(&str) -> Vec<String>,
    /// Length of a regular expression for the format, even if none is used; determines the cost.
    pub(crate) pattern_size: u64,
}

macro_rules! formats {
    ($(($name:literal, $size:literal, $call:ident, $validate:expr)),+ $(,)?) => {
        const FORMATS: &[NamedFormat] =
            &[$(NamedFormat { name: $name, validate: $validate, pattern_size: $size }),+];

        pub(super) const FUNCTIONS: &[Function] = &[
            Function {
                name: "validate",
                overloads: &[(
                    "format-validate",
                    "kubernetes.NamedFormat.(string) -> optional(list(string))",
                )],
                call: validate,
            },
            Function {
                name: "format.named",
                overloads: &[("format-named", "(string) -> optional(kubernetes.NamedFormat)")],
                call: named,
            },
            $(Function {
                name: concat!("format.", $name),
                overloads: &[(concat!("format.", $name), "() -> kubernetes.NamedFormat")],
                call: $call,
            }),+
        ];

        $(fn $call<'d>(_: &[Value<'d>]) -> Flow<'d> {
            by_name($name).map_or_else(mismatch, |format| Ok(Value::extension(Extension::Format(format))))
        })+
    };
}

type Flow<'d> = Result<Value<'d>, EvalError>;

formats![
    ("dns1123Label", 30, dns1123_label, |text| to_strings(object_dns_label(text, false))),
    ("dns1123Subdomain", 60, dns1123_subdomain, |text| to_strings(object_dns_subdomain(text, false))),
    ("dns1035Label", 30, dns1035_label, |text| to_strings(object_dns1035_label(text, false))),
    ("qualifiedName", 60, qualified, |text| to_strings(qualified_name(text))),
    ("dns1123LabelPrefix", 30, dns1123_label_prefix, |text| to_strings(object_dns_label(text, true))),
    ("dns1123SubdomainPrefix", 60, dns1123_subdomain_prefix, |text| to_strings(object_dns_subdomain(
        text, true
    ))),
    ("dns1035LabelPrefix", 30, dns1035_label_prefix, |text| to_strings(object_dns1035_label(text, true))),
    ("labelValue", 40, label, |text| to_strings(label_value(text))),
    ("uri", 1103, uri, |text| urls::parse_request_uri(text).err().into_iter().collect()),
    ("uuid", 70, uuid, |text| error_unless(is_uuid(text), "does not match the UUID format")),
    ("byte", 84, byte, |text| error_unless(
        !text.is_empty() && STANDARD.decode(text).is_ok(),
        "invalid base64"
    )),
    ("date", 71, date, |text| error_unless(is_date(text), "invalid date")),
    ("datetime", 71, datetime, |text| error_unless(is_datetime(text), "invalid datetime")),
];

fn to_strings(messages: impl IntoIterator<Item = impl Into<String>>) -> Vec<String> {
    messages.into_iter().map(Into::into).collect()
}

fn error_unless(holds: bool, message: &str) -> Vec<String> {
    if holds { Vec::new() } else { vec![message.to_owned()] }
}

fn by_name(name: &str) -> Option<&'static NamedFormat> {
    FORMATS.iter().find(|format| format.name == name)
}

/// Returns true for 32 hexadecimal digits, with optional dashes at the usual positions.
fn is_uuid(text: &str) -> bool {
    let mut rest = text;
    for (index, digits) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if index > 0 {
            rest = rest.strip_prefix('-').unwrap_or(rest);
        }
        match rest.as_bytes().get(..digits) {
            Some(group) if group.iter().all(u8::is_ascii_hexdigit) => rest = &rest[digits..],
            _ => return false,
        }
    }
    rest.is_empty()
}

fn is_date(text: &str) -> bool {
    text.len() == 10 && matches!(Timestamp::parse(&format!("{text}T00:00:00Z")), Some(Ok(_)))
}

fn is_datetime(text: &str) -> bool {
    matches!(Timestamp::parse(&text.to_ascii_uppercase()), Some(Ok(_)))
}

fn named<'d>(args: &[Value<'d>]) -> Flow<'d> {
    let [Value::String(name)] = args else { return mismatch() };
    Ok(match by_name(name.as_str()) {
        Some(format) => Value::some(Value::extension(Extension::Format(format))),
        None => Value::Optional(None),
    })
}

fn validate<'d>(args: &[Value<'d>]) -> Flow<'d> {
    let [Value::Extension(extension), Value::String(text)] = args else { return mismatch() };
    let Extension::Format(format) = &*extension.0 else { return mismatch() };
    let problems = (format.validate)(text.as_str());
    if problems.is_empty() {
        return Ok(Value::Optional(None));
    }
    Ok(Value::some(Value::list(problems.into_iter().map(Value::string).collect())))
}
