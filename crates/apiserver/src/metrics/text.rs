//! The text form of Prometheus.

use std::fmt::{Display, Write};

/// A text being written.
#[derive(Default)]
pub(super) struct Text(String);

impl Text {
    /// Begins what has this name.
    pub(super) fn family(&mut self, name: &str, kind: &str, help: &str) {
        self.line(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
    }

    /// Whole lines that somebody else has written.
    pub(super) fn append(&mut self, lines: &str) {
        self.0.push_str(lines);
    }

    /// One value.
    pub(super) fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
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

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        self.0.write_fmt(line).expect("memory takes every text");
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0.into_bytes()
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
        assert_eq!(String::from_utf8(text.into_bytes()).unwrap(), expected);
    }
}
