//! Unified diff of two texts, as in messages about immutable fields.
//!
//! Clients compare it, so it matches lines like the library that kube-apiserver uses: first the
//! longest run that both texts share, then the same recursively before and after it.

use std::ops::Range;

/// Number of equal lines shown around a change.
const CONTEXT: usize = 3;

/// A run of lines that is equal in both texts, or that was replaced.
#[derive(Clone, Debug)]
struct Run {
    equal: bool,
    old: Range<usize>,
    new: Range<usize>,
}

/// Returns the difference in the unified format, without file names.
pub(crate) fn unified_diff(old: &str, new: &str) -> String {
    let old: Vec<&str> = old.split('\n').collect();
    let new: Vec<&str> = new.split('\n').collect();
    let mut text = String::new();
    for hunk in hunks(runs(&old, &new)) {
        let (Some(first), Some(last)) = (hunk.first(), hunk.last()) else { continue };
        let old_lines = lines_range(first.old.start, last.old.end);
        let new_lines = lines_range(first.new.start, last.new.end);
        text.push_str(&format!("@@ -{old_lines} +{new_lines} @@\n"));
        for run in &hunk {
            if run.equal {
                push_lines(&mut text, ' ', &old[run.old.clone()]);
            } else {
                push_lines(&mut text, '-', &old[run.old.clone()]);
                push_lines(&mut text, '+', &new[run.new.clone()]);
            }
        }
    }
    text
}

fn push_lines(text: &mut String, mark: char, lines: &[&str]) {
    for line in lines {
        text.push(mark);
        text.push_str(line);
        text.push('\n');
    }
}

fn lines_range(start: usize, end: usize) -> String {
    match end - start {
        0 => format!("{start},0"),
        1 => (start + 1).to_string(),
        length => format!("{},{length}", start + 1),
    }
}

/// Returns runs that alternate between equal and changed.
fn runs(old: &[&str], new: &[&str]) -> Vec<Run> {
    let mut matches = Vec::new();
    find_matches(old, new, 0..old.len(), 0..new.len(), &mut matches);
    matches.push((old.len(), new.len(), 0));
    let mut runs: Vec<Run> = Vec::new();
    let (mut old_at, mut new_at) = (0, 0);
    for (old_start, new_start, length) in matches {
        if old_at < old_start || new_at < new_start {
            runs.push(Run { equal: false, old: old_at..old_start, new: new_at..new_start });
        }
        (old_at, new_at) = (old_start + length, new_start + length);
        match runs.last_mut() {
            Some(run) if run.equal => (run.old.end, run.new.end) = (old_at, new_at),
            _ if length > 0 => {
                runs.push(Run { equal: true, old: old_start..old_at, new: new_start..new_at });
            }
            _ => {}
        }
    }
    runs
}

fn find_matches(
    old: &[&str],
    new: &[&str],
    in_old: Range<usize>,
    in_new: Range<usize>,
    matches: &mut Vec<(usize, usize, usize)>,
) {
    let (old_start, new_start, length) = longest_match(old, new, in_old.clone(), in_new.clone());
    if length == 0 {
        return;
    }
    find_matches(old, new, in_old.start..old_start, in_new.start..new_start, matches);
    matches.push((old_start, new_start, length));
    find_matches(old, new, old_start + length..in_old.end, new_start + length..in_new.end, matches);
}

/// Finds the longest run of equal lines; of several the first in the old text, then in the new one.
fn longest_match(
    old: &[&str],
    new: &[&str],
    in_old: Range<usize>,
    in_new: Range<usize>,
) -> (usize, usize, usize) {
    let mut best = (in_old.start, in_new.start, 0);
    // Length of the run that ends before each line of the new text.
    let mut lengths = vec![0; new.len() + 1];
    for old_at in in_old {
        let mut next = vec![0; new.len() + 1];
        for new_at in in_new.clone().filter(|new_at| old[old_at] == new[*new_at]) {
            let length = lengths[new_at] + 1;
            next[new_at + 1] = length;
            if length > best.2 {
                best = (old_at + 1 - length, new_at + 1 - length, length);
            }
        }
        lengths = next;
    }
    best
}

/// Groups changes that are close to each other, with the equal lines around them.
fn hunks(mut runs: Vec<Run>) -> Vec<Vec<Run>> {
    if let Some(run) = runs.first_mut().filter(|run| run.equal) {
        let skipped = run.old.len().saturating_sub(CONTEXT);
        run.old.start += skipped;
        run.new.start += skipped;
    }
    if let Some(run) = runs.last_mut().filter(|run| run.equal) {
        let skipped = run.old.len().saturating_sub(CONTEXT);
        run.old.end -= skipped;
        run.new.end -= skipped;
    }
    let mut hunks = Vec::new();
    let mut hunk = Vec::new();
    for mut run in runs {
        if run.equal && run.old.len() > 2 * CONTEXT {
            let skipped = run.old.len() - CONTEXT;
            let mut end = run.clone();
            end.old.end -= skipped;
            end.new.end -= skipped;
            hunk.push(end);
            hunks.push(std::mem::take(&mut hunk));
            run.old.start += skipped;
            run.new.start += skipped;
        }
        hunk.push(run);
    }
    hunks.push(hunk);
    hunks.retain(|hunk| hunk.iter().any(|run| !run.equal));
    hunks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_shown_with_context() {
        let old = "a\nb\nc\nd\ne\nf\ng";
        assert_eq!(unified_diff(old, "a\nb\nc\nd\nE\nf\ng"), "@@ -2,6 +2,6 @@\n b\n c\n d\n-e\n+E\n f\n g\n");
        assert_eq!(unified_diff(old, old), "");
        assert_eq!(unified_diff("a", "a\nb"), "@@ -1 +1,2 @@\n a\n+b\n");
    }

    #[test]
    fn distant_changes_form_separate_hunks() {
        let old: Vec<String> = (0..20).map(|line| line.to_string()).collect();
        let mut new = old.clone();
        new[1] = "x".to_owned();
        new.remove(18);
        assert_eq!(
            unified_diff(&old.join("\n"), &new.join("\n")),
            "@@ -1,5 +1,5 @@\n 0\n-1\n+x\n 2\n 3\n 4\n@@ -16,5 +16,4 @@\n 15\n 16\n 17\n-18\n 19\n"
        );
    }
}
