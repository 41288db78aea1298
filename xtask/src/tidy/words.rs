//! Rules for the words of comments and for the names of files, so that a Kubernetes developer finds things by their
//! usual terms. CONTRIBUTING.md has examples.

use super::Violation;
use super::tree::Tree;

/// Words that begin a sentence without naming its subject. A component is the subject: "The reflector relists after
/// 410 Gone", not "Whoever is told 410 begins again".
const SUBJECTS: &[&str] = &["What", "Whatever", "Whoever", "Nobody", "Somebody", "Everybody", "Those"];

/// Names of files that describe a state and not their content.
const FILE_NAMES: &[&str] = &["kept", "known", "shown", "told", "made", "existing", "prepared", "place"];

/// Every sentence of a comment has a component as its subject.
pub(super) fn subjects(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for file in tree.rust_files() {
        for (number, line) in file.lines() {
            let Some(word) = comment(line).and_then(vague_subject) else { continue };
            let message = format!("a sentence begins with `{word}`: name the component that does it");
            violations.push(Violation::on_line(&file.path, number, message));
        }
    }
    violations
}

/// Modules are named after what they hold.
pub(super) fn file_names(tree: &Tree) -> Vec<Violation> {
    tree.rust_files()
        .filter_map(|file| {
            let stem = file.path.rsplit('/').next()?.strip_suffix(".rs")?;
            let message = format!("`{stem}` is a state: name the module after what it holds");
            FILE_NAMES.contains(&stem).then(|| Violation::in_file(&file.path, message))
        })
        .collect()
}

/// The text of a line that is nothing but a comment.
fn comment(line: &str) -> Option<&str> {
    let text = line.trim_start().strip_prefix("//")?;
    Some(text.trim_start_matches(['/', '!']).trim_start())
}

/// The first of the words above that begins a sentence. A question has such a subject for good reason.
fn vague_subject(text: &str) -> Option<&'static str> {
    text.split(". ").filter(|sentence| !sentence.trim_end().ends_with('?')).find_map(|sentence| {
        let first = sentence.split(|c: char| !c.is_alphabetic()).next()?;
        SUBJECTS.iter().find(|word| **word == first).copied()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::tests::tree;

    fn lines_of(text: &str) -> Vec<usize> {
        subjects(&tree(&[("a.rs", text)])).into_iter().filter_map(|violation| violation.line).collect()
    }

    #[test]
    fn vague_subject_is_rejected_at_the_start_of_a_sentence() {
        assert_eq!(lines_of("//! What is kept.\n/// The cache. Whoever reads it waits.\n"), [1, 2]);
        assert_eq!(lines_of("    // Nobody waits.\n"), [1]);
    }

    #[test]
    fn vague_subject_is_allowed_elsewhere() {
        assert!(
            lines_of("/// Returns what is cached.\nlet text = \"What is kept\"; // What else\n").is_empty()
        );
        assert!(lines_of("//! ## What now?\n/// Whatsoever.\n").is_empty());
    }

    #[test]
    fn file_named_after_a_state_is_rejected() {
        let content = "//! A.\n";
        let names = [("crates/a/src/kept.rs", content), ("crates/a/src/cache.rs", content)];
        let found = file_names(&tree(&names));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].path, "crates/a/src/kept.rs");
    }
}
