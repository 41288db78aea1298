//! A parser for comma-separated fields as in RFC 4180 and Go's `encoding/csv`. Errors contain the line but never its
//! content, which may be a secret.

/// Malformed text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum CsvError {
    #[error("line {line}: a quote within a field that does not begin with one")]
    BareQuote { line: usize },
    #[error("line {line}: unexpected text after the closing quote of a field")]
    AfterQuote { line: usize },
    #[error("line {line}: quoted field is not closed")]
    Unclosed { line: usize },
}

/// A record, and the line on which it begins.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) line: usize,
    pub(super) fields: Vec<String>,
}

/// Parses all records; empty lines are skipped.
pub(super) fn records(text: &str) -> Result<Vec<Record>, CsvError> {
    let mut reader = Reader { rest: text, line: 1 };
    let mut records = Vec::new();
    while !reader.rest.is_empty() {
        if reader.end_of_line() {
            continue;
        }
        records.push(reader.record()?);
    }
    Ok(records)
}

struct Reader<'a> {
    rest: &'a str,
    line: usize,
}

impl Reader<'_> {
    fn record(&mut self) -> Result<Record, CsvError> {
        let mut record = Record { line: self.line, fields: Vec::new() };
        loop {
            let field = match self.rest.strip_prefix('"') {
                Some(rest) => {
                    self.rest = rest;
                    self.quoted()?
                }
                None => self.plain()?,
            };
            record.fields.push(field);
            match self.rest.strip_prefix(',') {
                Some(rest) => self.rest = rest,
                None => {
                    self.end_of_line();
                    return Ok(record);
                }
            }
        }
    }

    fn plain(&mut self) -> Result<String, CsvError> {
        let end = self.rest.find([',', '\n']).unwrap_or(self.rest.len());
        let (field, rest) = self.rest.split_at(end);
        let field = if rest.starts_with(',') { field } else { field.strip_suffix('\r').unwrap_or(field) };
        if field.contains('"') {
            return Err(CsvError::BareQuote { line: self.line });
        }
        // A carriage return before the line feed is not part of the field.
        self.rest = rest;
        Ok(field.to_owned())
    }

    /// Reads a quoted field, in which two quotes stand for one.
    fn quoted(&mut self) -> Result<String, CsvError> {
        let (mut field, begin) = (String::new(), self.line);
        loop {
            let end = self.rest.find('"').ok_or(CsvError::Unclosed { line: begin })?;
            let part = &self.rest[..end];
            self.line += part.matches('\n').count();
            field.push_str(part);
            self.rest = &self.rest[end + 1..];
            if let Some(rest) = self.rest.strip_prefix('"') {
                field.push('"');
                self.rest = rest;
            } else if self.rest.is_empty()
                || self.rest.starts_with([',', '\n'])
                || self.rest.starts_with("\r\n")
            {
                return Ok(field);
            } else {
                return Err(CsvError::AfterQuote { line: self.line });
            }
        }
    }

    fn end_of_line(&mut self) -> bool {
        let rest = self.rest.strip_prefix("\r\n").or_else(|| self.rest.strip_prefix('\n'));
        if let Some(rest) = rest {
            self.rest = rest;
            self.line += 1;
        }
        rest.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(text: &str) -> Vec<Vec<String>> {
        records(text).unwrap().into_iter().map(|record| record.fields).collect()
    }

    #[test]
    fn records_are_parsed_as_in_go() {
        assert_eq!(fields(""), Vec::<Vec<String>>::new());
        assert_eq!(fields("a,b,c\n\n\r\nd,,\n"), [vec!["a", "b", "c"], vec!["d", "", ""]]);
        assert_eq!(fields("a,\"b,\"\"c\"\"\nd\",e\r\nf"), [vec!["a", "b,\"c\"\nd", "e"], vec!["f"]]);
        assert_eq!(fields(" a, b"), [vec![" a", " b"]]);
        let lines: Vec<usize> = records("a\n\"b\nc\"\nd").unwrap().iter().map(|record| record.line).collect();
        assert_eq!(lines, [1, 2, 4]);
    }

    #[test]
    fn errors_do_not_contain_the_content() {
        assert_eq!(records("x\na\"b"), Err(CsvError::BareQuote { line: 2 }));
        assert_eq!(records("\"a\"b"), Err(CsvError::AfterQuote { line: 1 }));
        assert_eq!(records("a\n\"secret"), Err(CsvError::Unclosed { line: 2 }));
        assert!(!records("a\n\"secret").unwrap_err().to_string().contains("secret"));
    }
}
