//! Translation of Go's regular expressions to the syntax of the regex crate. Both are derived from
//! RE2; they differ in the meaning of classes such as `\d`, in special characters within brackets,
//! and in a few features that only one of them has.

/// Maximum repetition count in a pattern, as in Go.
const MAX_REPEAT: u32 = 1000;

/// Translates a Go pattern to the syntax of the regex crate.
///
/// # Errors
/// Go's message, for patterns that the regex crate would accept or reject with a different message.
pub(super) fn translate(pattern: &str) -> Result<String, String> {
    let mut translator =
        Translator { pattern, at: 0, out: String::with_capacity(pattern.len() + 16), open: Vec::new() };
    let mut repeated: Option<usize> = None;
    let mut operand = false;
    while let Some(next) = translator.peek() {
        let start = translator.at;
        match next {
            '*' | '+' | '?' | '{' if next != '{' || translator.repeat_count().is_some() => {
                if !operand {
                    return translator
                        .error("missing argument to repetition operator", &translator.operator());
                }
                let operator = translator.repetition()?;
                if let Some(first) = repeated {
                    return translator
                        .error("invalid nested repetition operator", &pattern[first..translator.at]);
                }
                translator.out.push_str(&operator);
                repeated = Some(start);
                continue;
            }
            '\\' => translator.escape(false)?,
            '[' => translator.class()?,
            '(' => {
                translator.group()?;
                operand = false;
                repeated = None;
                continue;
            }
            ')' => {
                if translator.open.pop().is_none() {
                    return translator.error("unexpected )", pattern);
                }
                translator.copy();
            }
            '|' => {
                translator.copy();
                operand = false;
                repeated = None;
                continue;
            }
            '{' | '}' | ']' => {
                translator.out.push('\\');
                translator.copy();
            }
            _ => translator.copy(),
        }
        operand = true;
        repeated = None;
    }
    if translator.open.is_empty() {
        Ok(translator.out)
    } else {
        translator.error("missing closing )", pattern)
    }
}

struct Translator<'a> {
    pattern: &'a str,
    at: usize,
    out: String,
    /// Start positions of unclosed groups.
    open: Vec<usize>,
}

impl<'a> Translator<'a> {
    fn peek(&self) -> Option<char> {
        self.pattern[self.at..].chars().next()
    }

