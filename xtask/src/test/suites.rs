//! The suites, as data. Suites with requirements beyond cargo have `test = false` in their manifest, so that a plain
//! `cargo test` works everywhere and only this table runs them.

use std::ffi::OsString;

use anyhow::Result;

use super::{Options, java_clients, kubectl, real_clients};

/// Environment variables of a suite.
pub(crate) type Environment = Vec<(&'static str, OsString)>;

/// One run of `cargo test`. Its requirements are in the table of requirements.
pub(crate) struct Suite {
    pub(crate) name: &'static str,
    /// Arguments of `cargo test`.
    pub(crate) cargo_args: &'static [&'static str],
    /// Finds or downloads the programs that the suite uses. An error means that an explicit request cannot be met.
    pub(crate) prepare: fn(&Options) -> Result<Prepared>,
}

/// Result of preparing a suite.
#[derive(Debug)]
pub(crate) enum Prepared {
    Ready(Environment),
    /// The suite cannot run, and was not explicitly requested.
    Skipped(String),
}

/// All suites, each over the whole workspace with all features, whichever package a target is in: otherwise the same
/// crates would be built again with fewer features.
pub(crate) const SUITES: &[Suite] = &[
    Suite { name: "workspace", cargo_args: &["--workspace", "--all-features"], prepare: nothing },
    Suite {
        name: "etcd",
        cargo_args: &["--workspace", "--all-features", "--test", "etcd"],
        prepare: nothing,
    },
    Suite {
        name: "kubectl",
        cargo_args: &["--workspace", "--all-features", "--test", "kubectl"],
        prepare: kubectl::prepare,
    },
    Suite {
        name: "real-clients",
        cargo_args: &["--workspace", "--all-features", "--test", "real_clients", "python::"],
        prepare: real_clients::prepare,
    },
    Suite {
        name: "real-clients-java",
        cargo_args: &["--workspace", "--all-features", "--test", "real_clients", "java::"],
        prepare: java_clients::prepare,
    },
];

fn nothing(_options: &Options) -> Result<Prepared> {
    Ok(Prepared::Ready(Environment::new()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique() {
        let names: BTreeSet<_> = SUITES.iter().map(|suite| suite.name).collect();
        assert_eq!(names.len(), SUITES.len());
    }
}
