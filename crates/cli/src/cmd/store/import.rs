//! `coracle store import`: copies all objects from an exported file into an empty store.

use std::fs::File;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use coracle::storage::{self, Transferred};
use indicatif::HumanBytes;

use super::{persistent_config, print, until_interrupted};
use crate::args::LocationArgs;
use crate::progress::Bar;

#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    #[command(flatten)]
    location: LocationArgs,
    /// File to read, as `coracle store export` wrote it.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub(super) fn run(args: &ImportArgs) -> Result<()> {
    let config = persistent_config(&args.location)?;
    // Opened first, because opening the store may create it.
    let file = File::open(&args.file).with_context(|| format!("cannot open {}", args.file.display()))?;
    let work = async {
        let store = storage::open_or_create(&config).await?;
        let bar = Bar::of_bytes("importing");
        let outcome = storage::import(&store, file, &mut |progress| bar.show(progress)).await;
        drop(bar);
        let closed = store.close().await;
        let transferred = outcome.with_context(|| format!("cannot import {}", args.file.display()))?;
        closed.context("the objects are imported, but the store could not be closed cleanly")?;
        let Transferred { entries, bytes, revision } = transferred;
        let size = HumanBytes(bytes);
        print(&format!("imported {entries} entries of {size}; the store is at revision {revision}\n"))
    };
    until_interrupted(work, "a part is imported: empty the store before you try again")
}
