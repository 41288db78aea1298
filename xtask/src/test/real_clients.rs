//! Client libraries of Python, in an environment of their own below `target/`.
//!
//! They are downloaded, so the suite runs only when asked for; it is never the only proof of anything.

use anyhow::{Context, Result};

use super::Options;
use super::suites::Prepared;
use crate::process::{command, root, run};

/// The variable that tells the suite which Python has the libraries.
const VARIABLE: &str = "CORACLE_TEST_PYTHON";

/// What is installed from PyPI.
const PACKAGES: &[&str] = &["kubernetes", "kr8s"];

pub(crate) fn prepare(options: &Options) -> Result<Prepared> {
    if !options.real_clients {
        return Ok(Prepared::LeftOut("downloads client libraries; ask for it by --real-clients".to_owned()));
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
        let Prepared::LeftOut(reason) = prepare(&Options::default()).unwrap() else { panic!("was prepared") };
        assert!(reason.contains("--real-clients"), "{reason}");
    }
}
