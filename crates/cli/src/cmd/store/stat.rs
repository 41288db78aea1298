//! `coracle store stat`: prints the revision and the size of a store.

use anyhow::{Context, Result};
use clap::Args;
use coracle::storage::{self, Stats};
use indicatif::{HumanBytes, HumanCount};
use serde::Serialize;

use super::{persistent_config, print, runtime};
use crate::args::{LocationArgs, Output};
use crate::table::aligned;

#[derive(Debug, Args)]
pub(crate) struct StatArgs {
    #[command(flatten)]
    location: LocationArgs,
    /// Output format.
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: Output,
}

/// The JSON output.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Figures {
    engine: &'static str,
    revision: u64,
    oldest_revision: u64,
    keys: u64,
    bytes: u64,
    history: u64,
    history_bytes: u64,
    disk_bytes: u64,
}

pub(super) fn run(args: &StatArgs) -> Result<()> {
    let config = persistent_config(&args.location)?;
    let stats = runtime()?.block_on(async {
        let store = storage::open_existing(&config).await?;
        let stats = store.stats().await;
        store.close().await?;
        anyhow::Ok(stats?)
    })?;
    match args.output {
        Output::Text => print(&text(&stats)),
        Output::Json => print(&json(&stats)?),
    }
}

fn text(stats: &Stats) -> String {
    let history = format!("{} changes, {}", HumanCount(stats.history), HumanBytes(stats.history_bytes));
    // Engines report zero for figures that they do not have.
    let or_unknown = |figure: u64, text: String| if figure == 0 { "-".to_owned() } else { text };
    let rows = [
        ("engine", stats.engine.to_owned()),
        ("revision", stats.revision.to_string()),
        ("oldest revision kept", stats.oldest.to_string()),
        ("keys", stats.keys.to_string()),
        ("bytes", HumanBytes(stats.bytes).to_string()),
        ("history", or_unknown(stats.history, history)),
        ("disk bytes", or_unknown(stats.disk_bytes, HumanBytes(stats.disk_bytes).to_string())),
    ];
    aligned(&rows.map(|(name, value)| [name.to_owned(), value]))
}

fn json(stats: &Stats) -> Result<String> {
    let figures = Figures {
        engine: stats.engine,
        revision: stats.revision.get(),
        oldest_revision: stats.oldest.get(),
        keys: stats.keys,
        bytes: stats.bytes,
        history: stats.history,
        history_bytes: stats.history_bytes,
        disk_bytes: stats.disk_bytes,
    };
    let json = serde_json::to_string_pretty(&figures).context("cannot write the figures as JSON")?;
    Ok(json + "\n")
}
