//! Indentation of JSON.

/// Maximum indentation, in levels. An object of 3 MiB can have 400 000 fields that are nested thousands of levels deep, each
/// on a line of its own.
const MAX_INDENT: usize = 64;

/// Indents JSON by two spaces, as Go's `MarshalIndent` does, and keeps the order of keys. Levels below [`MAX_INDENT`] are not
/// indented further.
pub(super) fn indent(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len() * 2);
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(&byte) = json.get(at) {
        at += 1;
        match byte {
            b'"' => {
                let end = string_end(json, at);
                out.extend_from_slice(&json[at - 1..end]);
                at = end;
            }
            b'{' | b'[' if matches!(json.get(at), Some(b'}' | b']')) => {
                out.extend_from_slice(&json[at - 1..=at]);
                at += 1;
            }
            b'{' | b'[' => {
                out.push(byte);
                depth += 1;
                line(&mut out, depth);
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                line(&mut out, depth);
                out.push(byte);
            }
            b',' => {
                out.push(b',');
                line(&mut out, depth);
            }
            b':' => out.extend_from_slice(b": "),
            b' ' | b'\n' | b'\t' | b'\r' => {}
            other => out.push(other),
        }
    }
    out
}

fn line(out: &mut Vec<u8>, depth: usize) {
    out.push(b'\n');
    out.extend(std::iter::repeat_n(b' ', 2 * depth.min(MAX_INDENT)));
}

/// Returns the offset after the closing quote of a string whose first character is at `at`.
fn string_end(json: &[u8], mut at: usize) -> usize {
    while let Some(&byte) = json.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    json.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_indented_as_go_does() {
        let json = br#"{"a":{},"b":[],"c":[1,{"d":"x:,{\"y"}],"e":null}"#;
        let expected = "{\n  \"a\": {},\n  \"b\": [],\n  \"c\": [\n    1,\n    {\n      \"d\": \"x:,{\\\"y\"\n    }\n  ],\n  \"e\": null\n}";
        assert_eq!(String::from_utf8(indent(json)).unwrap(), expected);
    }

    #[test]
    fn indentation_of_deep_object_is_bounded() {
        let json = format!("{}{}1{}", "[".repeat(5_000), "1,".repeat(5_000), "]".repeat(5_000));
        let indented = indent(json.as_bytes());
        assert!(indented.len() < 5 * 1024 * 1024, "{}", indented.len());
        let compact = indented.split(|byte| byte.is_ascii_whitespace()).collect::<Vec<_>>().concat();
        assert!(compact == json.as_bytes());
    }
}
