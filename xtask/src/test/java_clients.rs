//! fabric8, the Java client of Kubernetes, downloaded and compiled by Maven below `target/`.
//!
//! Maven's repository in the user's home is not used: dependencies are cached beside the build.

use std::ffi::OsString;
use std::path::Path;

use anyhow::{Context, Result};

use super::Options;
use super::suites::Prepared;
use crate::process::{command, find_program, root, run};

/// Variable with the Java program for the suite.
const JAVA_VARIABLE: &str = "CORACLE_TEST_JAVA";

/// Variable with the class path of the suite and of the client.
const CLASSPATH_VARIABLE: &str = "CORACLE_TEST_JAVA_CLASSPATH";

/// The project, below the root of the workspace.
const PROJECT: &str = "crates/cli/tests/real_clients/fabric8/pom.xml";

/// Build directory of the project.
const BUILD: &str = "target/real-clients-java";

/// Plugin goals instead of a phase, which would download other plugins as well.
const GOALS: &[&str] = &["compiler:compile", "dependency:copy-dependencies"];

pub(crate) fn prepare(options: &Options) -> Result<Prepared> {
    if !options.real_clients {
        return Ok(Prepared::Skipped("downloads a client library; pass --real-clients to run it".to_owned()));
    }
    match (find_program("java"), find_program("mvn")) {
        (Some(java), Some(maven)) => build(&maven).map(|()| ready(java.into())),
        (java, _) => Ok(Prepared::Skipped(missing(if java.is_none() { "java" } else { "mvn" }))),
    }
}

fn build(maven: &Path) -> Result<()> {
    let cache = root().join(BUILD).join("repository");
    run(command(maven)
        .args(["--quiet", "--batch-mode", "--no-transfer-progress", "--file", PROJECT])
        .arg(option("maven.repo.local", &cache))
        .args(GOALS))
    .context("building the test of fabric8 (it needs Java 17 or newer)")
}

fn option(name: &str, value: &Path) -> OsString {
    let mut option = OsString::from(format!("-D{name}="));
    option.push(value);
    option
}

fn ready(java: OsString) -> Prepared {
    let build = root().join(BUILD);
    let mut classpath = build.join("classes").into_os_string();
    classpath.push(":");
    classpath.push(build.join("lib").join("*"));
    Prepared::Ready(vec![(JAVA_VARIABLE, java), (CLASSPATH_VARIABLE, classpath)])
}

fn missing(program: &str) -> String {
    format!("no {program} in PATH; install Java 17 or newer and Maven (Debian: apt-get install maven)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_the_flag_nothing_is_downloaded() {
        let Prepared::Skipped(reason) = prepare(&Options::default()).unwrap() else { panic!("was prepared") };
        assert!(reason.contains("--real-clients"), "{reason}");
    }

    #[test]
    fn missing_program_is_named_with_its_package() {
        let reason = missing("mvn");
        assert!(reason.starts_with("no mvn in PATH") && reason.contains("apt-get install maven"), "{reason}");
    }

    #[test]
    fn project_exists_and_builds_where_the_suite_looks() {
        let project = std::fs::read_to_string(root().join(PROJECT)).unwrap();
        assert!(project.contains(&format!("/{BUILD}</directory>")), "{project}");
    }
}
