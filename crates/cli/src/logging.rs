//! Logging to stderr; stdout is reserved for the output of commands.

use std::env;
use std::io::{self, IsTerminal};

use anyhow::{Error, Result};
use clap::{Args, ValueEnum};
use tracing_subscriber::EnvFilter;

use crate::failure::UsageError;

/// The environment variable that replaces the default of `--log-level`.
const FILTER_VARIABLE: &str = "CORACLE_LOG";

const DEFAULT_FILTER: &str = "info";

/// Log levels, as filter directives name them.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Target prefix of Coracle's own crates.
const OWN_TARGETS: &str = "coracle";

/// Target of the API client library. It logs failed requests as errors, which commands report themselves.
const CLIENT_TARGET: &str = "kube_client";

/// The level and the format of the log.
#[derive(Debug, Args)]
#[command(next_help_heading = "Log")]
pub(crate) struct LogArgs {
    /// Log at this level: off, error, warn, info, debug (also one line for each request) or trace (also what libraries
    /// log); or by a filter such as info,coracle_store=debug [default: $CORACLE_LOG, else info]
    #[arg(long, global = true, value_name = "LEVEL|FILTER")]
    log_level: Option<String>,
    /// Format of log lines on stderr
    #[arg(long, global = true, value_enum, value_name = "FORMAT", default_value_t = LogFormat::Text)]
    log_format: LogFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

/// Installs the logger of this process.
pub(crate) fn init(args: &LogArgs) -> Result<()> {
    let (source, text) = match (&args.log_level, variable(FILTER_VARIABLE)) {
        (Some(text), _) => ("--log-level", text.clone()),
        (None, Some(text)) => (FILTER_VARIABLE, text),
        (None, None) => ("--log-level", DEFAULT_FILTER.to_owned()),
    };
    let filter = filter(&text).map_err(|reason| {
        let expected =
            "expected a level (off, error, warn, info, debug, trace) or TARGET=LEVEL[,TARGET=LEVEL...]";
        Error::new(UsageError(format!("invalid {source} {text:?}: {reason}; {expected}")))
    })?;
    let logger = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        // tracing-subscriber would report a failed write with `eprintln!`, which panics if stderr is closed, for
        // example with its terminal.
        .log_internal_errors(false);
    match args.log_format {
        LogFormat::Text => {
            logger.with_ansi(is_colored(io::stderr().is_terminal(), variable("NO_COLOR").as_deref())).init();
        }
        LogFormat::Json => logger.json().flatten_event(true).init(),
    }
    Ok(())
}

/// Colours need a terminal; a non-empty NO_COLOR disables them (no-color.org).
fn is_colored(is_terminal: bool, no_color: Option<&str>) -> bool {
    is_terminal && no_color.is_none_or(str::is_empty)
}

/// The value of an environment variable, if it is set and not empty.
#[expect(clippy::disallowed_methods, reason = "the environment is a part of the command line")]
fn variable(name: &str) -> Option<String> {
    env::var_os(name).map(|value| value.to_string_lossy().into_owned()).filter(|value| !value.is_empty())
}

/// Parses a filter. `EnvFilter` treats a misspelt level as a target, so levels are checked first.
fn filter(text: &str) -> Result<EnvFilter, String> {
    let text = text.trim();
    if let Some(directive) = text.split(',').map(str::trim).find(|directive| !is_directive(directive)) {
        return Err(format!("{directive:?} is no directive"));
    }
    let text = match text.to_ascii_lowercase().as_str() {
        // Debug lines of HTTP libraries would drown those of requests.
        "debug" => format!("{DEFAULT_FILTER},{OWN_TARGETS}=debug,{CLIENT_TARGET}=off"),
        level @ ("error" | "warn" | "info") => format!("{level},{CLIENT_TARGET}=off"),
        _ => text.to_owned(),
    };
    EnvFilter::builder().parse(text).map_err(|error| error.to_string())
}

/// Returns true if a part of a filter is `LEVEL` or `TARGET=LEVEL`.
fn is_directive(directive: &str) -> bool {
    let is_level = |text: &str| LEVELS.iter().any(|level| text.eq_ignore_ascii_case(level));
    match directive.rsplit_once('=') {
        None => is_level(directive),
        Some((target, level)) => !target.is_empty() && is_level(level),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filter_of_levels_and_targets_is_accepted() {
        for text in
            ["off", "INFO", " warn ", "debug", "trace", "info,coracle_store=debug", "coracle::a=trace,warn"]
        {
            assert!(filter(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn filter_with_a_misspelt_level_is_rejected() {
        for text in
            ["verbose-please", "debgu", "info,coracle_store=loud", "=debug", "info,", "coracle_store", "7"]
        {
            assert!(filter(text).is_err(), "{text}");
        }
    }

    #[test]
    fn debug_does_not_include_libraries() {
        let debug = filter("debug").unwrap().to_string();
        assert!(debug.contains("coracle=debug") && debug.contains("info"), "{debug}");
        assert_eq!(filter("trace").unwrap().to_string(), "trace");
    }

    #[test]
    fn colors_need_a_terminal_and_no_no_color() {
        assert!(is_colored(true, None) && is_colored(true, Some("")));
        assert!(!is_colored(true, Some("1")) && !is_colored(false, None));
    }
}
