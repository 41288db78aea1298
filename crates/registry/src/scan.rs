//! Scans the JSON of a stored object without parsing it into a tree.
//!
//! The encoder ([`crate::encode`]) writes no white space, and no escapes in the names that this scans for. Other JSON
//! is not an error: the outer `None` of every function then means that only a parser can find the value.

use std::str;

/// The string at a path; empty if there is none. `None` if only a parser can find it.
pub(crate) fn text<'a>(object: &'a [u8], path: &[&str]) -> Option<&'a str> {
    let mut rest = object;
    for name in path {
        match seek(rest, name)? {
            Some(value) => rest = value,
            None => return Some(""),
        }
    }
    if rest.first() != Some(&b'"') {
        return Some("");
    }
    let (text, _) = plain_string(rest, 0)?;
    str::from_utf8(text).ok()
}

/// The value of a field. `None` if there is none, or only a parser can find it.
pub(crate) fn value<'a>(object: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let rest = seek(object, name)??;
    Some(&rest[..skip_value(rest, 0)?])
}

/// The labels of an object, in their order.
pub(crate) fn labels(object: &[u8]) -> Option<Vec<(&str, &str)>> {
    let mut found = Vec::new();
    let Some(metadata) = seek(object, "metadata")? else { return Some(found) };
    let Some(labels) = seek(metadata, "labels")? else { return Some(found) };
    if labels.first() != Some(&b'{') {
        return Some(found);
    }
    let mut at = 1;
    if labels.get(at) == Some(&b'}') {
        return Some(found);
    }
    loop {
        let (name, after) = plain_string(labels, at)?;
        let (value, after) = plain_string(labels, expect(labels, after, b':')?)?;
        found.push((str::from_utf8(name).ok()?, str::from_utf8(value).ok()?));
        match labels.get(after)? {
            b',' => at = after + 1,
            b'}' => return Some(found),
            _ => return None,
        }
    }
}

/// The rest of the text from the value of a field on; the inner `None` if there is no such field.
fn seek<'a>(object: &'a [u8], name: &str) -> Option<Option<&'a [u8]>> {
    if object.first() != Some(&b'{') || object.get(1) == Some(&b'}') {
        return Some(None);
    }
    let mut at = 1;
    loop {
        let (found, after) = plain_string(object, at)?;
        let value = expect(object, after, b':')?;
        if found == name.as_bytes() {
            return Some(Some(&object[value..]));
        }
        let after = skip_value(object, value)?;
        match object.get(after)? {
            b',' => at = after + 1,
            b'}' => return Some(None),
            _ => return None,
        }
    }
}

fn expect(text: &[u8], at: usize, byte: u8) -> Option<usize> {
    (text.get(at) == Some(&byte)).then_some(at + 1)
}

/// The content of the string that begins at `at`, and the offset after it. `None` if it contains an escape.
fn plain_string(text: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let begin = expect(text, at, b'"')?;
    let end = begin + quote_or_escape(&text[begin..])?;
    (text[end] == b'"').then(|| (&text[begin..end], end + 1))
}

fn skip_string(text: &[u8], at: usize) -> Option<usize> {
    let mut at = expect(text, at, b'"')?;
    loop {
        at += quote_or_escape(text.get(at..)?)?;
        if text[at] == b'"' {
            return Some(at + 1);
        }
        at += 2;
    }
}

/// Offset of the first quote or escape. Compares eight bytes at once: every event of every watch with a selector
/// skips most of its object, which is mostly strings.
fn quote_or_escape(text: &[u8]) -> Option<usize> {
    let (words, rest) = text.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let found = zero_bytes(word ^ repeated(b'"')) | zero_bytes(word ^ repeated(b'\\'));
        if found != 0 {
            return Some(index * 8 + (found.trailing_zeros() / 8) as usize);
        }
    }
    let at = rest.iter().position(|byte| matches!(byte, b'"' | b'\\'))?;
    Some(words.len() * 8 + at)
}

const fn repeated(byte: u8) -> u64 {
    u64::from_le_bytes([byte; 8])
}

/// The highest bit of each byte that is zero. Bytes after the first such may be marked wrongly.
const fn zero_bytes(word: u64) -> u64 {
    word.wrapping_sub(repeated(0x01)) & !word & repeated(0x80)
}

