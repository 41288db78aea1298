//! The suites, as data. Suites that need more than cargo have `test = false` in their manifest, so that a
//! plain `cargo test` runs everywhere and only this table runs them.

use std::ffi::OsString;

use anyhow::Result;

use super::{Options, java_clients, kubectl, real_clients};

/// Variables a suite is run with.
pub(crate) type Environment = Vec<(&'static str, OsString)>;

/// One run of `cargo test`. What it needs from the system stands in the table of requirements.
pub(crate) struct Suite {
    pub(crate) name: &'static str,
    /// What follows `cargo test`.
    pub(crate) cargo_args: &'static [&'static str],
    /// Finds or fetches what the suite talks to. An error means that what the user asked for is impossible.
    pub(crate) prepare: fn(&Options) -> Result<Prepared>,
}

/// Whether a suite can run.
#[derive(Debug)]
pub(crate) enum Prepared {
    Ready(Environment),
    /// It cannot, for this reason, and the user did not insist.
    LeftOut(String),
}

/// All of them over the whole workspace with all features, whichever package a target is in: anything less
/// would build the same crates again with fewer features.
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
