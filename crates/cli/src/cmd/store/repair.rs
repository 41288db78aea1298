//! `coracle store repair`: giving up what follows a damaged place.

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
    /// Give up everything from this place on, as `coracle store check` names it.
    #[arg(long, value_name = "FILE:OFFSET", value_parser = parse_place)]
    truncate_at: TruncateAt,
    /// Do not ask.
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
    print(&format!("{lines}the store now ends at revision {revision}; any later write is given up\n"))
}

fn parse_place(text: &str) -> Result<TruncateAt, String> {
    let expected = || "expected FILE:OFFSET, as `coracle store check` names it".to_owned();
    let (file, offset) = text.rsplit_once(':').filter(|(file, _)| !file.is_empty()).ok_or_else(expected)?;
    let offset = offset.parse().map_err(|_| expected())?;
    Ok(TruncateAt { file: file.to_owned(), offset })
}

fn confirm(place: &TruncateAt) -> Result<()> {
    if !io::stdin().is_terminal() {
        bail!("repair gives up data; confirm that by --yes");
    }
    let TruncateAt { file, offset } = place;
    let question =
        format!("Every write from {file}:{offset} on will be set aside and missing. Go on? [y/N] ");
    io::stderr().write_all(question.as_bytes()).context("cannot ask")?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).context("cannot read the answer")?;
    if !matches!(answer.trim(), "y" | "Y" | "yes") {
        bail!("nothing was changed");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places() {
        let place = TruncateAt { file: "log-1".to_owned(), offset: 8192 };
        assert_eq!(parse_place("log-1:8192"), Ok(place));
        for wrong in ["", "log-1", "log-1:", ":1", "log-1:x", "log-1:-1"] {
            assert!(parse_place(wrong).is_err(), "{wrong}");
        }
    }
}
