//! Run time and exit code that a container's command implies: `sleep 30` runs for half a minute, `exit 1`
//! fails.
//!
//! Nothing is executed, so only `sleep`, `exit`, `true` and `false` are parsed, alone or as a sequence in a
//! shell script.

use std::time::Duration;

use crate::duration::Delay;
use crate::view::Container;

/// Run time and exit code of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CommandOutcome {
    pub(crate) run: Delay,
    pub(crate) exit_code: i32,
}

/// Parses the command of a container with its arguments; none if it has other commands.
pub(crate) fn outcome(container: &Container) -> Option<CommandOutcome> {
    let words: Vec<&str> = container.command.iter().chain(&container.args).map(|word| &**word).collect();
    let (program, rest) = words.split_first()?;
    match (program.rsplit('/').next()?, rest) {
        ("sh" | "bash" | "ash", ["-c", script]) => shell(script),
        ("sleep" | "true" | "false", _) => Some(step(&words)?.outcome()),
        _ => None,
    }
}

/// A command of a script.
#[derive(Clone, Copy)]
enum Step {
    Sleep(Delay),
    Exit(i32),
    Done(i32),
}

impl Step {
    fn outcome(self) -> CommandOutcome {
        match self {
            Self::Sleep(run) => CommandOutcome { run, exit_code: 0 },
            Self::Exit(exit_code) | Self::Done(exit_code) => {
                CommandOutcome { run: Delay::AT_ONCE, exit_code }
            }
        }
    }
}

fn shell(script: &str) -> Option<CommandOutcome> {
    let (mut run, mut exit_code) = (Duration::ZERO, 0);
    for part in script.split([';', '\n']) {
        for part in part.split("&&").map(str::trim).filter(|part| !part.is_empty()) {
            let words: Vec<&str> = part.split_whitespace().collect();
            match step(words.strip_prefix(&["exec"]).unwrap_or(&words))? {
                Step::Sleep(Delay::Never) => return Some(CommandOutcome { run: Delay::Never, exit_code: 0 }),
                Step::Sleep(Delay::After(longer)) => (run, exit_code) = (run.saturating_add(longer), 0),
                Step::Exit(code) => return Some(CommandOutcome { run: Delay::After(run), exit_code: code }),
                Step::Done(code) => exit_code = code,
            }
            if exit_code != 0 {
                // The commands after `&&` are not run.
                break;
            }
        }
    }
    Some(CommandOutcome { run: Delay::After(run), exit_code })
}

fn step(words: &[&str]) -> Option<Step> {
    match words {
        [sleep, time] if is(sleep, "sleep") => Some(Step::Sleep(sleep_time(time)?)),
        ["exit"] => Some(Step::Exit(0)),
        ["exit", code] => Some(Step::Exit(code.parse().ok()?)),
        [program] if is(program, "true") => Some(Step::Done(0)),
        [program] if is(program, "false") => Some(Step::Done(1)),
        _ => None,
    }
}

fn is(program: &str, name: &str) -> bool {
    program.rsplit('/').next() == Some(name)
}

/// Parses the argument of `sleep`: seconds, or a number with a unit.
fn sleep_time(time: &str) -> Option<Delay> {
    if matches!(time, "infinity" | "inf") {
        return Some(Delay::Never);
    }
    let unit = time.strip_suffix(|c: char| c.is_ascii_alphabetic());
    let seconds = match time.chars().last()? {
        's' => 1.0,
        'm' => 60.0,
        'h' => 3600.0,
        'd' => 86_400.0,
        _ if unit.is_none() => 1.0,
        _ => return None,
    };
    let number: f64 = unit.unwrap_or(time).parse().ok()?;
    Some(Delay::After(Duration::try_from_secs_f64(number * seconds).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &[&str]) -> Option<(Option<u128>, i32)> {
        let words: Vec<Box<str>> = words.iter().map(|word| Box::from(*word)).collect();
        let (command, args) = words.split_at(1.min(words.len()));
        let container = Container { command: command.into(), args: args.into(), ..Container::default() };
        let outcome = outcome(&container)?;
        Some((outcome.run.duration().map(|run| run.as_millis()), outcome.exit_code))
    }

    #[test]
    fn known_commands_are_parsed() {
        for (words, expected) in [
            (&["sleep", "300"][..], Some((Some(300_000), 0))),
            (&["/bin/sleep", "1.5m"], Some((Some(90_000), 0))),
            (&["sleep", "infinity"], Some((None, 0))),
            (&["true"], Some((Some(0), 0))),
            (&["/bin/false"], Some((Some(0), 1))),
            (&["sh", "-c", "exit 3"], Some((Some(0), 3))),
            (&["/bin/sh", "-c", "sleep 2 && exit 1"], Some((Some(2000), 1))),
            (&["sh", "-c", "exec sleep 1d"], Some((Some(86_400_000), 0))),
            (&["sh", "-c", "false && sleep 5; true;"], Some((Some(0), 0))),
            (&["sh", "-c", "sleep inf; exit 1"], Some((None, 0))),
        ] {
            assert_eq!(of(words), expected, "{words:?}");
        }
    }

    #[test]
    fn other_commands_are_not_parsed() {
        for words in [
            &[][..],
            &["nginx"],
            &["sleep"],
            &["sleep", "a"],
            &["sleep", "-1"],
            &["sh", "-c", "echo a; exit 1"],
            &["sh", "-c", "exit $CODE"],
            &["sh", "script.sh"],
            &["exit", "1"],
        ] {
            assert_eq!(of(words), None, "{words:?}");
        }
    }
}
