//! Lexer. Reports and skips invalid tokens, like cel-go's generated lexer.

use crate::source::{Issues, Offset};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Operators, brackets and the keywords `in`, `true`, `false`, `null`.
    Fixed(&'static str),
    Int,
    Uint,
    Float,
    String,
    Bytes,
    Ident,
    EscapedIdent,
    End,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) start: Offset,
    pub(super) end: Offset,
}

/// Longer tokens precede their prefixes.
const FIXED: &[&str] = &[
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "[", "]", "{", "}", "(", ")", ".", ",", "-", "!", "?", ":",
    "+", "*", "/", "%",
];

const WORDS: &[&str] = &["in", "true", "false", "null"];

/// Returns the tokens of a text; the last one is [`Kind::End`].
pub(super) fn tokens(text: &str, issues: &mut Issues) -> Vec<Token> {
    let mut lexer = Lexer { text, at: 0 };
    let mut found = Vec::new();
    loop {
        lexer.skip_blank();
        let start = lexer.at;
        if start >= text.len() {
            found.push(Token { kind: Kind::End, start: offset(start), end: offset(start) });
            return found;
        }
        match lexer.token() {
            Ok(kind) => found.push(Token { kind, start: offset(start), end: offset(lexer.at) }),
            Err(end) => {
                lexer.at = end;
                let message = format!("Syntax error: token recognition error at: '{}'", &text[start..end]);
                issues.report(offset(start), message);
            }
        }
    }
}

