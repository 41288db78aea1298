//! Regular expressions of string validation (`pattern`), which have Go's syntax.
//!
//! Go's and Rust's engines are closely related (both run in linear time), but some syntax differs
//! in meaning: classes such as `\d` are ASCII in Go, a lone brace is literal, `\<` is an angle
//! bracket. So patterns are translated to the syntax of the regex crate.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::iter::Peekable;
use std::str::Chars;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use regex::{Regex, RegexBuilder};

/// Maximum number of cached compiled patterns. Each takes about 10 KiB, and most schemas use the
/// same few patterns; when the cache is full, it is cleared.
const MAX_COMPILED: usize = 512;

/// Maximum size of a compiled pattern. Go has a similar limit.
const MAX_SIZE: usize = 4 << 20;

/// Maximum repetition count in Go.
const MAX_REPEAT: u32 = 1_000;

/// A syntax error in a pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("error parsing regexp: {0}")]
pub struct InvalidPattern(String);

impl InvalidPattern {
    fn new(code: &str, text: &str) -> Self {
        Self(format!("{code}: `{text}`"))
    }
}

/// Checks that Go's `regexp.Compile` accepts a pattern.
///
/// # Errors
/// Go's message, if the pattern is invalid.
pub fn check_pattern(pattern: &str) -> Result<(), InvalidPattern> {
    compiled(pattern).map(drop)
}

/// Returns true if the pattern matches a part of the text.
pub(crate) fn matches(pattern: &str, text: &str) -> Result<bool, InvalidPattern> {
    Ok(compiled(pattern)?.is_match(text))
}

type Cache = HashMap<Box<str>, Result<Arc<Regex>, InvalidPattern>>;

/// Returns the compiled pattern from the cache. The lock is not held while compiling, so two
/// threads may compile the same pattern.
fn compiled(pattern: &str) -> Result<Arc<Regex>, InvalidPattern> {
    static CACHE: LazyLock<Mutex<Cache>> = LazyLock::new(Mutex::default);
    let cache = || CACHE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(cached) = cache().get(pattern) {
        return cached.clone();
    }
    let compiled = compile(pattern).map(Arc::new);
    let mut cache = cache();
    if cache.len() >= MAX_COMPILED {
        cache.clear();
    }
    cache.insert(pattern.into(), compiled.clone());
    compiled
}

fn compile(pattern: &str) -> Result<Regex, InvalidPattern> {
    let translated = Translator::new(pattern).run()?;
    RegexBuilder::new(&translated)
        .size_limit(MAX_SIZE)
        .dfa_size_limit(MAX_SIZE / 8)
        .build()
        .map_err(|_| InvalidPattern(format!("invalid syntax: `{pattern}`")))
}

struct Translator<'a> {
    whole: &'a str,
    rest: Peekable<Chars<'a>>,
    out: String,
    /// The number of open groups.
    depth: usize,
    /// True if there is something that a repetition operator could repeat.
    has_argument: bool,
}

impl<'a> Translator<'a> {
    fn new(pattern: &'a str) -> Self {
        let out = String::with_capacity(pattern.len() + 8);
        Self { whole: pattern, rest: pattern.chars().peekable(), out, depth: 0, has_argument: false }
    }

    fn run(mut self) -> Result<String, InvalidPattern> {
        // Start of the repetition operator directly before the current position.
        let mut repetition = None;
        loop {
            let start = self.rest.clone();
            let Some(c) = self.rest.next() else { break };
            let is_repetition = match c {
                '*' | '+' | '?' => {
                    self.out.push(c);
                    true
                }
                '{' => self.brace(&start)?,
                _ => {
                    self.plain(c, &start)?;
                    false
                }
            };
            // A question mark after a repetition operator makes it lazy.
            if is_repetition && self.rest.next_if_eq(&'?').is_some() {
                self.out.push('?');
            }
            repetition = match (is_repetition, repetition) {
                (false, _) => None,
                (true, None) if self.has_argument => Some(start),
                (true, None) => {
                    let text = self.text_since(&start);
                    return Err(InvalidPattern::new("missing argument to repetition operator", text));
                }
                (true, Some(first)) => {
                    let text = self.text_since(&first);
                    return Err(InvalidPattern::new("invalid nested repetition operator", text));
                }
            };
        }
        if self.depth > 0 {
            return Err(InvalidPattern::new("missing closing )", self.whole));
        }
        Ok(self.out)
    }

