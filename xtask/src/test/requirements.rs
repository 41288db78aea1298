//! System packages that suites need, one line each. `--without`, the check before a run, the installation and the
//! advice follow from this table.

use anyhow::{Result, anyhow, bail};

use super::apt;
use super::suites::Suite;
use crate::process::find_program;

/// A program from a Debian package that some suites start.
#[derive(Debug)]
pub(crate) struct Requirement {
    /// Name for `--without`.
    pub(crate) name: &'static str,
    /// Program that shows that the package is installed.
    program: &'static str,
    package: &'static str,
    /// Suites that cannot run without it.
    suites: &'static [&'static str],
}

const REQUIREMENTS: &[Requirement] =
    &[Requirement { name: "etcd", program: "etcd", package: "etcd-server", suites: &["etcd"] }];

/// Names that `--without` accepts.
pub(crate) fn names() -> Vec<&'static str> {
    REQUIREMENTS.iter().map(|requirement| requirement.name).collect()
}

/// Requirements of one suite.
pub(crate) fn of(suite: &str) -> impl Iterator<Item = &'static Requirement> {
    REQUIREMENTS.iter().filter(move |requirement| requirement.suites.contains(&suite))
}

/// Checks that everything the suites need is installed, and installs it where possible.
///
/// # Errors
///
/// If something is missing and cannot be installed. The message contains the commands to type.
pub(crate) fn ensure(suites: &[&Suite]) -> Result<()> {
    let missing = missing(suites, |program| find_program(program).is_some());
    install(&missing, &advice(&missing))
}

/// Checks one requirement, for a command that runs no suite.
///
/// # Errors
///
/// If it is missing and cannot be installed.
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
    fn every_requirement_names_existing_suites() {
        for requirement in REQUIREMENTS {
            assert!(!requirement.suites.is_empty(), "{} is needed by nothing", requirement.name);
            for suite in requirement.suites {
                assert!(SUITES.iter().any(|known| known.name == *suite), "no suite is called {suite}");
            }
        }
    }

    #[test]
    fn nothing_is_missing_if_all_is_installed() {
        assert!(missing(&every_suite(), |_| true).is_empty());
    }

    #[test]
    fn requirements_of_skipped_suites_are_not_missing() {
        assert_eq!(missing(&every_suite(), |_| false).len(), REQUIREMENTS.len());
        assert!(missing(&[], |_| false).is_empty());
    }

    #[test]
    fn advice_names_install_and_exclude_commands() {
        let text = advice(&of("etcd").collect::<Vec<_>>());
        assert!(text.contains("apt-get install -y --no-install-recommends etcd-server"), "{text}");
        assert!(text.contains("cargo xtask test --without etcd"), "{text}");
    }
}