fn offset(at: usize) -> Offset {
    // The length of expressions is limited far below this.
    Offset::try_from(at).unwrap_or(Offset::MAX - 1)
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

/// The kind of a token, or the end of the invalid text.
type Lexed = Result<Kind, usize>;

impl Lexer<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn byte(&self, at: usize) -> Option<u8> {
        self.text.as_bytes().get(at).copied()
    }

    /// Returns the offset after the character at `at`.
    fn after(&self, at: usize) -> usize {
        at + self.text[at..].chars().next().map_or(0, char::len_utf8)
    }

    fn skip_blank(&mut self) {
        loop {
            let rest = self.rest();
            let blank = rest.len() - rest.trim_start_matches(['\t', ' ', '\r', '\n', '\u{c}']).len();
            self.at += blank;
            if self.rest().starts_with("//") {
                self.at += self.rest().find('\n').unwrap_or(self.rest().len());
            } else if blank == 0 {
                return;
            }
        }
    }

    fn token(&mut self) -> Lexed {
        let first = self.byte(self.at).unwrap_or_default();
        let second = self.byte(self.at + 1).unwrap_or_default();
        match first {
            b'0'..=b'9' => Ok(self.number()),
            b'.' if second.is_ascii_digit() => Ok(self.number()),
            b'"' | b'\'' => self.string(self.at, Kind::String),
            b'`' => self.escaped_ident(),
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => self.word(),
            _ => self.fixed(),
        }
    }

    fn fixed(&mut self) -> Lexed {
        if let Some(found) = FIXED.iter().find(|fixed| self.rest().starts_with(**fixed)) {
            self.at += found.len();
            return Ok(Kind::Fixed(found));
        }
        let end = self.after(self.at);
        // The first half of an operator is reported together with the character after it.
        let half = matches!(self.byte(self.at), Some(b'=' | b'&' | b'|'));
        Err(if half && end < self.text.len() { self.after(end) } else { end })
    }

    fn digits(&mut self, fits: impl Fn(&u8) -> bool) -> bool {
        let count = self.rest().bytes().take_while(fits).count();
        self.at += count;
        count > 0
    }

    fn number(&mut self) -> Kind {
        let start = self.at;
        if self.rest().starts_with("0x") {
            self.at += 2;
            if self.digits(u8::is_ascii_hexdigit) {
                return self.unsigned(Kind::Int);
            }
            self.at = start;
        }
        self.digits(u8::is_ascii_digit);
        let mut kind = Kind::Int;
        let whole = self.at;
        if self.byte(self.at) == Some(b'.') {
            self.at += 1;
            if self.digits(u8::is_ascii_digit) {
                kind = Kind::Float;
            } else {
                self.at = whole;
            }
        }
        let before_exponent = self.at;
        if matches!(self.byte(self.at), Some(b'e' | b'E')) {
            self.at += 1;
            self.at += usize::from(matches!(self.byte(self.at), Some(b'+' | b'-')));
            if self.digits(u8::is_ascii_digit) {
                return Kind::Float;
            }
            self.at = before_exponent;
        }
        if kind == Kind::Int { self.unsigned(kind) } else { kind }
    }

    fn unsigned(&mut self, signed: Kind) -> Kind {
        if matches!(self.byte(self.at), Some(b'u' | b'U')) {
            self.at += 1;
            return Kind::Uint;
        }
        signed
    }

    fn word(&mut self) -> Lexed {
        let start = self.at;
        let mut quote = start;
        let bytes = matches!(self.byte(quote), Some(b'b' | b'B'));
        quote += usize::from(bytes);
        quote += usize::from(matches!(self.byte(quote), Some(b'r' | b'R')));
        if quote > start && matches!(self.byte(quote), Some(b'"' | b'\'')) {
            let string = self.string(quote, if bytes { Kind::Bytes } else { Kind::String });
            if string.is_ok() {
                return string;
            }
            // Without closing quote the prefix is an identifier, followed by an unterminated
            // string.
        }
        self.digits(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
        let word = &self.text[start..self.at];
        Ok(WORDS.iter().find(|fixed| **fixed == word).map_or(Kind::Ident, |fixed| Kind::Fixed(fixed)))
    }

    fn escaped_ident(&mut self) -> Lexed {
        let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"_.-/ ".contains(byte);
        let start = self.at;
        self.at += 1;
        let any = self.digits(allowed);
        if any && self.byte(self.at) == Some(b'`') {
            self.at += 1;
            return Ok(Kind::EscapedIdent);
        }
        let end = self.at;
        self.at = start;
        Err(if end < self.text.len() { self.after(end) } else { end })
    }

    /// Lexes a string whose quotes begin after its prefix.
    fn string(&mut self, quote: usize, kind: Kind) -> Lexed {
        let raw =
            matches!(quote.checked_sub(1).and_then(|at| self.byte(at)), Some(b'r' | b'R')) && quote > self.at;
        let mark = &self.text[quote..=quote];
        let triple = mark.repeat(3);
        if self.text[quote..].starts_with(&triple) {
            if let Ok(end) = self.close(quote + 3, &triple, raw) {
                self.at = end;
                return Ok(kind);
            }
            // The remaining text is an empty string and the beginning of another one.
            self.at = quote + 2;
            return Ok(kind);
        }
        self.at = self.close(quote + 1, mark, raw)?;
        Ok(kind)
    }

    /// Returns the offset after the end of a string, or after the first invalid character.
    fn close(&self, from: usize, mark: &str, raw: bool) -> Result<usize, usize> {
        let mut at = from;
        loop {
            let Some(byte) = self.byte(at) else { return Err(at) };
            if self.text[at..].starts_with(mark) {
                return Ok(at + mark.len());
            }
            at = match byte {
                b'\n' | b'\r' if mark.len() == 1 => return Err(self.after(at)),
                b'\\' if !raw => self.escape(at)?,
                _ => self.after(at),
            };
        }
    }

    /// Returns the offset after an escape sequence.
    fn escape(&self, backslash: usize) -> Result<usize, usize> {
        let at = backslash + 1;
        let Some(byte) = self.byte(at) else { return Err(at) };
        let (digits, fits): (usize, fn(&u8) -> bool) = match byte {
            b'a' | b'b' | b'f' | b'n' | b'r' | b't' | b'v' | b'"' | b'\'' | b'\\' | b'?' | b'`' => {
                return Ok(at + 1);
            }
            b'0'..=b'3' => (2, |byte| (b'0'..=b'7').contains(byte)),
            b'x' | b'X' => (2, u8::is_ascii_hexdigit),
            b'u' => (4, u8::is_ascii_hexdigit),
            b'U' => (8, u8::is_ascii_hexdigit),
            _ => return Err(self.after(at)),
        };
        for digit in at + 1..=at + digits {
            match self.byte(digit) {
                Some(found) if fits(&found) => {}
                Some(_) => return Err(self.after(digit)),
                None => return Err(digit),
            }
        }
        Ok(at + 1 + digits)
    }
}
