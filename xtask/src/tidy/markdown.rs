//! Rules for Markdown pages: links resolve, and ADR numbers have no gaps.
//!
//! Links are found by their punctuation, line by line, outside of code, which suffices for our pages.

use super::Violation;
use super::tree::{File, Tree};

const DECISIONS: &str = "docs/adr/";

/// Every relative link resolves to a file or directory of the tree. Files that git ignores do not count, because a
/// clone lacks them.
pub(super) fn links(tree: &Tree) -> Vec<Violation> {
    let pages = tree.files.iter().filter(|file| file.path.ends_with(".md") && !file.is_recorded());
    pages.flat_map(|page| broken_links(page, tree)).collect()
}

/// ADRs are named `0001-….md`, `0002-….md` and so on; the only other file allowed is a README.
pub(super) fn decision_numbers(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut last = 0;
    for file in &tree.files {
        let Some(name) = file.path.strip_prefix(DECISIONS).filter(|name| *name != "README.md") else {
            continue;
        };
        let Some(number) = decision_number(name) else {
            violations.push(Violation::in_file(&file.path, "is not named NNNN-*.md"));
            continue;
        };
        if number != last + 1 {
            let message = format!("is number {number:04} after {last:04}: no gaps, no duplicates");
            violations.push(Violation::in_file(&file.path, message));
        }
        last = number;
    }
    violations
}

fn decision_number(name: &str) -> Option<u32> {
    let (number, rest) = name.split_once('-')?;
    let title = rest.strip_suffix(".md")?;
    let well_formed =
        number.len() == 4 && number.bytes().all(|byte| byte.is_ascii_digit()) && !title.is_empty();
    well_formed.then(|| number.parse().ok())?
}

fn broken_links(page: &File, tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut in_fence = false;
    for (number, line) in page.lines() {
        let is_fence = line.trim_start().starts_with("```") || line.trim_start().starts_with("~~~");
        in_fence ^= is_fence;
        if is_fence || in_fence {
            continue;
        }
        let broken = targets(line).into_iter().filter(|target| !resolves(target, &page.path, tree));
        violations.extend(broken.map(|target| {
            Violation::on_line(&page.path, number, format!("links to `{target}`, which is not there"))
        }));
    }
    violations
}

/// The targets of the inline links, images and link definitions of a line.
fn targets(line: &str) -> Vec<String> {
    // Every second part between backticks is code.
    let prose: String = line.split('`').step_by(2).collect();
    let inline = prose.match_indices("](").map(|(at, opening)| until_closed(&prose[at + opening.len()..]));
    inline.chain(definition(&prose)).filter_map(first_word).collect()
}

/// The text up to the parenthesis that closes the link; parentheses within the target are balanced.
fn until_closed(text: &str) -> &str {
    let mut depth = 0;
    let closing = text.find(|character| {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        depth < 0
    });
    &text[..closing.unwrap_or(text.len())]
}

/// The text after `[name]:`, unless that is a footnote.
fn definition(line: &str) -> Option<&str> {
    let (label, target) = line.trim_start().strip_prefix('[')?.split_once("]:")?;
    (!label.starts_with('^') && !label.contains(']')).then_some(target)
}

/// A target without the optional title after it.
fn first_word(text: &str) -> Option<String> {
    let word = text.split_whitespace().next()?;
    Some(word.trim_start_matches('<').trim_end_matches('>').to_owned())
}

fn resolves(target: &str, page: &str, tree: &Tree) -> bool {
    let path = target.split('#').next().unwrap_or_default();
    let is_elsewhere = target.contains("://") || target.starts_with("mailto:");
    is_elsewhere || path.is_empty() || resolve(page, path).is_some_and(|path| exists(&path, tree))
}

/// Resolves a target to a path from the root; none if it is above the root.
fn resolve(page: &str, target: &str) -> Option<String> {
    let from_root = target.starts_with('/');
    let directory = page.rsplit_once('/').map_or("", |(directory, _)| directory);
    let mut parts: Vec<&str> = if from_root { Vec::new() } else { directory.split('/').collect() };
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop().filter(|part| !part.is_empty())?),
            part => parts.push(part),
        }
    }
    parts.retain(|part| !part.is_empty());
    Some(parts.join("/").replace("%20", " "))
}

fn exists(path: &str, tree: &Tree) -> bool {
    let is_inside = |file: &File| file.path.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'));
    path.is_empty() || tree.files.iter().any(|file| file.path == path || is_inside(file))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::tests::tree;

    /// The broken targets of `docs/page.md` with this content.
    fn broken(content: &str) -> Vec<String> {
        let files =
            [("README.md", ""), ("docs/adr/0001-one.md", ""), ("docs/page.md", content), ("docs/a b.md", "")];
        links(&tree(&files)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn links_that_resolve_pass() {
        for content in [
            "[up](../README.md) and [down](adr/0001-one.md#why \"title\")",
            "[directory](adr/) [root](/README.md) [`code`](../README.md) ![image](<../README.md>)",
            "[there](https://example.org/x) <https://example.org> [mail](mailto:a@example.org) [here](#anchor)",
            "[space](a%20b.md) [name]\n\n[name]: ../README.md\n[^1]: a footnote",
            "`[code](nowhere.md)`\n```\n[code](nowhere.md)\n```\n",
        ] {
            assert_eq!(broken(content), [""; 0]);
        }
    }

    #[test]
    fn broken_links_are_reported_with_their_line() {
        for (content, line) in [
            ("[x](nowhere.md)", 1),
            ("\n[x](../nowhere.md#anchor)", 2),
            ("```\n```\n[x](../../README.md)", 3),
            ("[x]: nowhere.md", 1),
            ("[x](README.md)", 1),
            ("[x](adr/0001)", 1),
        ] {
            let found = broken(content);
            assert_eq!(found.len(), 1, "{content}: {found:?}");
            assert!(found[0].starts_with(&format!("docs/page.md:{line}: ")), "{found:?}");
        }
    }

    #[test]
    fn parentheses_within_a_target_belong_to_it() {
        assert_eq!(targets("([x](a(b).md))"), ["a(b).md"]);
    }

    fn decisions(names: &[&str]) -> usize {
        let paths: Vec<String> = names.iter().map(|name| format!("{DECISIONS}{name}")).collect();
        let files: Vec<(&str, &str)> = paths.iter().map(|path| (path.as_str(), "")).collect();
        decision_numbers(&tree(&files)).len()
    }

    #[test]
    fn consecutive_decisions_pass() {
        assert_eq!(decisions(&["0001-one.md", "0002-two.md", "README.md"]), 0);
        assert_eq!(decisions(&[]), 0);
    }

    #[test]
    fn decisions_with_gaps_duplicates_or_other_names_are_rejected() {
        assert_eq!(decisions(&["0001-one.md", "0003-three.md"]), 1);
        assert_eq!(decisions(&["0001-one.md", "0001-two.md"]), 1);
        assert_eq!(decisions(&["0002-two.md"]), 1);
        assert_eq!(decisions(&["0001-one.md", "2-two.md", "notes.txt"]), 2);
    }
}
