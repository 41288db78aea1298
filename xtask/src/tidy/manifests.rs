//! Rules for the manifests of the members.

use super::Violation;
use super::tree::Tree;

/// Every member inherits its lints from the workspace, so that there is one list.
pub(super) fn lints_are_inherited(tree: &Tree) -> Vec<Violation> {
    let manifests = tree.packages.iter().filter_map(|package| tree.file(&package.manifest));
    manifests
        .filter(|manifest| !inherits_lints(manifest.text().unwrap_or_default()))
        .map(|manifest| {
            Violation::in_file(&manifest.path, "lacks `[lints]` with `workspace = true` and no more")
        })
        .collect()
}

fn inherits_lints(manifest: &str) -> bool {
    let mut section = String::new();
    let mut entries = Vec::new();
    for line in manifest.lines() {
        let line: String = line.split('#').next().unwrap_or_default().split_whitespace().collect();
        if line.starts_with('[') {
            section = line;
        } else if !line.is_empty() && section.starts_with("[lints") {
            entries.push(format!("{section}{line}"));
        } else if section.is_empty() && line.starts_with("lints.") {
            entries.push(line.replacen("lints.", "[lints]", 1));
        }
    }
    entries == ["[lints]workspace=true"]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::tests::{package, tree};

    #[test]
    fn inherited_lints_pass() {
        assert!(inherits_lints(
            "[package]\nname = \"x\"\n\n[lints]\nworkspace = true # all\n\n[dependencies]\n"
        ));
        assert!(inherits_lints("lints.workspace = true\n"));
    }

    #[test]
    fn own_lints_are_rejected() {
        assert!(!inherits_lints("[package]\nname = \"x\"\n"));
        assert!(!inherits_lints("[lints.rust]\nunsafe_code = \"allow\"\n"));
        assert!(!inherits_lints("[lints]\nworkspace = false\n"));
        assert!(!inherits_lints("[dependencies]\nworkspace = true\n"));
    }

    #[test]
    fn only_members_are_checked() {
        let mut tree =
            tree(&[("coracle-base/Cargo.toml", "[package]\n"), ("fuzz/Cargo.toml", "[package]\n")]);
        tree.packages = vec![package("coracle-base", &[])];
        let violations = lints_are_inherited(&tree);
        assert_eq!(violations.len(), 1);
        assert_eq!(violations[0].path, "coracle-base/Cargo.toml");
    }
}
