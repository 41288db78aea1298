//! Python client libraries, in a virtual environment below `target/`.
//!
//! They are downloaded, so the suite runs only with `--real-clients`. It is never the only test of a feature.

use anyhow::{Context, Result};

use super::Options;
use super::suites::Prepared;
use crate::process::{command, root, run};

/// Variable with the Python program of the environment.
const VARIABLE: &str = "CORACLE_TEST_PYTHON";

/// Packages from PyPI.
const PACKAGES: &[&str] = &["kubernetes", "kr8s"];

pub(crate) fn prepare(options: &Options) -> Result<Prepared> {
    if !options.real_clients {
        return Ok(Prepared::Skipped("downloads client libraries; pass --real-clients to run it".to_owned()));
    }
    let directory = root().join("target").join("real-clients");
    let python = directory.join("bin").join("python");
    if !python.is_file() {
        run(command("python3").args(["-m", "venv"]).arg(&directory))
            .context("creating a Python environment (Debian: apt-get install python3-venv)")?;
    }
    run(command(&python)
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
        .args(PACKAGES))
    .context("installing the Python clients")?;
    Ok(Prepared::Ready(vec![(VARIABLE, python.into())]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_the_flag_nothing_is_downloaded() {
        let Prepared::Skipped(reason) = prepare(&Options::default()).unwrap() else { panic!("was prepared") };
        assert!(reason.contains("--real-clients"), "{reason}");
    }
}
