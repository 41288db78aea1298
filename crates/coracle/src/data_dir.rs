//! The data directory of a cluster: made for its owner only, and refused if another user could have written it.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use coracle_base::Task;

use crate::error::StorageError;
use crate::trusted_files::{self, Links, OpenError};

/// For the owner only, for Secrets and private keys lie in it.
const MODE: u32 = 0o700;

/// Makes a data directory, and that of the store within it if there is one. Those that exist, and the files of the store,
/// must be ones that no other user could have written.
pub(crate) async fn prepare(data_dir: &Path, store: Option<&Path>) -> Result<(), StorageError> {
    let (dir, store) = (data_dir.to_owned(), store.map(Path::to_owned));
    let prepared = Task::spawn_blocking("data directory", move || {
        make_trusted(&dir, Links::Followed)?;
        let Some(store) = store else { return Ok(()) };
        make_trusted(&store, Links::Refused)?;
        trusted_files::check_entries(&store).map_err(|error| failed(&store, error))
    });
    prepared.await.map_err(|error| failed(data_dir, io::Error::other(error).into()))?
}

fn make_trusted(path: &Path, links: Links) -> Result<(), StorageError> {
    let created = DirBuilder::new().recursive(true).mode(MODE).create(path);
    created.map_err(|source| failed(path, source.into()))?;
    trusted_files::open_dir(path, links).map(drop).map_err(|error| failed(path, error))
}

fn failed(path: &Path, error: OpenError) -> StorageError {
    match error {
        OpenError::Untrusted(untrusted) => untrusted.into(),
        OpenError::Io(source) => StorageError::DataDir { path: path.to_owned(), source },
    }
}
