//! `coracle store export`: writes all objects to a file, which is created atomically when it is complete.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use coracle::storage::{self, Store, Transferred};
use indicatif::HumanBytes;
use tempfile::NamedTempFile;

use super::{persistent_config, print, until_interrupted};
use crate::args::LocationArgs;
use crate::progress::Bar;

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    location: LocationArgs,
    /// File to write, with mode 0600: it contains secrets unencrypted.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Overwrite an existing file.
    #[arg(long)]
    force: bool,
}

pub(super) fn run(args: &ExportArgs) -> Result<()> {
    let config = persistent_config(&args.location)?;
    // Fails early; `keep` checks again without a race.
    if !args.force && args.file.exists() {
        bail!("{} already exists; pass --force to overwrite it", args.file.display());
    }
    let work = async {
        let store = storage::open_existing(&config).await?;
        let outcome = write(&store, args).await;
        let closed = store.close().await;
        let Transferred { entries, bytes, revision } = outcome?;
        closed.context("the objects are exported, but the store could not be closed cleanly")?;
        let (size, file) = (HumanBytes(bytes), args.file.display());
        print(&format!("exported {entries} entries of {size} at revision {revision} to {file}\n"))
    };
    until_interrupted(work, "nothing was exported")
}

async fn write(store: &Store, args: &ExportArgs) -> Result<Transferred> {
    let directory = parent(&args.file);
    // Has mode 0600, and is deleted when dropped unless `keep` persists it.
    let partial = NamedTempFile::with_prefix_in(".coracle-export-", directory)
        .with_context(|| format!("cannot write in {}", directory.display()))?;
    let file = partial.as_file().try_clone().context("cannot write the export")?;
    let bar = Bar::of_entries("exporting");
    let transferred = storage::export(store, file, &mut |progress| bar.show(progress)).await?;
    keep(partial, args)?;
    Ok(transferred)
}

/// Renames the complete file to its final name and syncs the directory.
fn keep(partial: NamedTempFile, args: &ExportArgs) -> Result<()> {
    let named = if args.force { partial.persist(&args.file) } else { partial.persist_noclobber(&args.file) };
    named
        .map_err(|refused| refused.error)
        .with_context(|| format!("cannot create {}", args.file.display()))?;
    let directory = parent(&args.file);
    let synced = File::open(directory).and_then(|directory| directory.sync_all());
    synced.with_context(|| format!("cannot sync {}", directory.display()))
}

fn parent(file: &Path) -> &Path {
    match file.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}
