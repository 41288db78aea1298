//! Rules for every file, whatever its language. Data recorded for tests is exempt.

use super::Violation;
use super::tree::{File, Tree};

/// Git keeps every version of a file forever, in every clone. No hand-written file comes near this size.
pub(super) const MAX_FILE_BYTES: u64 = 512 * 1024;

/// Names without meaning, which attract unrelated code.
const EMPTY_NAMES: &[&str] = &["utils", "helpers", "common", "misc"];

/// Suffixes of earlier attempts. Git keeps old versions; the tree has one.
const ATTEMPT_SUFFIXES: &[&str] = &["_old", "_new", "_final", "_fixed"];

pub(super) fn size(tree: &Tree) -> Vec<Violation> {
    written(tree)
        .filter(|file| file.bytes > MAX_FILE_BYTES)
        .map(|file| {
            let message = format!("has {} bytes, more than {MAX_FILE_BYTES}", file.bytes);
            Violation::in_file(&file.path, message)
        })
        .collect()
}

pub(super) fn binary(tree: &Tree) -> Vec<Violation> {
    written(tree)
        .filter(|file| file.text().is_none())
        .map(|file| Violation::in_file(&file.path, "is binary: only fixtures and the fuzz corpus may be"))
        .collect()
}

pub(super) fn whitespace(tree: &Tree) -> Vec<Violation> {
    written(tree).flat_map(whitespace_of).collect()
}

/// Directories count too: `x/utils/mod.rs` is the same module as `x/utils.rs`.
pub(super) fn names(tree: &Tree) -> Vec<Violation> {
    written(tree)
        .filter_map(|file| Some((file, file.path.split('/').find_map(refused_name)?)))
        .map(|(file, reason)| Violation::in_file(&file.path, reason))
        .collect()
}

fn written(tree: &Tree) -> impl Iterator<Item = &File> {
    tree.files.iter().filter(|file| !file.is_recorded())
}

fn whitespace_of(file: &File) -> Vec<Violation> {
    let text = file.text().unwrap_or_default();
    // Unlike `lines()`, `split` does not hide a carriage return.
    let mut violations: Vec<_> = text
        .split('\n')
        .enumerate()
        .filter(|(_, line)| line.ends_with(char::is_whitespace))
        .map(|(index, _)| Violation::on_line(&file.path, index + 1, "has trailing whitespace"))
        .collect();
    if !text.is_empty() && !text.ends_with('\n') {
        violations.push(Violation::in_file(&file.path, "lacks a newline at its end"));
    }
    violations
}

fn refused_name(part: &str) -> Option<String> {
    let stem = part.split('.').next().unwrap_or_default();
    if EMPTY_NAMES.contains(&stem) {
        return Some(format!("`{stem}` does not say what is inside: name it after its subject"));
    }
    let suffix = ATTEMPT_SUFFIXES.iter().find(|suffix| stem.ends_with(**suffix))?;
    Some(format!("`{suffix}` names an attempt: replace the file it was an attempt at"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::tests::tree;

    const FIXTURE: &str = "crates/store/tests/fixtures/log";

    fn sized(path: &str, bytes: u64) -> Tree {
        let file = File { path: path.to_owned(), bytes, content: Vec::new() };
        Tree { files: vec![file], packages: Vec::new() }
    }

    #[test]
    fn size_is_limited_outside_fixtures() {
        assert!(size(&sized("a.json", MAX_FILE_BYTES)).is_empty());
        assert!(size(&sized(FIXTURE, MAX_FILE_BYTES + 1)).is_empty());
        assert_eq!(size(&sized("a.json", MAX_FILE_BYTES + 1)).len(), 1);
    }

    #[test]
    fn binary_files_are_rejected_outside_fixtures() {
        assert!(
            binary(&tree(&[("a.txt", "text ä\n"), (FIXTURE, "a\0b"), ("fuzz/corpus/one/1", "\0")]))
                .is_empty()
        );
        assert_eq!(binary(&tree(&[("a.db", "a\0b")])).len(), 1);
    }

    #[test]
    fn trailing_whitespace_is_rejected() {
        assert!(
            whitespace(&tree(&[("a.md", "one\n\ntwo\n"), ("empty", ""), (FIXTURE, "one \n")])).is_empty()
        );
        let lines =
            |content| whitespace(&tree(&[("a.md", content)])).into_iter().map(|found| found.line).collect();
        let found: Vec<Option<usize>> = lines("one \ntwo\t\nthree");
        assert_eq!(found, [Some(1), Some(2), None]);
        let found: Vec<Option<usize>> = lines("one\r\n");
        assert_eq!(found, [Some(1)]);
    }

    #[test]
    fn meaningless_names_are_rejected() {
        assert!(
            names(&tree(&[("crates/base/src/clock.rs", ""), ("src/commons.rs", ""), ("src/renew.rs", "")]))
                .is_empty()
        );
        for path in [
            "src/utils.rs",
            "src/helpers/mod.rs",
            "tests/common/mod.rs",
            "docs/plan_final.md",
            "a_old.tar.gz",
        ] {
            assert_eq!(names(&tree(&[(path, "")])).len(), 1, "{path}");
        }
    }
}