    fn rest(&self) -> &'a str {
        &self.pattern[self.at..]
    }

    fn copy(&mut self) {
        if let Some(next) = self.peek() {
            self.out.push(next);
            self.at += next.len_utf8();
        }
    }

    fn error<T>(&self, what: &str, part: &str) -> Result<T, String> {
        Err(format!("error parsing regexp: {what}: `{part}`"))
    }

    /// Parses `{n}`, `{n,}` or `{n,m}` at the current position. Returns its length and its numbers.
    fn repeat_count(&self) -> Option<(usize, u32, Option<u32>)> {
        let end = self.rest().find('}')?;
        let inner = &self.rest()[1..end];
        let number = |text: &str| {
            let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            plain.then(|| text.parse().unwrap_or(u32::MAX))
        };
        let (low, high) = match inner.split_once(',') {
            None => (number(inner)?, Some(number(inner)?)),
            Some((low, "")) => (number(low)?, None),
            Some((low, high)) => (number(low)?, Some(number(high)?)),
        };
        Some((end + 1, low, high))
    }

    /// Returns the repetition operator at the current position, including a lazy `?`.
    fn operator(&self) -> String {
        let length = self.repeat_count().map_or(1, |(length, ..)| length);
        self.rest()[..length].to_owned()
    }

    fn repetition(&mut self) -> Result<String, String> {
        let length = match (self.peek(), self.repeat_count()) {
            (Some('{'), Some((length, low, high))) => {
                let high = high.unwrap_or(low);
                if low > MAX_REPEAT || high > MAX_REPEAT || low > high {
                    return self.error("invalid repeat count", &self.rest()[..length]);
                }
                length
            }
            _ => 1,
        };
        let length = length + usize::from(self.rest()[length..].starts_with('?'));
        let operator = self.rest()[..length].to_owned();
        self.at += length;
        Ok(operator)
    }

    fn group(&mut self) -> Result<(), String> {
        self.open.push(self.at);
        if !self.rest().starts_with("(?") {
            self.copy();
            return Ok(());
        }
        let rest = self.rest();
        if rest.starts_with("(?P<")
            || (rest.starts_with("(?<") && !rest.starts_with("(?<=") && !rest.starts_with("(?<!"))
        {
            let Some(end) = rest.find('>') else { return self.error("invalid named capture", rest) };
            let name = rest[..=end].to_owned();
            self.out.push_str(&name);
            self.at += name.len();
            return Ok(());
        }
        let flags = rest[2..].bytes().take_while(|byte| b"imsU-".contains(byte)).count();
        let end = 2 + flags;
        match rest[end..].chars().next() {
            Some(':') => {}
            Some(')') if flags > 0 => {
                self.open.pop();
            }
            Some(other) => {
                let part = rest[..end + other.len_utf8()].to_owned();
                return self.error("invalid or unsupported Perl syntax", &part);
            }
            None => return self.error("missing closing )", self.pattern),
        }
        let text = rest[..=end].to_owned();
        self.out.push_str(&text);
        self.at += text.len();
        Ok(())
    }

    /// Translates an escape sequence, within or outside of brackets.
    fn escape(&mut self, bracketed: bool) -> Result<(), String> {
        let start = self.at;
        self.at += 1;
        let Some(code) = self.peek() else {
            return self.error("trailing backslash at end of expression", "");
        };
        self.at += code.len_utf8();
        let class = |inner: &str, negated: bool| match (bracketed, negated) {
            (true, false) => inner.to_owned(),
            (_, true) => format!("[^{inner}]"),
            (false, false) => format!("[{inner}]"),
        };
        let translated = match code {
            'd' | 'D' => class("0-9", code == 'D'),
            's' | 'S' => class("\\t\\n\\x0C\\r ", code == 'S'),
            'w' | 'W' => class("0-9A-Za-z_", code == 'W'),
            'b' | 'B' if !bracketed => format!("(?-u:\\{code})"),
            'A' | 'z' if !bracketed => format!("\\{code}"),
            'Q' if !bracketed => {
                let literal = self.rest().split("\\E").next().unwrap_or_default().to_owned();
                self.at = (self.at + literal.len() + 2).min(self.pattern.len());
                regex::escape(&literal)
            }
            'p' | 'P' | 'x' => {
                let length = match self.peek() {
                    Some('{') => self.rest().find('}').map_or(self.rest().len(), |end| end + 1),
                    _ => {
                        if code == 'x' {
                            2
                        } else {
                            1
                        }
                    }
                };
                let end = (self.at..=self.pattern.len())
                    .find(|end| *end >= self.at + length && self.pattern.is_char_boundary(*end))
                    .unwrap_or(self.pattern.len());
                self.at = end;
                self.pattern[start..end].to_owned()
            }
            'a' | 'f' | 'n' | 'r' | 't' | 'v' => format!("\\{code}"),
            '<' | '>' => code.to_string(),
            other if other.is_ascii_punctuation() || other == ' ' => regex::escape(&other.to_string()),
            _ => return self.error("invalid escape sequence", &self.pattern[start..self.at]),
        };
        self.out.push_str(&translated);
        Ok(())
    }

    /// Translates a bracketed class, in which only Go's few special characters remain special.
    fn class(&mut self) -> Result<(), String> {
        let start = self.at;
        self.copy();
        if self.peek() == Some('^') {
            self.copy();
        }
        let mut first = true;
        loop {
            match self.peek() {
                None => return self.error("missing closing ]", &self.pattern[start..]),
                Some(']') if !first => {
                    self.copy();
                    return Ok(());
                }
                Some('[') if self.rest().starts_with("[:") && self.rest().contains(":]") => {
                    let end = self.rest().find(":]").unwrap_or_default() + 2;
                    let name = self.rest()[..end].to_owned();
                    self.out.push_str(&name);
                    self.at += end;
                }
                Some('\\') => self.escape(true)?,
                Some(special @ ('[' | ']' | '&' | '~')) => {
                    self.out.push('\\');
                    self.out.push(special);
                    self.at += 1;
                }
                Some('-') if self.rest().starts_with("--") => {
                    self.out.push_str("\\-");
                    self.at += 1;
                }
                Some(_) => self.copy(),
            }
            first = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_go() {
        for (pattern, expected) in [
            ("^[a-z]+$", "^[a-z]+$"),
            (r"\d+\w?\s", r"[0-9]+[0-9A-Za-z_]?[\t\n\x0C\r ]"),
            (r"[\d.-]", "[0-9.-]"),
            (r"\bx\B", r"(?-u:\b)x(?-u:\B)"),
            ("[a&&b[]", r"[a\&\&b\[]"),
            ("[[:alpha:]]", "[[:alpha:]]"),
            ("[]a]", r"[\]a]"),
            (r"\Qa.b\E+", r"a\.b+"),
            ("a{,2}", r"a\{,2\}"),
            ("(?i:a)(?P<n>b)(?s).", "(?i:a)(?P<n>b)(?s)."),
            ("a{2,3}?", "a{2,3}?"),
        ] {
            assert_eq!(translate(pattern).as_deref(), Ok(expected), "{pattern}");
            assert!(regex::Regex::new(expected).is_ok(), "{expected}");
        }
    }

    #[test]
    fn malformed_pattern_returns_message_of_go() {
        for (pattern, expected) in [
            ("[a", "missing closing ]: `[a`"),
            ("(a", "missing closing ): `(a`"),
            ("a)", "unexpected ): `a)`"),
            ("*a", "missing argument to repetition operator: `*`"),
            ("a**", "invalid nested repetition operator: `**`"),
            ("a{1001}", "invalid repeat count: `{1001}`"),
            ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
            ("(?x)a", "invalid or unsupported Perl syntax: `(?x`"),
            (r"\y", r"invalid escape sequence: `\y`"),
            ("\\", "trailing backslash at end of expression: ``"),
        ] {
            assert_eq!(translate(pattern), Err(format!("error parsing regexp: {expected}")), "{pattern}");
        }
    }
}
