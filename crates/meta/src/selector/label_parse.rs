//! Parser for label selectors.
//!
//! The grammar is apimachinery's, including its peculiarities: `in` and `notin` may be keys and
//! values, a missing value is the empty one, and `x in ()` means `x in ("")`.

use super::labels::{Operator, Requirement, check_key};
use crate::field::{ErrorList, Path};

/// The reason why a string is not a label selector.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseError {
    /// An unexpected token.
    #[error("found '{found}', expected: {expected}")]
    Unexpected {
        /// The token that was found.
        found: String,
        /// The expected tokens.
        expected: &'static str,
    },
    /// `in` or `notin` without values.
    #[error("found '{found}' expected: '('")]
    NoValues {
        /// The token that was found.
        found: String,
    },
    /// An invalid label key or value.
    #[error(transparent)]
    Invalid(#[from] ErrorList),
    /// One of the other errors, within a requirement.
    #[error("unable to parse requirement: {0}")]
    Requirement(#[source] Box<ParseError>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    End,
    Comma,
    Open,
    Close,
    Not,
    /// `in` or `notin`: an operator after a key, otherwise a word.
    SetOperator(Operator, &'a str),
    Operator(Operator, &'a str),
    Word(&'a str),
}

/// Parses all requirements, in the order of the text.
pub(super) fn parse(text: &str) -> Result<Vec<Requirement>, ParseError> {
    let mut parser = Parser { rest: text, next: Token::End };
    parser.advance();
    let mut requirements = Vec::new();
    loop {
        match parser.next {
            Token::End => return Ok(requirements),
            Token::Word(_) | Token::SetOperator(..) | Token::Not => {}
            other => return Err(unexpected(other, "!, identifier, or 'end of string'")),
        }
        let requirement = parser.requirement();
        requirements.push(requirement.map_err(|error| ParseError::Requirement(Box::new(error)))?);
        match parser.take() {
            Token::End => return Ok(requirements),
            Token::Comma => {}
            other => return Err(unexpected(other, "',' or 'end of string'")),
        }
        if !matches!(parser.next, Token::Word(_) | Token::SetOperator(..) | Token::Not) {
            return Err(unexpected(parser.next, "identifier after ','"));
        }
    }
}

struct Parser<'a> {
    rest: &'a str,
    next: Token<'a>,
}

impl<'a> Parser<'a> {
    fn requirement(&mut self) -> Result<Requirement, ParseError> {
        let negated = self.next == Token::Not;
        if negated {
            self.advance();
        }
        let taken = self.take();
        let Some(key) = word(taken) else { return Err(unexpected(taken, "identifier")) };
        if let Some(error) = check_key(key, &Path::NIL) {
            return Err(ErrorList::from(error).into());
        }
        let none: [&str; 0] = [];
        // No operator may follow a negated key; the end is checked by the caller.
        if negated {
            return Ok(Requirement::new(key, Operator::DoesNotExist, none)?);
        }
        if matches!(self.next, Token::End | Token::Comma) {
            return Ok(Requirement::new(key, Operator::Exists, none)?);
        }
        let taken = self.take();
        match taken {
            Token::SetOperator(operator, _) => Ok(Requirement::new(key, operator, self.values()?)?),
            Token::Operator(operator, _) => Ok(Requirement::new(key, operator, [self.value()?])?),
            other => Err(unexpected(other, "in, notin, =, ==, !=, gt, lt")),
        }
    }

    /// Parses the value after an operator such as `=`.
    fn value(&mut self) -> Result<&'a str, ParseError> {
        if matches!(self.next, Token::End | Token::Comma) {
            return Ok("");
        }
        let taken = self.take();
        word(taken).ok_or_else(|| unexpected(taken, "identifier"))
    }

    /// Parses the values in parentheses after `in` or `notin`; the result is sorted and without
    /// duplicates.
    fn values(&mut self) -> Result<Vec<&'a str>, ParseError> {
        let taken = self.take();
        if taken != Token::Open {
            return Err(ParseError::NoValues { found: literal(taken).to_owned() });
        }
        let mut values = Vec::new();
        match self.next {
            Token::Close => values.push(""),
            Token::Comma | Token::Word(_) | Token::SetOperator(..) => self.value_list(&mut values)?,
            other => return Err(unexpected(other, "',', ')' or identifier")),
        }
        self.advance();
        values.sort_unstable();
        values.dedup();
        Ok(values)
    }

    /// Parses the values up to the closing parenthesis. A missing value before, after or between
    /// commas is the empty value.
    fn value_list(&mut self, values: &mut Vec<&'a str>) -> Result<(), ParseError> {
        loop {
            let taken = self.take();
            if let Some(value) = word(taken) {
                values.push(value);
                match self.next {
                    Token::Comma => {}
                    Token::Close => return Ok(()),
                    other => return Err(unexpected(other, "',' or ')'")),
                }
            } else if taken == Token::Comma {
                if values.is_empty() || self.next == Token::Comma {
                    values.push("");
                }
                if self.next == Token::Close {
                    values.push("");
                    return Ok(());
                }
            } else {
                return Err(unexpected(taken, "',', or identifier"));
            }
        }
    }

    fn take(&mut self) -> Token<'a> {
        let taken = self.next;
        self.advance();
        taken
    }

    fn advance(&mut self) {
        (self.next, self.rest) = lex(self.rest);
    }
}