    /// Returns the text from an earlier position to the current one.
    fn text_since(&self, start: &Peekable<Chars<'a>>) -> &'a str {
        let offset =
            |rest: &Peekable<Chars<'a>>| self.whole.len() - rest.clone().map(char::len_utf8).sum::<usize>();
        &self.whole[offset(start)..offset(&self.rest)]
    }

    fn plain(&mut self, c: char, start: &Peekable<Chars<'a>>) -> Result<(), InvalidPattern> {
        match c {
            '(' => return self.group(start),
            ')' if self.depth == 0 => return Err(InvalidPattern::new("unexpected )", self.whole)),
            _ => {}
        }
        self.has_argument = c != '|';
        match c {
            '\\' => self.escape(false),
            '[' => self.class(start),
            '}' | ']' => {
                self.literal(c);
                Ok(())
            }
            _ => {
                self.depth -= usize::from(c == ')');
                self.out.push(c);
                Ok(())
            }
        }
    }

    fn literal(&mut self, c: char) {
        if c.is_alphanumeric() {
            self.out.push(c);
        } else {
            write!(self.out, "\\x{{{:x}}}", u32::from(c)).expect("writing to a string cannot fail");
        }
    }

    /// Translates a repetition count or a literal brace. Returns true if it was a count.
    fn brace(&mut self, start: &Peekable<Chars<'a>>) -> Result<bool, InvalidPattern> {
        let mut ahead = self.rest.clone();
        let min = digits(&mut ahead);
        let mut max = min.clone();
        if ahead.next_if_eq(&',').is_some() {
            max = digits(&mut ahead);
        }
        if min.is_empty() || ahead.next() != Some('}') {
            self.literal('{');
            self.has_argument = true;
            return Ok(false);
        }
        self.rest = ahead;
        let open = max.is_empty();
        let count = |digits: &str| digits.parse::<u32>().ok().filter(|count| *count <= MAX_REPEAT);
        let (low, high) = (count(&min), if open { Some(MAX_REPEAT) } else { count(&max) });
        match (low, high) {
            (Some(low), Some(high)) if low <= high => {
                let max = if open { String::new() } else { high.to_string() };
                write!(self.out, "{{{low},{max}}}").expect("writing to a string cannot fail");
                Ok(true)
            }
            _ => Err(InvalidPattern::new("invalid repeat count", self.text_since(start))),
        }
    }

    /// Translates the start of a group. Rejects flags that Go lacks, because the regex crate may
    /// have them.
    fn group(&mut self, start: &Peekable<Chars<'a>>) -> Result<(), InvalidPattern> {
        self.out.push('(');
        if self.rest.next_if_eq(&'?').is_none() {
            self.open_group();
            return Ok(());
        }
        self.out.push('?');
        if self.is_named_group() {
            self.open_group();
            return Ok(());
        }
        while let Some(c) = self.rest.next_if(|c| matches!(c, 'i' | 'm' | 's' | 'U' | '-')) {
            self.out.push(c);
        }
        match self.rest.next() {
            Some(':') => {
                self.out.push(':');
                self.open_group();
                Ok(())
            }
            Some(')') => {
                self.out.push(')');
                Ok(())
            }
            _ => Err(InvalidPattern::new("invalid or unsupported Perl syntax", self.text_since(start))),
        }
    }

    fn open_group(&mut self) {
        self.depth += 1;
        self.has_argument = false;
    }

    /// Consumes the `P` of `P<`, if any; returns true if `P<` or `<` follows.
    fn is_named_group(&mut self) -> bool {
        let mut ahead = self.rest.clone();
        let is_named = match ahead.next() {
            Some('P') => ahead.next() == Some('<'),
            first => first == Some('<'),
        };
        if is_named {
            self.out.extend(self.rest.next());
        }
        is_named
    }

    fn escape(&mut self, in_class: bool) -> Result<(), InvalidPattern> {
        let Some(c) = self.rest.next() else {
            return Err(InvalidPattern("trailing backslash at end of expression: ``".to_owned()));
        };
        let translated = match c {
            'd' => "[0-9]",
            'D' => "[^0-9]",
            'w' => "[0-9A-Za-z_]",
            'W' => "[^0-9A-Za-z_]",
            's' => r"[\t\n\x0C\r ]",
            'S' => r"[^\t\n\x0C\r ]",
            'a' => r"\x07",
            'f' => r"\x0C",
            'v' => r"\x0B",
            't' => r"\t",
            'n' => r"\n",
            'r' => r"\r",
            'b' if !in_class => r"(?-u:\b)",
            'B' if !in_class => r"(?-u:\B)",
            'A' if !in_class => r"\A",
            'z' if !in_class => r"\z",
            'Q' if !in_class => return self.quoted(),
            'x' => return self.hexadecimal(),
            'p' | 'P' => return self.property(c),
            '0'..='7' => return self.octal(c),
            c if c.is_ascii() && !c.is_ascii_alphanumeric() => {
                self.literal(c);
                return Ok(());
            }
            c => return Err(InvalidPattern(format!("invalid escape sequence: `\\{c}`"))),
        };
        self.out.push_str(translated);
        Ok(())
    }

    /// Translates a literal up to `\E`.
    fn quoted(&mut self) -> Result<(), InvalidPattern> {
        while let Some(c) = self.rest.next() {
            if c == '\\' && self.rest.next_if_eq(&'E').is_some() {
                break;
            }
            self.literal(c);
        }
        Ok(())
    }

    fn hexadecimal(&mut self) -> Result<(), InvalidPattern> {
        let digits: String = if self.rest.next_if_eq(&'{').is_some() {
            self.rest.by_ref().take_while(|c| *c != '}').collect()
        } else {
            self.rest.by_ref().take(2).collect()
        };
        match u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32) {
            Some(c) => {
                self.literal(c);
                Ok(())
            }
            None => Err(InvalidPattern(format!("invalid escape sequence: `\\x{digits}`"))),
        }
    }

