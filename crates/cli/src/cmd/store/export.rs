//! `coracle store export`: all objects to a file, which appears only when it is whole.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use coracle::storage::{self, Store, Transferred};
use indicatif::HumanBytes;
use tempfile::NamedTempFile;

use super::{kept, print, until_interrupted};
use crate::args::LocationArgs;
use crate::progress::Bar;

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    location: LocationArgs,
    /// The file to write. Secrets are in it as they are, so only you may read it.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Replace the file if there is one.
    #[arg(long)]
    force: bool,
}

pub(super) fn run(args: &ExportArgs) -> Result<()> {
    let config = kept(&args.location)?;
    // Asked again at the end; this spares the work.
    if !args.force && args.file.exists() {
        bail!("{} exists already; replace it by --force", args.file.display());
    }
    let work = async {
        let store = storage::open_existing(&config).await?;
        let outcome = write(&store, args).await;
        let closed = store.close().await;
        let Transferred { entries, bytes, revision } = outcome?;
        closed.context("the objects are exported, but the store could not be closed in order")?;
        let (size, file) = (HumanBytes(bytes), args.file.display());
        print(&format!("exported {entries} entries of {size} at revision {revision} to {file}\n"))
    };
    until_interrupted(work, "nothing was exported")
}

async fn write(store: &Store, args: &ExportArgs) -> Result<Transferred> {
    let directory = parent(&args.file);
    // Readable by its owner only, and deleted unless it is kept below.
    let partial = NamedTempFile::with_prefix_in(".coracle-export-", directory)
        .with_context(|| format!("cannot write in {}", directory.display()))?;
    let file = partial.as_file().try_clone().context("cannot write the export")?;
    let bar = Bar::of_entries("exporting");
    let transferred = storage::export(store, file, &mut |progress| bar.show(progress)).await?;
    keep(partial, args)?;
    Ok(transferred)
}

/// Gives the file its name, for good.
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
