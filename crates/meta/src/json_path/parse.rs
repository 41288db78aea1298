//! Parser for JSONPath expressions.

use super::{Filter, InvalidJsonPath, JsonPath, Operator, Range, Step, To};

/// Characters that end the name of a field.
const FIELD_DELIMITERS: &[char] = &['.', ',', '[', ']', '$', '@', '{', '}', ' ', '\t', '\r', '\n'];

type Parsed<T> = Result<T, InvalidJsonPath>;

fn invalid<T>(message: impl Into<String>) -> Parsed<T> {
    Err(InvalidJsonPath(message.into()))
}

/// Parses a complete expression.
pub(super) fn parse(text: &str) -> Parsed<JsonPath> {
    let mut parser = Parser { rest: text, steps: Vec::new() };
    while !parser.rest.is_empty() {
        parser.step()?;
    }
    Ok(JsonPath { steps: parser.steps })
}

struct Parser<'a> {
    rest: &'a str,
    steps: Vec<Step>,
}

impl<'a> Parser<'a> {
    fn take(&mut self, prefix: &str) -> bool {
        let taken = self.rest.strip_prefix(prefix);
        self.rest = taken.unwrap_or(self.rest);
        taken.is_some()
    }

    fn step(&mut self) -> Parsed<()> {
        if self.take("[?(") {
            return self.filter();
        }
        if self.take("..") {
            if self.steps.last() == Some(&Step::Deep) {
                return invalid("invalid multiple recursive descent");
            }
            self.steps.push(Step::Deep);
            let names_field = |first: char| first == '_' || first.is_alphanumeric();
            return if self.rest.starts_with(names_field) { self.field() } else { Ok(()) };
        }
        match self.rest.chars().next() {
            // `@` and `$` denote the object itself, so they add no step.
            Some(' ' | '@' | '$') => {
                self.rest = &self.rest[1..];
                Ok(())
            }
            Some('.') => {
                self.rest = &self.rest[1..];
                self.field()
            }
            Some('[') => self.brackets(),
            Some(quote @ ('"' | '\'')) => self.quoted(quote),
            Some(first) if first == '+' || first == '-' || first.is_ascii_digit() => self.number(),
            Some(first) if first == '_' || first.is_alphabetic() => self.word(),
            Some('\r' | '\n') | None => invalid("unclosed action"),
            Some(other) => invalid(format!("unrecognized character in action: {other:?}")),
        }
    }

    /// Parses a field name, in which a backslash escapes the next character.
    fn field(&mut self) -> Parsed<()> {
        let mut name = String::new();
        let mut characters = self.rest.char_indices();
        let mut end = self.rest.len();
        while let Some((at, character)) = characters.next() {
            if character == '\\' {
                name.extend(characters.next().map(|(_, escaped)| escaped).filter(|escaped| *escaped != '\\'));
            } else if FIELD_DELIMITERS.contains(&character) {
                end = at;
                break;
            } else {
                name.push(character);
            }
        }
        self.rest = &self.rest[end..];
        self.steps.push(if name == "*" { Step::All } else { Step::Field(name) });
        Ok(())
    }

    fn quoted(&mut self, quote: char) -> Parsed<()> {
        let Some((text, rest)) = unquote(&self.rest[1..], quote) else {
            return invalid("unterminated quoted string");
        };
        self.rest = rest;
        self.steps.push(Step::Literal(text.into()));
        Ok(())
    }

    fn number(&mut self) -> Parsed<()> {
        let signed = usize::from(self.rest.starts_with(['+', '-']));
        let length = self.rest[signed..].find(|digit: char| digit != '.' && !digit.is_ascii_digit());
        let (text, rest) = self.rest.split_at(length.map_or(self.rest.len(), |length| signed + length));
        let value = match (text.parse::<i64>(), text.parse::<f64>()) {
            (Ok(whole), _) => whole.into(),
            (_, Ok(real)) => real.into(),
            _ => return invalid(format!("cannot parse number {text}")),
        };
        self.rest = rest;
        self.steps.push(Step::Literal(value));
        Ok(())
    }

    /// Parses a bare word; within one pair of braces only `true` and `false` are valid.
    fn word(&mut self) -> Parsed<()> {
        let (word, rest) = self.rest.split_at(self.rest.find(FIELD_DELIMITERS).unwrap_or(self.rest.len()));
        let value = match word {
            "true" => true,
            "false" => false,
            other => return invalid(format!("unrecognized identifier {other}")),
        };
        self.rest = rest;
        self.steps.push(Step::Literal(value.into()));
        Ok(())
    }

