//! A scanner of JSON. Syntax errors have the messages of Go's decoder.

use std::borrow::Cow;

use super::MAX_DEPTH;
use crate::codec::DecodeError;
use crate::codec::error::write_escaped;
use crate::codec::text::lossy;

/// A position in a text, which only moves forward.
pub(super) struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
    depth: usize,
}

type Scanned<T> = Result<T, DecodeError>;

impl<'a> Scanner<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, depth: 0 }
    }

    /// The next byte, without consuming it.
    pub(super) fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    pub(super) fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// Requires the end of the text, after white space.
    pub(super) fn end(&mut self) -> Scanned<()> {
        self.skip_space();
        if self.at < self.bytes.len() { Err(self.unexpected("after top-level value")) } else { Ok(()) }
    }

    /// Scans an object. `field` scans the value of each key.
    pub(super) fn object(
        &mut self,
        mut field: impl FnMut(&mut Self, Cow<'a, str>) -> Scanned<()>,
    ) -> Scanned<()> {
        self.enter()?;
        self.skip_space();
        if self.take(b'}') {
            return self.leave();
        }
        loop {
            if self.peek() != Some(b'"') {
                return Err(self.unexpected("looking for beginning of object key string"));
            }
            let key = self.string()?;
            self.skip_space();
            if !self.take(b':') {
                return Err(self.unexpected("after object key"));
            }
            self.skip_space();
            field(self, key)?;
            self.skip_space();
            if self.take(b'}') {
                return self.leave();
            }
            if !self.take(b',') {
                return Err(self.unexpected("after object key:value pair"));
            }
            self.skip_space();
        }
    }

    /// Scans a list. `item` scans each item.
    pub(super) fn array(&mut self, mut item: impl FnMut(&mut Self, usize) -> Scanned<()>) -> Scanned<()> {
        self.enter()?;
        self.skip_space();
        if self.take(b']') {
            return self.leave();
        }
        for index in 0.. {
            self.skip_space();
            item(self, index)?;
            self.skip_space();
            if self.take(b']') {
                return self.leave();
            }
            if !self.take(b',') {
                return Err(self.unexpected("after array element"));
            }
        }
        Ok(())
    }

    /// Consumes the opening bracket.
    fn enter(&mut self) -> Scanned<()> {
        self.at += 1;
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(DecodeError::Json { message: "exceeded max depth".into(), offset: self.at });
        }
        Ok(())
    }

    fn leave(&mut self) -> Scanned<()> {
        self.depth -= 1;
        Ok(())
    }

    fn take(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    /// Skips any value and returns its type.
    pub(super) fn skip_value(&mut self) -> Scanned<&'static str> {
        match self.peek() {
            Some(b'{') => self.object(|scanner, _| scanner.skip_value().map(drop)).map(|()| "object"),
            Some(b'[') => self.array(|scanner, _| scanner.skip_value().map(drop)).map(|()| "array"),
            Some(b'"') => self.string().map(|_| "string"),
            Some(b't') => self.literal("true").map(|()| "bool"),
            Some(b'f') => self.literal("false").map(|()| "bool"),
            Some(b'n') => self.literal("null").map(|()| "null"),
            Some(b'-' | b'0'..=b'9') => self.number().map(|_| "number"),
            _ => Err(self.unexpected("looking for beginning of value")),
        }
    }

    /// Scans a literal whose first letter was peeked.
    pub(super) fn literal(&mut self, word: &'static str) -> Scanned<()> {
        for expected in word.bytes() {
            if !self.take(expected) {
                let place = format!("in literal {word} (expecting '{}')", char::from(expected));
                return Err(self.unexpected(&place));
            }
        }
        Ok(())
    }

    /// Scans a number whose first character was peeked.
    pub(super) fn number(&mut self) -> Scanned<&'a str> {
        let start = self.at;
        self.take(b'-');
        if !self.take(b'0') {
            self.digits("in numeric literal")?;
        }
        if self.take(b'.') {
            self.digits("after decimal point in numeric literal")?;
        }
        if self.take(b'e') || self.take(b'E') {
            let _sign = self.take(b'+') || self.take(b'-');
            self.digits("in exponent of numeric literal")?;
        }
        Ok(std::str::from_utf8(&self.bytes[start..self.at])
            .expect("digits, signs, points and letters are ASCII"))
    }

    fn digits(&mut self, place: &str) -> Scanned<()> {
        if !self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            return Err(self.unexpected(place));
        }
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        Ok(())
    }

    /// Scans a string whose opening quote was peeked. Invalid UTF-8 becomes U+FFFD.
    pub(super) fn string(&mut self) -> Scanned<Cow<'a, str>> {
        self.at += 1;
        let start = self.at;
        let plain = self.bytes[start..].iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20));
        self.at = plain.map_or(self.bytes.len(), |length| start + length);
        let text = lossy(&self.bytes[start..self.at]);
        if self.take(b'"') {
            return Ok(text);
        }
        self.escaped_string(text.into_owned()).map(Cow::Owned)
    }

    /// The rest of a string with escapes.
    fn escaped_string(&mut self, mut text: String) -> Scanned<String> {
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    // The capacity of the grown string is not charged to the budget.
                    text.shrink_to_fit();
                    return Ok(text);
                }
                Some(b'\\') => {
                    self.at += 1;
                    text.push(self.escape()?);
                }
                None | Some(0..0x20) => return Err(self.unexpected("in string literal")),
                Some(_) => {
                    let start = self.at;
                    let plain =
                        self.bytes[start..].iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20));
                    self.at = plain.map_or(self.bytes.len(), |length| start + length);
                    text.push_str(&lossy(&self.bytes[start..self.at]));
                }
            }
        }
    }

    fn escape(&mut self) -> Scanned<char> {
        let character = match self.peek() {
            Some(byte @ (b'"' | b'\\' | b'/')) => char::from(byte),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.at += 1;
                return self.unicode_escape();
            }
            _ => return Err(self.unexpected("in string escape code")),
        };
        self.at += 1;
        Ok(character)
    }

    /// After `\u`: a UTF-16 code unit, and the low surrogate if the first is a high one. A lone surrogate becomes
    /// U+FFFD.
    fn unicode_escape(&mut self) -> Scanned<char> {
        let first = self.code_unit()?;
        if let Some(character) = char::from_u32(first) {
            return Ok(character);
        }
        if first < 0xdc00 && self.bytes[self.at..].starts_with(b"\\u") {
            let before = self.at;
            self.at += 2;
            let second = self.code_unit()?;
            if (0xdc00..0xe000).contains(&second) {
                let character = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                return Ok(char::from_u32(character).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            self.at = before;
        }
        Ok(char::REPLACEMENT_CHARACTER)
    }

    fn code_unit(&mut self) -> Scanned<u32> {
        let mut unit = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|byte| char::from(byte).to_digit(16));
            let digit = digit.ok_or_else(|| self.unexpected("in \\u hexadecimal character escape"))?;
            unit = unit * 16 + digit;
            self.at += 1;
        }
        Ok(unit)
    }

    /// A syntax error at the next byte.
    pub(super) fn unexpected(&self, place: &str) -> DecodeError {
        let message = match self.peek() {
            None => "unexpected end of JSON input".to_owned(),
            Some(byte) => {
                let mut shown = String::new();
                write_escaped(&mut shown, char::from(byte), '\'').expect("writing to a string cannot fail");
                format!("invalid character '{shown}' {place}")
            }
        };
        DecodeError::Json { message, offset: self.at }
    }
}