    fn octal(&mut self, first: char) -> Result<(), InvalidPattern> {
        let mut digits = String::from(first);
        while let Some(c) = self.rest.next_if(|c| digits.len() < 3 && matches!(c, '0'..='7')) {
            digits.push(c);
        }
        // A single non-zero digit would be a back reference, which linear-time engines do not
        // support.
        match u32::from_str_radix(&digits, 8).ok().and_then(char::from_u32) {
            Some(c) if first == '0' || digits.len() > 1 => {
                self.literal(c);
                Ok(())
            }
            _ => Err(InvalidPattern(format!("invalid escape sequence: `\\{first}`"))),
        }
    }

    fn property(&mut self, c: char) -> Result<(), InvalidPattern> {
        let name: String = match self.rest.next() {
            Some('{') => self.rest.by_ref().take_while(|c| *c != '}').collect(),
            Some(letter) => letter.into(),
            None => return Err(InvalidPattern(format!("invalid character class range: `\\{c}`"))),
        };
        let (name, negated) = name.strip_prefix('^').map_or((&*name, false), |name| (name, true));
        let letter = if (c == 'P') == negated { 'p' } else { 'P' };
        if name == "Any" {
            let any = if letter == 'p' { r"[\x{0}-\x{10FFFF}]" } else { r"[^\x{0}-\x{10FFFF}]" };
            self.out.push_str(any);
        } else {
            write!(self.out, "\\{letter}{{{name}}}").expect("writing to a string cannot fail");
        }
        Ok(())
    }

