//! The key that the tokens of service accounts are signed with. kubeadm calls it `sa.key`.
//!
//! When it is replaced, the new one signs at once. Of the old one the public half is kept for as long as
//! its tokens may live; nothing more can be signed with it.

use std::path::Path;
use std::time::Duration;

use coracle_base::Timestamp;
use rcgen::KeyPair;

use super::PrivateKey;
use super::authority::{issue_failed, parse_key};
use super::error::PkiError;
use super::files::{self, Batch};
use crate::trusted_files::Secrecy;

/// What its file is called, without `.key`.
pub(super) const NAME: &str = "sa";

/// Its name in the directory, and that of its predecessors.
const FILE: &str = "sa.key";
const OLD: &str = "sa-old.pub";

/// How long tokens of an old key are taken: longer than those live that the server makes by itself, which
/// is a year.
const KEEP: Duration = Duration::from_hours(366 * 24);

/// Old keys that are kept; whoever replaces it more often gives up the oldest.
const MAX_OLD: usize = 16;

/// Stands before the time at which a key was retired, in the line before it.
const RETIRED: &str = "retired ";

/// What signs tokens, and what did.
#[derive(Clone, Debug)]
pub(crate) struct AccountKeys {
    /// What signs, a private key.
    pub(crate) signing: PrivateKey,
    /// What did, public keys in PEM.
    pub(crate) retired: Vec<String>,
    /// When the first of them goes.
    pub(super) due: Option<Timestamp>,
}

/// A key that signs no more.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Retired {
    at: Timestamp,
    pem: String,
}

/// The keys in the directory, made if there are none, or anew if `rotate` says so.
pub(super) fn load_or_make(
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
                // Before the new one is there: what is signed meanwhile must be known later.
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
            let key = make(&path)?;
            batch.add(path, key.expose().to_owned(), Secrecy::Private);
            key
        }
    };
    let due = retired.iter().map(|key| key.at + KEEP).min();
    Ok(AccountKeys { signing, retired: retired.into_iter().map(|key| key.pem).collect(), due })
}

/// Keys for a cluster that writes nothing down.
pub(crate) fn passing() -> Result<AccountKeys, PkiError> {
    Ok(AccountKeys { signing: make(Path::new(FILE))?, retired: Vec::new(), due: None })
}

fn make(path: &Path) -> Result<PrivateKey, PkiError> {
    let key = KeyPair::generate().map_err(|error| issue_failed(path, error))?;
    Ok(PrivateKey::of(&key))
}

/// Each key after the line that says since when it signs no more. What is not understood is left out:
/// tokens of a key that was spoilt are refused, and that is all.
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
    fn retired_keys_are_found_again() {
        let key = |at, pem: &str| Retired { at: Timestamp::from_millis(at), pem: pem.to_owned() };
        let keys = [key(1, "-----BEGIN X-----\na\n-----END X-----\n"), key(2, "b\n")];
        assert_eq!(parse_retired(&write_retired(&keys)), keys);
        assert!(parse_retired("").is_empty());
        assert!(parse_retired("retired soon\nx").is_empty());
    }
}
