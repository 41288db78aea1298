//! `cargo xtask tidy`: the repository's rules that the compiler does not check.
//!
//! A rule is a pure function from the tree to its violations, and one line in [`RULES`].

mod edges;
mod files;
mod manifests;
mod markdown;
mod sources;
mod tree;
mod words;

use std::fmt;

use anyhow::{Result, bail};

use tree::Tree;

/// A violation of a rule.
#[derive(Debug, PartialEq, Eq)]
struct Violation {
    path: String,
    /// Counted from one; none if the violation concerns the whole file.
    line: Option<usize>,
    message: String,
}

struct Rule {
    name: &'static str,
    check: fn(&Tree) -> Vec<Violation>,
}

const RULES: &[Rule] = &[
    Rule { name: "edges", check: edges::between_crates },
    Rule { name: "lints", check: manifests::lints_are_inherited },
    Rule { name: "module-doc", check: sources::module_doc },
    Rule { name: "markers", check: sources::markers },
    Rule { name: "allow", check: sources::allow_attributes },
    Rule { name: "length", check: sources::length },
    Rule { name: "size", check: files::size },
    Rule { name: "binary", check: files::binary },
    Rule { name: "whitespace", check: files::whitespace },
    Rule { name: "names", check: files::names },
    Rule { name: "subjects", check: words::subjects },
    Rule { name: "file-names", check: words::file_names },
    Rule { name: "links", check: markdown::links },
    Rule { name: "adr", check: markdown::decision_numbers },
];

/// Checks every rule and prints every violation.
///
/// # Errors
///
/// If a rule is violated.
pub(crate) fn run() -> Result<()> {
    let tree = Tree::read()?;
    let mut broken = 0;
    for rule in RULES {
        for violation in (rule.check)(&tree) {
            println!("{violation} [{}]", rule.name);
            broken += 1;
        }
    }
    if broken > 0 {
        bail!("tidy found {broken} violation(s)");
    }
    println!("tidy: {} files follow {} rules", tree.files.len(), RULES.len());
    Ok(())
}

impl Violation {
    fn in_file(path: &str, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line: None, message: message.into() }
    }

    fn on_line(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line: Some(line), message: message.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(formatter, "{}:{line}: {}", self.path, self.message),
            None => write!(formatter, "{}: {}", self.path, self.message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn violations_print_like_compiler_messages() {
        assert_eq!(Violation::on_line("a.rs", 3, "wrong").to_string(), "a.rs:3: wrong");
        assert_eq!(Violation::in_file("a.rs", "wrong").to_string(), "a.rs: wrong");
    }
}