/// Offset after the value at `at`.
fn skip_value(text: &[u8], mut at: usize) -> Option<usize> {
    match text.get(at)? {
        b'"' => skip_string(text, at),
        b'{' | b'[' => {
            let mut depth = 0_usize;
            loop {
                match text.get(at)? {
                    b'"' => {
                        at = skip_string(text, at)?;
                        continue;
                    }
                    b'{' | b'[' => depth += 1,
                    b'}' | b']' if depth == 1 => return Some(at + 1),
                    b'}' | b']' => depth -= 1,
                    _ => {}
                }
                at += 1;
            }
        }
        _ => {
            let length = text[at..].iter().position(|byte| matches!(byte, b',' | b'}' | b']'))?;
            Some(at + length)
        }
    }
}

#[cfg(test)]
mod tests {
    use coracle_base::Rng;
    use coracle_meta::object::Meta;
    use serde_json::{Map, Value, json};

    use super::*;
    use crate::encode::Encoded;
    use crate::view;

    /// Strings that are hard to scan.
    const TEXTS: [&str; 13] = [
        "",
        "a",
        "app",
        "{",
        "}",
        "\"",
        "\\",
        "\\\"",
        ",\"metadata\":{",
        "\u{1}",
        "ü",
        "labels",
        "long-enough",
    ];

    fn random_text(rng: &mut Rng) -> String {
        (0..rng.below(4)).map(|_| TEXTS[rng.below(TEXTS.len() as u64) as usize]).collect()
    }

    fn random_value(rng: &mut Rng, depth: u32) -> Value {
        match rng.below(if depth == 0 { 5 } else { 7 }) {
            0 => Value::Null,
            1 => json!(rng.below(2) == 0),
            2 => json!(rng.u64() as i64),
            3 => json!(rng.u64() as f64 / 3.0),
            4 => random_text(rng).into(),
            5 => (0..rng.below(4)).map(|_| random_value(rng, depth - 1)).collect(),
            _ => random_object(rng, depth - 1),
        }
    }

    fn random_object(rng: &mut Rng, depth: u32) -> Value {
        let names = ["metadata", "labels", "spec", "nodeName", "name", "status", "a\"b", "{"];
        let mut object = Map::new();
        for _ in 0..rng.below(6) {
            let name = names[rng.below(names.len() as u64) as usize];
            object.insert(name.into(), random_value(rng, depth));
        }
        object.into()
    }

    /// The scanner finds what a parser finds, or reports that only a parser can tell.
    #[test]
    fn scan_agrees_with_parser() {
        let seed = Rng::from_entropy().u64();
        let mut rng = Rng::seeded(seed);
        let mut scanned = 0;
        for _ in 0..20_000 {
            let mut object = random_object(&mut rng, 4);
            if rng.below(2) == 0 {
                let labels: Map<String, Value> = (0..rng.below(4))
                    .map(|_| (random_text(&mut rng), random_text(&mut rng).into()))
                    .collect();
                object["metadata"] = json!({"name": "x", "labels": labels});
            }
            let bytes = Encoded::of(&object).bytes;
            let parsed: Value = serde_json::from_slice(&bytes).unwrap();
            for path in [
                &["spec", "nodeName"][..],
                &["status"],
                &["metadata", "name"],
                &["metadata", "labels", "app"],
            ] {
                if let Some(found) = text(&bytes, path) {
                    scanned += 1;
                    assert_eq!(found, view::text(&parsed, path), "seed {seed}: {path:?} of {parsed}");
                }
            }
            if let Some(found) = labels(&bytes) {
                let expected: Vec<(&str, &str)> = Meta::of(&parsed)
                    .labels()
                    .into_iter()
                    .flatten()
                    .filter_map(|(name, value)| Some((name.as_str(), value.as_str()?)))
                    .collect();
                assert_eq!(found, expected, "seed {seed}: {parsed}");
            }
        }
        assert!(scanned > 20_000, "the scanner gave up too often: {scanned}");
    }

    /// Truncated or overwritten bytes never lead to a read beyond their end.
    #[test]
    fn damaged_bytes_do_not_panic() {
        let mut rng = Rng::seeded(1);
        for _ in 0..2_000 {
            let mut bytes = Encoded::of(&random_object(&mut rng, 3)).bytes.to_vec();
            let at = rng.below(bytes.len() as u64) as usize;
            if rng.below(2) == 0 {
                bytes.truncate(at)
            } else {
                bytes[at] = rng.u64() as u8
            }
            let _ = text(&bytes, &["spec", "nodeName"]);
            let _ = labels(&bytes);
        }
    }
}
