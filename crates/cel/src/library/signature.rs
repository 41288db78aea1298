//! Parser for the signatures in the function tables.

use crate::types::Type;

use super::{Native, Overload};

/// Parses a signature, such as `list(T).(int, int) -> list(T)`.
pub(super) fn parse(id: &'static str, text: &'static str, call: Native) -> Overload {
    let (left, result) = text.split_once(" -> ").unwrap_or((text, "dyn"));
    let (receiver, arguments) = match left.find(".(") {
        Some(dot) if !left.starts_with('(') => (Some(&left[..dot]), &left[dot + 1..]),
        _ => (None, left),
    };
    let arguments = arguments.trim_start_matches('(');
    let arguments = arguments.strip_suffix(')').unwrap_or(arguments);
    let mut params = Vec::new();
    let args = receiver.into_iter().chain(split(arguments)).map(|part| read(part, &mut params)).collect();
    let result = read(result, &mut params);
    Overload { id, member: receiver.is_some(), args, result, params, call }
}

/// Splits at commas outside of parentheses.
fn split(text: &'static str) -> Vec<&'static str> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0, 0);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' => depth -= 1,
            b',' if depth == 0 => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    let last = text[start..].trim();
    parts.extend(Some(last).filter(|last| !last.is_empty()));
    parts
}

fn read(text: &'static str, params: &mut Vec<&'static str>) -> Type {
    if let Some((name, inner)) = text.strip_suffix(')').and_then(|text| text.split_once('(')) {
        let mut inner = split(inner).into_iter().map(|part| read(part, params));
        let mut next = || inner.next().unwrap_or(Type::Dyn);
        return match name {
            "list" => Type::list(next()),
            "map" => Type::map(next(), next()),
            "type" => Type::type_of(next()),
            _ => Type::optional(next()),
        };
    }
    match text {
        "dyn" => Type::Dyn,
        "duration" => Type::Duration,
        "timestamp" => Type::Timestamp,
        _ => {
            if let Some(identified) = Type::by_identifier(text) {
                return identified;
            }
            if text.len() == 1 {
                if !params.contains(&text) {
                    params.push(text);
                }
                return Type::Param(text.into());
            }
            Type::object(text)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overload_text(text: &'static str) -> String {
        let parsed = parse("id", text, |_| super::super::mismatch());
        let args: Vec<String> = parsed.args.iter().map(ToString::to_string).collect();
        format!("{} {} -> {}", parsed.member, args.join("; "), parsed.result)
    }

    #[test]
    fn signature_is_parsed_to_overload() {
        assert_eq!(overload_text("() -> optional(V)"), "false  -> optional_type(V)");
        assert_eq!(overload_text("list(T).(int, int) -> list(T)"), "true list(T); int; int -> list(T)");
        assert_eq!(overload_text("(map(K, V), K) -> bool"), "false map(K, V); K -> bool");
        assert_eq!(
            overload_text("kubernetes.Quantity.(int) -> net.IP"),
            "true kubernetes.Quantity; int -> net.IP"
        );
    }
}
