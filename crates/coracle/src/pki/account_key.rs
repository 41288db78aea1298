//! The signing key of service account tokens, `sa.key` in kubeadm.
//!
//! A new key signs at once when it replaces the old one. The public half of the old key is kept for as long
//! as its tokens may be valid; it can sign nothing more.

use std::path::Path;
use std::time::Duration;

use coracle_base::Timestamp;
use rcgen::KeyPair;

use super::PrivateKey;
use super::authority::{issue_failed, parse_key};
use super::error::PkiError;
use super::files::{self, Batch};
use crate::trusted_files::Secrecy;

/// Base name of its file.
pub(super) const NAME: &str = "sa";

/// The files of the key and of its predecessors.
const FILE: &str = "sa.key";
const OLD: &str = "sa-old.pub";

/// How long the tokens of an old key are accepted: longer than the lifetime of the tokens that the server
/// creates by itself, which is a year.
const KEEP: Duration = Duration::from_hours(366 * 24);

/// Maximum number of old keys; with more frequent rotation the oldest is dropped.
const MAX_OLD: usize = 16;

/// Marks the line before a retired key, followed by the time of its retirement.
const RETIRED: &str = "retired ";

/// The signing key and its predecessors.
#[derive(Clone, Debug)]
pub(crate) struct AccountKeys {
    /// The private signing key.
    pub(crate) signing: PrivateKey,
    /// Retired public keys in PEM.
    pub(crate) retired: Vec<String>,
    /// The time at which the first of them expires.
    pub(super) due: Option<Timestamp>,
}

/// A key that no longer signs.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Retired {
    at: Timestamp,
    pem: String,
}

/// Loads the keys in the directory. Creates one if there is none, and a new one if `rotate` is set.
pub(super) fn load_or_create(
    dir: &Path,
    rotate: bool,
    now: Timestamp,
    batch: &mut Batch,
) -> Result<AccountKeys, PkiError> {
    let (path, old_path) = (dir.join(FILE), dir.join(OLD));
    let before = files::read(&old_path)?.unwrap_or_default();
    let mut retired = parse_retired(&before);
    retired.retain(|key| now < key.at + KEEP);
    let signing = match files::read(&path)? {
        Some(pem) => {
            let key = parse_key(&pem, &path)?;
            if rotate {
                // Before the new key is stored: tokens signed until then have to be accepted later.
                retired.push(Retired { at: now, pem: key.public_key_pem() });
                None
            } else {
                Some(PrivateKey::new(pem))
            }
        }
        None => None,
    };
    retired.drain(..retired.len().saturating_sub(MAX_OLD));
    let text = write_retired(&retired);
    if text.is_empty() {
        batch.remove(old_path);
    } else if text != before {
        batch.add(old_path, text, Secrecy::Public);
    }
    let signing = match signing {
        Some(signing) => signing,
        None => {
            let key = create(&path)?;
            batch.add(path, key.expose().to_owned(), Secrecy::Private);
            key
        }
    };
    let due = retired.iter().map(|key| key.at + KEEP).min();
    Ok(AccountKeys { signing, retired: retired.into_iter().map(|key| key.pem).collect(), due })
}

/// Keys of a server without files.
pub(crate) fn ephemeral() -> Result<AccountKeys, PkiError> {
    Ok(AccountKeys { signing: create(Path::new(FILE))?, retired: Vec::new(), due: None })
}

fn create(path: &Path) -> Result<PrivateKey, PkiError> {
    let key = KeyPair::generate().map_err(|error| issue_failed(path, error))?;
    Ok(PrivateKey::of(&key))
}

/// Each key follows the line with its retirement. Unreadable parts are skipped: the consequence is only
/// that tokens of that key are rejected.
fn parse_retired(text: &str) -> Vec<Retired> {
    let blocks = text.split(RETIRED).skip(1);
    let parse = |block: &str| {
        let (millis, pem) = block.split_once('\n')?;
        Some(Retired { at: Timestamp::from_millis(millis.trim().parse().ok()?), pem: pem.to_owned() })
    };
    blocks.filter_map(parse).collect()
}

fn write_retired(keys: &[Retired]) -> String {
    let block = |key: &Retired| format!("{RETIRED}{}\n{}", key.at.as_millis(), key.pem);
    keys.iter().map(block).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retired_keys_are_parsed_as_written() {
        let key = |at, pem: &str| Retired { at: Timestamp::from_millis(at), pem: pem.to_owned() };
        let keys = [key(1, "-----BEGIN X-----\na\n-----END X-----\n"), key(2, "b\n")];
        assert_eq!(parse_retired(&write_retired(&keys)), keys);
        assert!(parse_retired("").is_empty());
        assert!(parse_retired("retired soon\nx").is_empty());
    }
}
