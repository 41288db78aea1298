//! The text exposition format of Prometheus.

use std::fmt::{self, Display, Write};

/// A document in the exposition format, being written.
#[derive(Debug, Default)]
pub struct Text(String);

impl Text {
    /// Writes the `# HELP` and `# TYPE` lines of a metric.
    pub fn family(&mut self, name: &str, kind: &str, help: &str) {
        self.line(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
    }

    /// Appends complete lines in the exposition format.
    pub fn append(&mut self, lines: &str) {
        self.0.push_str(lines);
    }

    /// Writes one sample.
    pub fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.0.push_str(name);
        for (index, (label, text)) in labels.iter().enumerate() {
            self.0.push(if index == 0 { '{' } else { ',' });
            self.0.push_str(label);
            self.0.push_str("=\"");
            for character in text.chars() {
                match character {
                    '\\' | '"' => self.0.extend(['\\', character]),
                    '\n' => self.0.push_str("\\n"),
                    other => self.0.push(other),
                }
            }
            self.0.push('"');
        }
        if !labels.is_empty() {
            self.0.push('}');
        }
        self.line(format_args!(" {value}\n"));
    }

    fn line(&mut self, line: fmt::Arguments<'_>) {
        self.0.write_fmt(line).expect("memory takes every text");
    }

    /// Returns true if nothing was written.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the document.
    pub fn into_string(self) -> String {
        self.0
    }
}

/// Formats a number as Go does, so that bucket limits are the same strings as kube-apiserver's:
/// shortest exact digits, and an exponent of at least two digits for very small and very large
/// values.
#[derive(Clone, Copy, Debug)]
pub(super) struct Number(pub(super) f64);

/// Exponents at which Go switches to scientific notation (`%g` with the fewest digits that are
/// exact).
const LEAST_PLAIN_EXPONENT: i32 = -4;
const FIRST_LARGE_EXPONENT: i32 = 6;

impl Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(number) = *self;
        if number.is_infinite() {
            return f.write_str(if number > 0.0 { "+Inf" } else { "-Inf" });
        }
        let scientific = format!("{number:e}");
        let parts = scientific.split_once('e').and_then(|(digits, e)| Some((digits, e.parse::<i32>().ok()?)));
        match parts {
            Some((digits, exponent))
                if !(LEAST_PLAIN_EXPONENT..FIRST_LARGE_EXPONENT).contains(&exponent) && number != 0.0 =>
            {
                let sign = if exponent < 0 { '-' } else { '+' };
                write!(f, "{digits}e{sign}{:02}", exponent.abs())
            }
            _ => write!(f, "{number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped() {
        let mut text = Text::default();
        text.family("a", "counter", "All of them.");
        text.sample("a", &[("b", "x\"\\\n"), ("c", "")], 2);
        text.sample("a", &[], 0.5);
        let expected = "# HELP a All of them.\n# TYPE a counter\na{b=\"x\\\"\\\\\\n\",c=\"\"} 2\na 0.5\n";
        assert_eq!(text.into_string(), expected);
    }

    #[test]
    fn numbers_are_formatted_as_in_go() {
        for (number, expected) in [
            (0.0, "0"),
            (1.0, "1"),
            (0.005, "0.005"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (10e-9, "1e-08"),
            (1.5, "1.5"),
            (100_000.0, "100000"),
            (1_000_000.0, "1e+06"),
            (1_234_567.0, "1.234567e+06"),
            (f64::INFINITY, "+Inf"),
        ] {
            assert_eq!(Number(number).to_string(), expected);
        }
    }
}