    fn brackets(&mut self) -> Parsed<()> {
        let Some(end) = self.rest.find(']') else { return invalid("unterminated array") };
        let (inside, rest) = (&self.rest[1..end], &self.rest[end + 1..]);
        if inside.contains('\n') {
            return invalid("unterminated array");
        }
        self.rest = rest;
        if inside.contains(',') {
            let paths = inside.split(',').map(|one| parse(&format!("[{}]", one.trim_matches(' '))));
            self.steps.push(Step::Union(paths.collect::<Parsed<_>>()?));
            return Ok(());
        }
        let name = inside.strip_prefix('\'').and_then(|name| name.strip_suffix('\''));
        match name.filter(|name| !name.is_empty() && !name.contains('\'')) {
            Some(name) => self.steps.extend(parse(&format!(".{name}"))?.steps),
            None => self.steps.push(Step::Items(range(inside)?)),
        }
        Ok(())
    }

    fn filter(&mut self) -> Parsed<()> {
        let (inside, rest) = self.filter_text()?;
        self.rest = rest;
        let is_operator = |character: char| matches!(character, '!' | '<' | '>' | '=');
        let operator = inside.find(is_operator).filter(|at| *at > 0);
        let filter = match operator {
            None => Filter { left: parse(inside)?, compare: None },
            Some(at) => {
                let (left, from) = inside.split_at(at);
                let length = from.find(|character| !is_operator(character)).unwrap_or(from.len());
                let (operator, right) = from.split_at(length);
                Filter { left: parse(left)?, compare: Some((self::operator(operator)?, parse(right)?)) }
            }
        };
        self.steps.push(Step::Filter(Box::new(filter)));
        Ok(())
    }

    /// Splits off the text between the parentheses of a filter, and returns it and the rest.
    /// Parentheses in quotes do not end it.
    fn filter_text(&self) -> Parsed<(&'a str, &'a str)> {
        let mut quote = None;
        let mut escaped = false;
        for (at, character) in self.rest.char_indices() {
            match (character, quote) {
                ('\n', _) => break,
                ('"' | '\'', None) => quote = Some(character),
                (found, Some(open)) if found == open && !escaped => quote = None,
                (')', None) => {
                    let (inside, rest) = (&self.rest[..at], &self.rest[at + 1..]);
                    let rest = rest.strip_prefix(']');
                    return rest
                        .map_or_else(|| invalid("unclosed array expect ]"), |rest| Ok((inside, rest)));
                }
                _ => {}
            }
            escaped = character == '\\';
        }
        invalid("unterminated filter")
    }
}

fn operator(text: &str) -> Parsed<Operator> {
    Ok(match text {
        "<" => Operator::Less,
        "<=" => Operator::LessEqual,
        "==" => Operator::Equal,
        "!=" => Operator::NotEqual,
        ">=" => Operator::GreaterEqual,
        ">" => Operator::Greater,
        other => return invalid(format!("unrecognized filter operator {other}")),
    })
}

/// Parses an index or slice such as `0`, `1:3`, `-2:` or `::2`.
fn range(text: &str) -> Parsed<Range> {
    let mut parts = (if text == "*" { ":" } else { text }).split(':');
    let mut number = || match parts.next() {
        None => Ok(None),
        Some("") => Ok(Some(None)),
        Some(part) => match part.parse::<i64>() {
            Ok(number) if !part.starts_with('+') => Ok(Some(Some(number))),
            _ => invalid(format!("invalid array index {text}")),
        },
    };
    let (from, to, step) = (number()?, number()?, number()?);
    if number()?.is_some() || (from == Some(None) && to.is_none()) {
        return invalid(format!("invalid array index {text}"));
    }
    let to = match to {
        None => To::Single,
        Some(None) => To::End,
        Some(Some(index)) => To::Index(index),
    };
    Ok(Range { from: from.flatten(), to, step: step.flatten() })
}

/// Parses a quoted string up to the closing quote; returns it and the rest.
fn unquote(text: &str, quote: char) -> Option<(String, &str)> {
    let mut found = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '\n' => return None,
            '\\' => found.push(match characters.next()?.1 {
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                other => other,
            }),
            other if other == quote => return Some((found, &text[at + quote.len_utf8()..])),
            other => found.push(other),
        }
    }
    None
}