/// Splits off the first token. A NUL byte ends the token before it; in front of a token it ends the
/// text, as in apimachinery.
fn lex(text: &str) -> (Token<'_>, &str) {
    let text = text.trim_start_matches(is_space);
    let symbol = match text.as_bytes() {
        [] | [0, ..] => return (Token::End, ""),
        [b'=', b'=', ..] => Some((Token::Operator(Operator::DoubleEquals, "=="), 2)),
        [b'!', b'=', ..] => Some((Token::Operator(Operator::NotEquals, "!="), 2)),
        [b'=', ..] => Some((Token::Operator(Operator::Equals, "="), 1)),
        [b'!', ..] => Some((Token::Not, 1)),
        [b'(', ..] => Some((Token::Open, 1)),
        [b')', ..] => Some((Token::Close, 1)),
        [b',', ..] => Some((Token::Comma, 1)),
        [b'>', ..] => Some((Token::Operator(Operator::GreaterThan, ">"), 1)),
        [b'<', ..] => Some((Token::Operator(Operator::LessThan, "<"), 1)),
        _ => None,
    };
    let (token, length) = symbol.unwrap_or_else(|| {
        let length = text.find(|c| is_space(c) || "=!(),><\0".contains(c)).unwrap_or(text.len());
        let token = match &text[..length] {
            word @ "in" => Token::SetOperator(Operator::In, word),
            word @ "notin" => Token::SetOperator(Operator::NotIn, word),
            word => Token::Word(word),
        };
        (token, length)
    });
    let rest = &text[length..];
    (token, rest.strip_prefix('\0').unwrap_or(rest))
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

fn word(token: Token<'_>) -> Option<&str> {
    match token {
        Token::Word(word) | Token::SetOperator(_, word) => Some(word),
        _ => None,
    }
}

fn literal(token: Token<'_>) -> &str {
    match token {
        Token::End => "",
        Token::Comma => ",",
        Token::Open => "(",
        Token::Close => ")",
        Token::Not => "!",
        Token::Word(text) | Token::SetOperator(_, text) | Token::Operator(_, text) => text,
    }
}

fn unexpected(found: Token<'_>, expected: &'static str) -> ParseError {
    ParseError::Unexpected { found: literal(found).to_owned(), expected }
}

#[cfg(test)]
mod tests {
    use super::super::labels::Selector;

    fn check(text: &str, expected: &str) {
        assert_eq!(text.parse::<Selector>().unwrap().to_string(), expected, "{text:?}");
    }

    fn check_error(text: &str, expected: &str) {
        assert_eq!(text.parse::<Selector>().unwrap_err().to_string(), expected, "{text:?}");
    }

    #[test]
    fn parsed_selector_prints_canonically() {
        for (text, expected) in [
            ("", ""),
            (" \n", ""),
            ("x=a", "x=a"),
            ("x = a , y==b", "x=a,y==b"),
            ("z!=c,x", "x,z!=c"),
            ("!x", "!x"),
            ("x in (b, a,b)", "x in (a,b)"),
            ("x in ()", "x in ()"),
            ("x in (,a)", "x in (,a)"),
            ("x notin (a,)", "x notin (,a)"),
            ("x=", "x="),
            ("x=,y", "x=,y"),
            ("x>1,y<2", "x>1,y<2"),
            ("in in (notin)", "in in (notin)"),
            ("x!=in", "x!=in"),
        ] {
            check(text, expected);
        }
    }

    #[test]
    fn parse_errors_match_kube_apiserver() {
        let key = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
        for (text, expected) in [
            (",x", "found ',', expected: !, identifier, or 'end of string'"),
            ("x,", "found '', expected: identifier after ','"),
            ("x=a b", "found 'b', expected: ',' or 'end of string'"),
            ("!x=a", "found '=', expected: ',' or 'end of string'"),
            ("!!x", "unable to parse requirement: found '!', expected: identifier"),
            ("x y", "unable to parse requirement: found 'y', expected: in, notin, =, ==, !=, gt, lt"),
            ("x in a", "unable to parse requirement: found 'a' expected: '('"),
            ("x in (", "unable to parse requirement: found '', expected: ',', ')' or identifier"),
            ("x in (a", "unable to parse requirement: found '', expected: ',' or ')'"),
            ("x in (,=", "unable to parse requirement: found '=', expected: ',', or identifier"),
            ("x=!", "unable to parse requirement: found '!', expected: identifier"),
            (
                "x>a",
                "unable to parse requirement: values[0]: Invalid value: \"a\": for 'Gt', 'Lt' operators, the value must be an integer",
            ),
        ] {
            check_error(text, expected);
        }
        check_error(
            "a_/b",
            "unable to parse requirement: <nil>: Invalid value: \"a_/b\": prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
        );
        let quoted = "unable to parse requirement: <nil>: Invalid value: \"-\": name part";
        check_error("-", &format!("{quoted} {key}"));
    }
}
