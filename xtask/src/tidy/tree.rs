//! The input of the rules: the files that git tracks or would add, and the packages of the workspace.
//!
//! It is read once, so that rules do no I/O and tests pass trees written in the test.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::files::MAX_FILE_BYTES;
use crate::process::{capture, cargo, command, root};

pub(super) struct Tree {
    /// Sorted by path.
    pub(super) files: Vec<File>,
    pub(super) packages: Vec<Package>,
}

pub(super) struct File {
    /// Relative to the root, with `/`.
    pub(super) path: String,
    pub(super) bytes: u64,
    /// Empty for files over the size limit, which are rejected unread.
    pub(super) content: Vec<u8>,
}

/// A member of the workspace.
#[derive(Debug, Deserialize)]
pub(super) struct Package {
    pub(super) name: String,
    /// Absolute in cargo's output; relative to the root in a [`Tree`].
    #[serde(rename = "manifest_path")]
    pub(super) manifest: String,
    pub(super) dependencies: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Dependency {
    pub(super) name: String,
    /// `dev` or `build`; none for a normal dependency.
    pub(super) kind: Option<String>,
    /// Directory of a path dependency.
    pub(super) path: Option<String>,
}

impl Tree {
    pub(super) fn read() -> Result<Self> {
        let listing =
            capture(command("git").args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]))?;
        // A set, because git lists a file in conflict once per side.
        let paths: BTreeSet<&str> = listing.split('\0').filter(|path| !path.is_empty()).collect();
        let mut files = Vec::new();
        for path in paths {
            files.extend(File::read(path)?);
        }
        let metadata = capture(&mut cargo(["metadata", "--format-version", "1", "--no-deps"]))?;
        Ok(Self { files, packages: packages(&metadata)? })
    }

    pub(super) fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    pub(super) fn rust_files(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.path.ends_with(".rs"))
    }
}

impl File {
    /// Returns None for a path that is no regular file: deleted but not committed, a symbolic link, a nested
    /// repository.
    fn read(path: &str) -> Result<Option<Self>> {
        let full = root().join(path);
        let Some(found) = fs::symlink_metadata(&full).ok().filter(|found| found.is_file()) else {
            return Ok(None);
        };
        let content = if found.len() > MAX_FILE_BYTES {
            Vec::new()
        } else {
            fs::read(&full).with_context(|| format!("reading {path}"))?
        };
        Ok(Some(Self { path: path.to_owned(), bytes: found.len(), content }))
    }

    /// The content, unless it is binary.
    pub(super) fn text(&self) -> Option<&str> {
        if self.content.contains(&0) { None } else { std::str::from_utf8(&self.content).ok() }
    }

    /// Lines with their numbers; empty for a binary file.
    pub(super) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text().unwrap_or_default().lines().enumerate().map(|(index, line)| (index + 1, line))
    }

    /// Returns true for data recorded for tests, which must not be reformatted: `crates/*/tests/fixtures/` and
    /// `fuzz/corpus/`.
    pub(super) fn is_recorded(&self) -> bool {
        let parts: Vec<&str> = self.path.split('/').collect();
        matches!(parts[..], ["crates", _, "tests", "fixtures", _, ..] | ["fuzz", "corpus", _, ..])
    }
}

fn packages(metadata: &str) -> Result<Vec<Package>> {
    #[derive(Deserialize)]
    struct Metadata {
        packages: Vec<Package>,
        workspace_root: String,
    }
    let metadata: Metadata = serde_json::from_str(metadata).context("reading `cargo metadata`")?;
    let mut packages = metadata.packages;
    for package in &mut packages {
        if let Ok(relative) = Path::new(&package.manifest).strip_prefix(&metadata.workspace_root) {
            package.manifest = relative.to_string_lossy().into_owned();
        }
    }
    Ok(packages)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A tree of these paths and contents, without packages.
    pub(crate) fn tree(files: &[(&str, &str)]) -> Tree {
        let file = |(path, content): &(&str, &str)| File {
            path: (*path).to_owned(),
            bytes: content.len() as u64,
            content: content.as_bytes().to_vec(),
        };
        Tree { files: files.iter().map(file).collect(), packages: Vec::new() }
    }

    /// A package with these dependencies in the workspace, each with its kind.
    pub(crate) fn package(name: &str, dependencies: &[(&str, Option<&str>)]) -> Package {
        let dependency = |(name, kind): &(&str, Option<&str>)| Dependency {
            name: (*name).to_owned(),
            kind: kind.map(str::to_owned),
            path: Some(format!("/workspace/{name}")),
        };
        Package {
            name: name.to_owned(),
            manifest: format!("{name}/Cargo.toml"),
            dependencies: dependencies.iter().map(dependency).collect(),
        }
    }

    #[test]
    fn metadata_is_read_relative_to_the_root() {
        let metadata = r#"{"workspace_root": "/w", "packages": [{"name": "coracle-base",
            "manifest_path": "/w/crates/base/Cargo.toml",
            "dependencies": [{"name": "tokio", "kind": null}, {"name": "x", "kind": "dev", "path": "/w/x"}]}]}"#;
        let packages = packages(metadata).unwrap();
        assert_eq!(packages[0].manifest, "crates/base/Cargo.toml");
        assert_eq!(packages[0].dependencies[0].path, None);
        assert_eq!(packages[0].dependencies[1].kind.as_deref(), Some("dev"));
    }

    #[test]
    fn only_fixtures_of_crates_and_the_corpus_are_recorded() {
        let recorded = |path: &str| tree(&[(path, "")]).files[0].is_recorded();
        assert!(recorded("crates/store/tests/fixtures/v1/log"));
        assert!(recorded("fuzz/corpus/decode/1"));
        assert!(!recorded("crates/store/src/fixtures/log"));
        assert!(!recorded("docs/corpus"));
    }
}
