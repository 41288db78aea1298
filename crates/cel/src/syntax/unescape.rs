//! Unescaping of string and bytes literals.

/// Returns the bytes of a literal, given with its prefix and quotes.
///
/// # Errors
/// cel-go's message.
pub(super) fn unescape(written: &str, bytes: bool) -> Result<Vec<u8>, &'static str> {
    let normal = written.replace("\r\n", "\n").replace('\r', "\n");
    let raw = normal.starts_with(['r', 'R']);
    let quoted = if raw { &normal[1..] } else { &normal };
    let marks =
        if quoted.len() >= 6 && (quoted.starts_with("'''") || quoted.starts_with("\"\"\"")) { 3 } else { 1 };
    let inner = quoted.get(marks..quoted.len() - marks).ok_or("unable to unescape string")?;
    if raw || !inner.contains('\\') {
        return Ok(inner.as_bytes().to_vec());
    }
    let mut unescaped = Vec::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(at) = rest.find('\\') {
        unescaped.extend_from_slice(&rest.as_bytes()[..at]);
        rest = one(&rest[at + 1..], bytes, &mut unescaped)?;
    }
    unescaped.extend_from_slice(rest.as_bytes());
    Ok(unescaped)
}

/// Decodes one escape sequence, given without its backslash; returns the rest.
fn one<'a>(text: &'a str, bytes: bool, into: &mut Vec<u8>) -> Result<&'a str, &'static str> {
    let code = text.bytes().next().ok_or("unable to unescape string, found '\\' as last character")?;
    let simple = match code {
        b'a' => 0x07,
        b'b' => 0x08,
        b'f' => 0x0c,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'v' => 0x0b,
        b'\\' | b'\'' | b'"' | b'`' | b'?' => code,
        b'x' | b'X' => return number(text, 1, 2, 16, bytes, into),
        b'u' if !bytes => return number(text, 1, 4, 16, bytes, into),
        b'U' if !bytes => return number(text, 1, 8, 16, bytes, into),
        b'0'..=b'3' => return number(text, 0, 3, 8, bytes, into),
        _ => return Err("unable to unescape string"),
    };
    into.push(simple);
    Ok(&text[1..])
}

fn number<'a>(
    text: &'a str,
    skip: usize,
    digits: usize,
    radix: u32,
    bytes: bool,
    into: &mut Vec<u8>,
) -> Result<&'a str, &'static str> {
    let end = skip + digits;
    let value = text.get(skip..end).and_then(|digits| u32::from_str_radix(digits, radix).ok());
    let value = value.ok_or("unable to unescape string")?;
    if let (true, Ok(byte)) = (bytes, u8::try_from(value)) {
        into.push(byte);
    } else {
        let character = char::from_u32(value).ok_or("invalid unicode code point")?;
        into.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    }
    Ok(&text[end..])
}
