//! Finds the kubectl for the suite: the given one, or the one in PATH if it is new enough.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::Options;
use super::suites::Prepared;
use crate::process::{capture, command, find_program};

/// Variable with the kubectl program for the suite.
const VARIABLE: &str = "CORACLE_TEST_KUBECTL";

/// The oldest kubectl whose output and behaviour the suite expects.
const OLDEST: Version = Version { major: 1, minor: 32 };

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Version {
    major: u32,
    minor: u32,
}

/// A kubectl named by the user must work; one that is merely in PATH may be skipped.
pub(crate) fn prepare(options: &Options) -> Result<Prepared> {
    match &options.kubectl {
        Some(path) => checked(path).map(ready),
        None => Ok(ready_or_skipped(find_program("kubectl").map(|path| checked(&path)))),
    }
}

fn ready_or_skipped(found: Option<Result<PathBuf>>) -> Prepared {
    match found {
        Some(Ok(path)) => ready(path),
        Some(Err(error)) => Prepared::Skipped(format!("{error:#}; {}", advice())),
        None => Prepared::Skipped(format!("no kubectl in PATH; {}", advice())),
    }
}

fn ready(path: PathBuf) -> Prepared {
    Prepared::Ready(vec![(VARIABLE, path.into())])
}

fn advice() -> String {
    format!("give a v{}.{} or newer by --kubectl PATH", OLDEST.major, OLDEST.minor)
}

/// The absolute path of a kubectl that runs and is new enough.
fn checked(path: &Path) -> Result<PathBuf> {
    // The suite starts it in another directory.
    let path = std::path::absolute(path).with_context(|| format!("resolving {}", path.display()))?;
    let answer = capture(command(&path).args(["version", "--client", "-o", "json"]))?;
    new_enough(&answer).with_context(|| format!("{} cannot be used", path.display()))?;
    Ok(path)
}

fn new_enough(answer: &str) -> Result<()> {
    let git_version = client_version(answer)?;
    let version = parse(&git_version).with_context(|| format!("unknown version `{git_version}`"))?;
    if version < OLDEST {
        bail!("{git_version} is older than v{}.{}", OLDEST.major, OLDEST.minor);
    }
    Ok(())
}

fn client_version(answer: &str) -> Result<String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Answer {
        client_version: Client,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Client {
        git_version: String,
    }
    let answer: Answer = serde_json::from_str(answer).context("reading its version")?;
    Ok(answer.client_version.git_version)
}

/// Parses `v1.32.4-dispatcher`: vendors append arbitrary suffixes after the patch number.
fn parse(git_version: &str) -> Option<Version> {
    let mut numbers = git_version.strip_prefix('v')?.split('.');
    let major = numbers.next()?.parse().ok()?;
    let minor = numbers.next()?.parse().ok()?;
    Some(Version { major, minor })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(git_version: &str) -> String {
        format!(
            r#"{{"clientVersion":{{"minor":"32+","gitVersion":"{git_version}"}},"kustomizeVersion":"v5"}}"#
        )
    }

    #[test]
    fn vendor_versions_are_parsed() {
        assert_eq!(parse("v1.32.4-dispatcher"), Some(Version { major: 1, minor: 32 }));
        assert_eq!(parse("v1.9.0"), Some(Version { major: 1, minor: 9 }));
        assert_eq!(parse("1.32.4"), None);
        assert_eq!(parse("v1"), None);
    }

    #[test]
    fn minor_versions_compare_as_numbers() {
        assert!(parse("v1.9.0").unwrap() < OLDEST);
        assert!(parse("v1.100.0").unwrap() > OLDEST);
    }

    #[test]
    fn old_or_missing_versions_are_rejected() {
        assert!(new_enough(&answer("v1.32.4-dispatcher")).is_ok());
        let error = new_enough(&answer("v1.31.9")).unwrap_err();
        assert_eq!(error.to_string(), "v1.31.9 is older than v1.32");
        assert!(new_enough("{}").is_err());
        assert!(new_enough("").is_err());
    }

    #[test]
    fn kubectl_from_path_is_used_or_skipped() {
        let path = PathBuf::from("/opt/kubectl");
        let Prepared::Ready(environment) = ready_or_skipped(Some(Ok(path.clone()))) else {
            panic!("skipped")
        };
        assert_eq!(environment, [(VARIABLE, path.into_os_string())]);
        let old = new_enough(&answer("v1.31.9")).map(|()| PathBuf::new());
        assert!(matches!(ready_or_skipped(Some(old)), Prepared::Skipped(_)));
        assert!(matches!(ready_or_skipped(None), Prepared::Skipped(_)));
    }

    #[test]
    fn given_kubectl_that_does_not_work_is_an_error() {
        for path in ["/coracle-no-such-kubectl", "/bin/true"] {
            let options = Options { kubectl: Some(path.into()), ..Options::default() };
            assert!(prepare(&options).is_err(), "{path} was accepted");
        }
    }
}
