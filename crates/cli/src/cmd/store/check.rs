//! `coracle store check`: every byte read, and a verdict.

use std::path::Path;

use anyhow::{Error, Result};
use coracle::storage::{self, FileReport, Report, StoreError, Torn};
use indicatif::HumanBytes;

use super::{on_disk, print};
use crate::args::LocationArgs;
use crate::failure::Advice;
use crate::progress::Bar;
use crate::table::aligned;

pub(super) fn run(location: &LocationArgs) -> Result<()> {
    let (data_dir, directory) = on_disk(location)?;
    let bar = Bar::of_bytes("checking");
    let outcome = storage::check(&directory, &mut |progress| bar.show(progress));
    drop(bar);
    match outcome {
        Ok(report) => print(&text(&report)),
        Err(error) => Err(explain(error, &data_dir, &directory)),
    }
}

fn text(report: &Report) -> String {
    let heading = ["FILE", "SIZE", "FRAMES", "REVISIONS"].map(str::to_owned);
    let rows: Vec<_> = std::iter::once(heading).chain(report.files.iter().map(row)).collect();
    let Report { keys, oldest, revision, .. } = report;
    let size = HumanBytes(report.bytes);
    let torn = report.torn.as_ref().map(describe_torn).unwrap_or_default();
    let closed = if report.closed_cleanly { "" } else { "it was not closed in order, which loses nothing\n" };
    format!(
        "{}\n{keys} keys of {size} at revision {revision}, history from revision {oldest} on\n\
         {torn}{closed}the store is in good order\n",
        aligned(&rows)
    )
}

fn row(file: &FileReport) -> [String; 4] {
    let revisions = match (file.first, file.last) {
        (Some(first), Some(last)) => format!("{first} to {last}"),
        (Some(only), None) | (None, Some(only)) => only.to_string(),
        (None, None) => "-".to_owned(),
    };
    [file.name.clone(), HumanBytes(file.bytes).to_string(), file.frames.to_string(), revisions]
}

fn describe_torn(torn: &Torn) -> String {
    let Torn { file, offset, bytes } = torn;
    format!(
        "{file} ends at offset {offset} with {bytes} bytes of a write that was cut short and never \
         acknowledged; opening the store removes it\n"
    )
}

/// After damage, adds the command that gives it up, for those who have no copy.
fn explain(error: StoreError, data_dir: &Path, directory: &Path) -> Error {
    let StoreError::Damaged { path, offset, .. } = &error else {
        return Error::new(error);
    };
    let file = path.strip_prefix(directory).unwrap_or(path).display();
    let data_dir = data_dir.display();
    let repair = format!("coracle store repair --data-dir {data_dir} --truncate-at {file}:{offset}");
    let advice = Advice(format!("to give up everything from there on, run: {repair}"));
    Error::new(error).context(advice)
}
