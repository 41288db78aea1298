//! `cargo xtask ci`: the steps of CI, in order, up to the first failure.

use anyhow::{Result, bail};

use crate::process::{capture, cargo, run as run_command};
use crate::summary::{Skipped, Summary};
use crate::{test, tidy};

/// One step of CI. Its function returns the parts that it had to skip.
struct Step {
    name: &'static str,
    /// Reason why the whole step cannot run here, if there is one.
    obstacle: fn() -> Option<String>,
    run: fn(&test::Options) -> Result<Vec<Skipped>>,
}

/// Cheap steps first, so that most mistakes are reported within a minute.
const STEPS: &[Step] = &[
    Step { name: "format", obstacle: none, run: |_| plain(["fmt", "--all", "--check"]) },
    Step { name: "clippy", obstacle: none, run: |_| clippy() },
    Step { name: "features", obstacle: none, run: |_| features() },
    Step { name: "tidy", obstacle: none, run: |_| tidy::run().map(|()| Vec::new()) },
    Step { name: "deny", obstacle: deny_is_missing, run: |_| plain(["deny", "check"]) },
    Step { name: "doc", obstacle: none, run: |_| doc() },
    Step { name: "tests", obstacle: none, run: tests },
];

/// Runs the steps up to the first failure.
pub(crate) fn run(options: &test::Options) -> Summary {
    run_steps(STEPS, options)
}

fn run_steps(steps: &[Step], options: &test::Options) -> Summary {
    let mut summary = Summary::default();
    for step in steps {
        if let Some(reason) = (step.obstacle)() {
            summary.skip(step.name, reason);
            continue;
        }
        let Some(skipped) = summary.step(step.name, || (step.run)(options)) else {
            break;
        };
        for part in skipped {
            summary.skip(&part.name, part.reason);
        }
    }
    summary
}

fn plain<const N: usize>(args: [&str; N]) -> Result<Vec<Skipped>> {
    run_command(&mut cargo(args)).map(|()| Vec::new())
}

fn clippy() -> Result<Vec<Skipped>> {
    plain(["clippy", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"])
}

/// Builds without features, and with the default features that users get. Clippy has already built everything with
/// all features.
fn features() -> Result<Vec<Skipped>> {
    for package in ["coracle-store", "coracle"] {
        plain(["check", "--package", package, "--no-default-features"])?;
    }
    plain(["check", "--workspace"])
}

fn none() -> Option<String> {
    None
}

fn deny_is_missing() -> Option<String> {
    let answer = capture(&mut cargo(["deny", "--version"]));
    answer.err().map(|_| "cargo-deny is not installed (`cargo install --locked cargo-deny`)".to_owned())
}

fn tests(options: &test::Options) -> Result<Vec<Skipped>> {
    let summary = test::run(options)?;
    summary.report();
    if !summary.failed().is_empty() {
        bail!("failed suites: {}", summary.failed().join(", "));
    }
    Ok(summary.skipped().to_vec())
}

fn doc() -> Result<Vec<Skipped>> {
    run_command(cargo(["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings"))?;
    Ok(Vec::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(name: &'static str, run: fn(&test::Options) -> Result<Vec<Skipped>>) -> Step {
        Step { name, obstacle: none, run }
    }

    #[test]
    fn first_failure_ends_the_run() {
        let steps = [
            step("first", |_| Ok(Vec::new())),
            step("second", |_| bail!("wrong")),
            step("third", |_| panic!("ran after a failure")),
        ];
        assert_eq!(run_steps(&steps, &test::Options::default()).failed(), ["second"]);
    }

    #[test]
    fn step_with_obstacle_is_skipped() {
        let obstacle = || Some("absent".to_owned());
        let steps = [Step { name: "deny", obstacle, run: |_| panic!("ran despite the obstacle") }];
        let summary = run_steps(&steps, &test::Options::default());
        assert!(summary.failed().is_empty());
        assert_eq!(summary.skipped(), [Skipped { name: "deny".to_owned(), reason: "absent".to_owned() }]);
    }

    #[test]
    fn parts_skipped_by_a_step_are_in_the_summary() {
        let left =
            |_: &test::Options| Ok(vec![Skipped { name: "kubectl".to_owned(), reason: "absent".to_owned() }]);
        let summary = run_steps(&[step("tests", left)], &test::Options::default());
        assert!(summary.failed().is_empty());
        assert_eq!(summary.skipped()[0].name, "kubectl");
    }
}
