//! Whether an object is still the one somebody remembers, looked up without reading all of it.
//!
//! Asked for every request that comes with a token, of each object the token ends with.

use coracle_meta::object::Meta;
use coracle_meta::time::Time;
use coracle_store::Entry;

use super::tree;
use crate::cluster::Cluster;
use crate::error::Result;
use crate::keys;
use crate::kind::Kind;
use crate::scan;

/// One object among all that ever had its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Existing {
    /// What tells it apart from the others.
    pub uid: String,
    /// When it goes, if it is going.
    pub deletion_timestamp: Option<Time>,
}

impl Cluster {
    /// Which object has this name now, if any.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn existing(&self, kind: &dyn Kind, namespace: &str, name: &str) -> Result<Option<Existing>> {
        let key = keys::key(kind.declaration(), namespace, name);
        self.cached_entry(&key).await?.as_ref().map(existing).transpose()
    }
}

fn existing(entry: &Entry) -> Result<Existing> {
    let json = entry.value_bytes();
    let text = |field| scan::text(&json, &["metadata", field]);
    // What goes is read with more care, and is rare.
    if let (Some(uid), Some("")) = (text("uid"), text("deletionTimestamp")) {
        return Ok(Existing { uid: uid.to_owned(), deletion_timestamp: None });
    }
    let object = tree(entry)?;
    let meta = Meta::of(&object);
    Ok(Existing { uid: meta.uid().to_owned(), deletion_timestamp: meta.deletion_timestamp() })
}
