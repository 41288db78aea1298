//! `coracle store repair`: truncates the log at a damaged record.

use std::io::{self, BufRead, IsTerminal, Write};

use anyhow::{Context, Result, bail};
use clap::Args;
use coracle::storage::{self, Repaired, TruncateAt};

use super::{on_disk, print};
use crate::args::LocationArgs;

#[derive(Debug, Args)]
pub(crate) struct RepairArgs {
    #[command(flatten)]
    location: LocationArgs,
    /// Truncate at this position, as `coracle store check` prints it.
    #[arg(long, value_name = "FILE:OFFSET", value_parser = parse_position)]
    truncate_at: TruncateAt,
    /// Do not prompt for confirmation.
    #[arg(long)]
    yes: bool,
}

pub(super) fn run(args: &RepairArgs) -> Result<()> {
    let (_, directory) = on_disk(&args.location)?;
    if !args.yes {
        confirm(&args.truncate_at)?;
    }
    let Repaired { revision, set_aside } = storage::repair(&directory, &args.truncate_at)?;
    let lines = set_aside.iter().map(|path| format!("set aside: {}\n", path.display()));
    let lines = lines.collect::<String>();
    print(&format!("{lines}the store now ends at revision {revision}; later writes are discarded\n"))
}

fn parse_position(text: &str) -> Result<TruncateAt, String> {
    let expected = || "expected FILE:OFFSET, as `coracle store check` prints it".to_owned();
    let (file, offset) = text.rsplit_once(':').filter(|(file, _)| !file.is_empty()).ok_or_else(expected)?;
    let offset = offset.parse().map_err(|_| expected())?;
    Ok(TruncateAt { file: file.to_owned(), offset })
}

fn confirm(position: &TruncateAt) -> Result<()> {
    if !io::stdin().is_terminal() {
        bail!("repair discards data: pass --yes to confirm");
    }
    let TruncateAt { file, offset } = position;
    let question = format!(
        "All writes from {file}:{offset} on will be set aside and missing from the store. Continue? [y/N] "
    );
    io::stderr().write_all(question.as_bytes()).context("cannot prompt for confirmation")?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).context("cannot read the confirmation")?;
    if !matches!(answer.trim(), "y" | "Y" | "yes") {
        bail!("not confirmed; nothing was changed");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn position_is_file_and_offset() {
        let position = TruncateAt { file: "log-1".to_owned(), offset: 8192 };
        assert_eq!(parse_position("log-1:8192"), Ok(position));
        for wrong in ["", "log-1", "log-1:", ":1", "log-1:x", "log-1:-1"] {
            assert!(parse_position(wrong).is_err(), "{wrong}");
        }
    }
}
