//! What the suites need from the system: one line each, from which follow `--without`, the check before a
//! run, the installation where it is ours to do, and the advice where it is not.

use anyhow::{Result, anyhow, bail};

use super::apt;
use super::suites::Suite;
use crate::process::find_program;

/// A program that a Debian package brings and some suites start.
#[derive(Debug)]
pub(crate) struct Requirement {
    /// What `--without` calls it.
    pub(crate) name: &'static str,
    /// The program whose presence shows that the package is installed.
    program: &'static str,
    package: &'static str,
    /// The suites that cannot run without it.
    suites: &'static [&'static str],
}

const REQUIREMENTS: &[Requirement] =
    &[Requirement { name: "etcd", program: "etcd", package: "etcd-server", suites: &["etcd"] }];

/// The names `--without` accepts.
pub(crate) fn names() -> Vec<&'static str> {
    REQUIREMENTS.iter().map(|requirement| requirement.name).collect()
}

/// What one suite needs.
pub(crate) fn of(suite: &str) -> impl Iterator<Item = &'static Requirement> {
    REQUIREMENTS.iter().filter(move |requirement| requirement.suites.contains(&suite))
}

/// Makes sure that everything these suites need is there.
///
/// # Errors
///
/// When something is missing and we may not, or could not, install it. The message says what to type.
pub(crate) fn ensure(suites: &[&Suite]) -> Result<()> {
    let missing = missing(suites, |program| find_program(program).is_some());
    install(&missing, &advice(&missing))
}

/// Makes sure that one requirement is there, for a command that runs no suite.
///
/// # Errors
///
/// When it is missing and we may not, or could not, install it.
pub(crate) fn ensure_installed(name: &str) -> Result<()> {
    let is_missing =
        |requirement: &&Requirement| requirement.name == name && find_program(requirement.program).is_none();
    let missing: Vec<_> = REQUIREMENTS.iter().filter(is_missing).collect();
    let packages = packages(&missing).join(" ");
    install(
        &missing,
        &format!("{name} is not installed: sudo apt-get install -y --no-install-recommends {packages}"),
    )
}

fn install(missing: &[&Requirement], advice: &str) -> Result<()> {
    if missing.is_empty() {
        return Ok(());
    }
    if !apt::can_install() {
        bail!("{advice}");
    }
    apt::install(&packages(missing)).map_err(|error| anyhow!("{error:#}\n{advice}"))
}

fn missing(suites: &[&Suite], is_installed: impl Fn(&str) -> bool) -> Vec<&'static Requirement> {
    let needed =
        |requirement: &&Requirement| suites.iter().any(|suite| requirement.suites.contains(&suite.name));
    REQUIREMENTS.iter().filter(needed).filter(|requirement| !is_installed(requirement.program)).collect()
}

fn packages(missing: &[&Requirement]) -> Vec<&'static str> {
    missing.iter().map(|requirement| requirement.package).collect()
}

fn advice(missing: &[&Requirement]) -> String {
    let names: Vec<_> = missing.iter().map(|requirement| requirement.name).collect();
    let without: Vec<_> = names.iter().map(|name| format!("--without {name}")).collect();
    format!(
        "tests need what is not installed: {}\n  install it: sudo apt-get install -y --no-install-recommends {}\n  \
         or without: cargo xtask test {}",
        names.join(", "),
        packages(missing).join(" "),
        without.join(" "),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test::suites::SUITES;

    fn every_suite() -> Vec<&'static Suite> {
        SUITES.iter().collect()
    }

    #[test]
    fn every_requirement_is_needed_by_a_suite_that_exists() {
        for requirement in REQUIREMENTS {
            assert!(!requirement.suites.is_empty(), "{} is needed by nothing", requirement.name);
            for suite in requirement.suites {
                assert!(SUITES.iter().any(|known| known.name == *suite), "no suite is called {suite}");
            }
        }
    }

    #[test]
    fn nothing_is_missing_where_everything_is_installed() {
        assert!(missing(&every_suite(), |_| true).is_empty());
    }

    #[test]
    fn what_no_wanted_suite_needs_is_not_missing() {
        assert_eq!(missing(&every_suite(), |_| false).len(), REQUIREMENTS.len());
        assert!(missing(&[], |_| false).is_empty());
    }

    #[test]
    fn advice_gives_both_ways_out() {
        let text = advice(&of("etcd").collect::<Vec<_>>());
        assert!(text.contains("apt-get install -y --no-install-recommends etcd-server"), "{text}");
        assert!(text.contains("cargo xtask test --without etcd"), "{text}");
    }
}
