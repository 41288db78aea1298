//! The key that the tokens of service accounts are signed with. kubeadm calls it `sa.key`.

use std::path::Path;

use rcgen::KeyPair;

use super::PrivateKey;
use super::authority::{issue_failed, parse_key};
use super::error::PkiError;
use super::files::{self, Access, Batch};

/// Its name in the directory.
const FILE: &str = "sa.key";

/// The key in the directory, which is made if there is none.
pub(super) fn load_or_make(dir: &Path, batch: &mut Batch) -> Result<PrivateKey, PkiError> {
    let path = dir.join(FILE);
    match files::read(&path)? {
        Some(pem) => {
            parse_key(&pem, &path)?;
            Ok(PrivateKey::new(pem))
        }
        None => {
            let key = make(&path)?;
            batch.add(path, key.expose().to_owned(), Access::Private);
            Ok(key)
        }
    }
}

/// A key for a cluster that writes nothing down.
pub(crate) fn passing() -> Result<PrivateKey, PkiError> {
    make(Path::new(FILE))
}

fn make(path: &Path) -> Result<PrivateKey, PkiError> {
    let key = KeyPair::generate().map_err(|error| issue_failed(path, error))?;
    Ok(PrivateKey::new(key.serialize_pem()))
}
