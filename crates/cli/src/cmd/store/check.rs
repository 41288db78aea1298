//! `coracle store check`: reads all data files and verifies their integrity.

use std::path::Path;

use anyhow::{Error, Result};
use coracle::storage::{self, FileReport, Report, StoreError, Torn, TruncateAt, WayOut};
use indicatif::HumanBytes;

use super::{on_disk, print};
use crate::args::LocationArgs;
use crate::failure::Advice;
use crate::progress::Bar;
use crate::shell;
use crate::table::aligned;

pub(super) fn run(location: &LocationArgs) -> Result<()> {
    let (data_dir, directory) = on_disk(location)?;
    let bar = Bar::of_bytes("checking");
    let outcome = storage::check(&directory, &mut |progress| bar.show(progress));
    drop(bar);
    match outcome {
        Ok(report) => print(&text(&report)),
        Err(error) => Err(explain(error, &data_dir)),
    }
}

fn text(report: &Report) -> String {
    let heading = ["FILE", "SIZE", "FRAMES", "REVISIONS"].map(str::to_owned);
    let rows: Vec<_> = std::iter::once(heading).chain(report.files.iter().map(row)).collect();
    let Report { keys, oldest, revision, .. } = report;
    let size = HumanBytes(report.bytes);
    let torn = report.torn.as_ref().map(describe_torn).unwrap_or_default();
    let closed = if report.closed_cleanly {
        ""
    } else {
        "the store was not shut down cleanly; cannot verify that its very last writes are present\n"
    };
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
        "{file} ends at offset {offset} with {bytes} bytes of an incomplete, never \
         acknowledged write; opening the store removes it\n"
    )
}

/// Adds the repair command if the damage can be repaired. If only a backup helps, the error says so and no command is
/// printed.
fn explain(error: StoreError, data_dir: &Path) -> Error {
    let StoreError::Damaged { way_out, .. } = &error else {
        return Error::new(error);
    };
    let WayOut::Truncate { at: TruncateAt { file, offset }, .. } = &**way_out else {
        return Error::new(error);
    };
    let data_dir = data_dir.to_string_lossy();
    let data_dir = shell::quoted(&data_dir);
    let advice = Advice(format!(
        "to repair: coracle store repair --data-dir {data_dir} --truncate-at {file}:{offset} --yes"
    ));
    Error::new(error).context(advice)
}