    fn class(&mut self, start: &Peekable<Chars<'a>>) -> Result<(), InvalidPattern> {
        self.out.push('[');
        if self.rest.next_if_eq(&'^').is_some() {
            self.out.push('^');
        }
        let mut is_first = true;
        loop {
            match self.rest.next() {
                None => return Err(InvalidPattern::new("missing closing ]", self.text_since(start))),
                Some(']') if !is_first => break,
                Some('[') if self.rest.peek() == Some(&':') => self.named_class(),
                Some('\\') => self.escape(true)?,
                // Between two characters a hyphen denotes a range; elsewhere it is literal.
                Some('-') if !is_first && self.rest.peek() != Some(&']') => self.out.push('-'),
                Some(c) => self.literal(c),
            }
            is_first = false;
        }
        self.out.push(']');
        Ok(())
    }

    /// Translates `[:alpha:]`, or a literal bracket.
    fn named_class(&mut self) {
        let mut ahead = self.rest.clone();
        ahead.next();
        let name: String = ahead.by_ref().take_while(|c| *c != ':').take(16).collect();
        if ahead.next() == Some(']') {
            self.rest = ahead;
            write!(self.out, "[:{name}:]").expect("writing to a string cannot fail");
        } else {
            self.literal('[');
        }
    }
}

fn digits(chars: &mut Peekable<Chars<'_>>) -> String {
    let mut digits = String::new();
    while let Some(c) = chars.next_if(char::is_ascii_digit) {
        digits.push(c);
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_go() {
        for (pattern, text, expected) in [
            (r"^\d+$", "12", true),
            (r"^\d+$", "١٢", false),
            (r"^[\w.-]+$", "a-b.c", true),
            (r"^a{2,3}$", "aaa", true),
            (r"^a{,3}$", "a{,3}", true),
            (r"^{$", "{", true),
            (r"^[a&&b]+$", "a&b", true),
            (r"^[[a]+$", "[a", true),
            (r"^[]a]+$", "]a", true),
            (r"^[a\]]+$", "]a", true),
            (r"^[[:alpha:]]+$", "ab", true),
            (r"^\<a\>$", "<a>", true),
            (r"^\Qa.b\E$", "a.b", true),
            (r"^\p{^Lu}$", "a", true),
            (r"^\pL$", "é", true),
            (r"^\x41\101$", "AA", true),
            (r"^[^/]+/?$", "a/", true),
            (r"(?i)^ab$", "AB", true),
            (r"^(?P<n>a)(?:b)$", "ab", true),
            (r"\bfoo\b", "a foo", true),
        ] {
            assert_eq!(matches(pattern, text), Ok(expected), "{pattern} {text}");
        }
        for pattern in ["a**", "(", "[a", r"\y", "a{1001}", "(?x)a", "(?=a)", r"\1", "a{3,2}", r"\"] {
            assert!(compile(pattern).is_err(), "{pattern}");
        }
    }

    #[test]
    fn invalid_pattern_returns_message_of_go() {
        for (pattern, expected) in [
            ("a[", "missing closing ]: `[`"),
            ("a[b", "missing closing ]: `[b`"),
            ("a(b", "missing closing ): `a(b`"),
            ("a)b", "unexpected ): `a)b`"),
            ("(?=x)", "invalid or unsupported Perl syntax: `(?=`"),
            ("(?!x)", "invalid or unsupported Perl syntax: `(?!`"),
            ("b(?x)a", "invalid or unsupported Perl syntax: `(?x`"),
            ("*a", "missing argument to repetition operator: `*`"),
            ("(+a)", "missing argument to repetition operator: `+`"),
            ("a|?b", "missing argument to repetition operator: `?`"),
            ("ba**", "invalid nested repetition operator: `**`"),
            ("a+?*", "invalid nested repetition operator: `+?*`"),
            (r"a\y", r"invalid escape sequence: `\y`"),
            (r"a\", "trailing backslash at end of expression: ``"),
            ("a{1001}", "invalid repeat count: `{1001}`"),
            ("a{3,2}b", "invalid repeat count: `{3,2}`"),
        ] {
            let error = check_pattern(pattern).unwrap_err().to_string();
            assert_eq!(error, format!("error parsing regexp: {expected}"), "{pattern}");
        }
    }
}
