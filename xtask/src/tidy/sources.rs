//! Rules for Rust files, line by line. They match text, not syntax: a forbidden word in a string counts too, which is
//! why this file splits such words.

use super::Violation;
use super::tree::{File, Tree};

/// Comparable projects have a median of 106 to 294 lines per file; a file more than twice as long as the largest of
/// these medians has more than one subject and should be split.
const MAX_RUST_LINES: usize = 800;

/// Markers that must not stay in the tree, and what to do instead.
const MARKERS: &[(&str, &str)] = &[
    (concat!("to", "do!("), "write it, or return a typed error"),
    (concat!("unimple", "mented!("), "write it, or return a typed error"),
    (concat!("db", "g!("), "use tracing, or remove it"),
    (concat!("#[ig", "nore"), "assert today's behaviour with a note"),
    (concat!("TO", "DO"), "write it, or open an issue"),
    (concat!("FIX", "ME"), "mend it, or open an issue"),
    (concat!("XX", "X"), "say what is meant, or open an issue"),
];

/// An `allow` stays when its cause is gone; an `expect` then warns.
const ALLOWS: &[&str] = &[concat!("#[all", "ow("), concat!("#![all", "ow(")];

/// Every Rust file begins with a module comment. Examples are exempt.
pub(super) fn module_doc(tree: &Tree) -> Vec<Violation> {
    tree.rust_files()
        .filter(|file| !file.is_recorded() && !is_example(file))
        .filter(|file| !file.text().is_some_and(|text| text.starts_with("//!")))
        .map(|file| {
            Violation::on_line(&file.path, 1, "does not start with a `//!` paragraph saying what it is")
        })
        .collect()
}

pub(super) fn markers(tree: &Tree) -> Vec<Violation> {
    on_lines(tree, |line| {
        let (marker, instead) = MARKERS.iter().find(|(marker, _)| contains_word(line, marker))?;
        Some(format!("`{marker}` left behind: {instead}"))
    })
}

pub(super) fn allow_attributes(tree: &Tree) -> Vec<Violation> {
    on_lines(tree, |line| {
        let found = ALLOWS.iter().any(|allow| line.contains(allow));
        found.then(|| "use `#[expect(..., reason = \"...\")]` on one item instead of an allow".to_owned())
    })
}

pub(super) fn length(tree: &Tree) -> Vec<Violation> {
    tree.rust_files()
        .map(|file| (file, file.lines().count()))
        .filter(|(_, lines)| *lines > MAX_RUST_LINES)
        .map(|(file, lines)| {
            Violation::in_file(&file.path, format!("has {lines} lines, more than {MAX_RUST_LINES}: split it"))
        })
        .collect()
}

fn on_lines(tree: &Tree, check: impl Fn(&str) -> Option<String>) -> Vec<Violation> {
    let mut violations = Vec::new();
    for file in tree.rust_files() {
        for (number, line) in file.lines() {
            violations.extend(check(line).map(|message| Violation::on_line(&file.path, number, message)));
        }
    }
    violations
}

fn is_example(file: &File) -> bool {
    file.path.split('/').any(|part| part == "examples")
}

/// Returns true if the word stands alone: a letter before or after it makes it another name or a template.
fn contains_word(line: &str, word: &str) -> bool {
    let continues = |next: Option<char>| next.is_some_and(|next| next.is_alphanumeric() || next == '_');
    let ends_in_letter = continues(word.chars().last());
    let starts_with_letter = continues(word.chars().next());
    line.match_indices(word).any(|(at, _)| {
        let before = starts_with_letter && continues(line[..at].chars().next_back());
        let after = ends_in_letter && continues(line[at + word.len()..].chars().next());
        !before && !after
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::tests::tree;

    fn one(path: &str, content: &str) -> Tree {
        tree(&[(path, content)])
    }

    #[test]
    fn module_doc_comes_first() {
        assert!(module_doc(&one("crates/base/src/lib.rs", "//! What std lacks.\n")).is_empty());
        assert!(module_doc(&one("crates/base/examples/one.rs", "fn main() {}\n")).is_empty());
        assert!(module_doc(&one("crates/base/tests/fixtures/one.rs", "fn main() {}\n")).is_empty());
        assert_eq!(module_doc(&one("crates/base/src/lib.rs", "use std::fs;\n//! Late.\n")).len(), 1);
        assert_eq!(module_doc(&one("crates/base/tests/one.rs", "")).len(), 1);
    }

    #[test]
    fn every_marker_is_found_on_its_line() {
        for (marker, _) in MARKERS {
            let violations = markers(&one("a.rs", &format!("//! A.\n    {marker} later\n")));
            assert_eq!(violations.len(), 1, "{marker}");
            assert_eq!(violations[0].line, Some(2), "{marker}");
        }
    }

    #[test]
    fn words_that_contain_a_marker_are_allowed() {
        let template = concat!("XX", "X", "XX", "X");
        let longer = concat!("my_db", "g!(");
        let method = concat!("TO", "DO", "S");
        assert!(markers(&one("a.rs", &format!("{template} {longer} {method}\n"))).is_empty());
        assert!(markers(&one("a.md", &format!("{}\n", MARKERS[4].0))).is_empty());
    }

    #[test]
    fn allow_is_rejected_and_expect_is_accepted() {
        for allow in ALLOWS {
            assert_eq!(allow_attributes(&one("a.rs", &format!("{allow}dead_code)]\n"))).len(), 1, "{allow}");
        }
        assert!(allow_attributes(&one("a.rs", "#[expect(dead_code, reason = \"x\")]\n")).is_empty());
    }

    #[test]
    fn length_is_limited() {
        assert!(length(&one("a.rs", &"\n".repeat(MAX_RUST_LINES))).is_empty());
        assert_eq!(length(&one("a.rs", &"\n".repeat(MAX_RUST_LINES + 1))).len(), 1);
        assert!(length(&one("a.md", &"\n".repeat(MAX_RUST_LINES + 1))).is_empty());
    }
}
