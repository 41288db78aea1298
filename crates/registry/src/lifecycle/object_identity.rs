//! Checks whether an object still exists, without decoding all of it.
//!
//! Called for each request with a token, for each object to which the token is bound.

use coracle_meta::object::Meta;
use coracle_meta::time::Time;
use coracle_store::Entry;

use super::tree;
use crate::cluster::Cluster;
use crate::error::Result;
use crate::keys;
use crate::kind::Kind;
use crate::scan;

/// Identity and state of an existing object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectIdentity {
    /// The UID.
    pub uid: String,
    /// The deletion timestamp, if the object is terminating.
    pub deletion_timestamp: Option<Time>,
}

impl Cluster {
    /// Identity and state of the object with this name, if it exists.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn object_identity(
        &self,
        kind: &dyn Kind,
        namespace: &str,
        name: &str,
    ) -> Result<Option<ObjectIdentity>> {
        let key = keys::key(kind.declaration(), namespace, name);
        self.cached_entry(&key).await?.as_ref().map(identity_of).transpose()
    }
}

fn identity_of(entry: &Entry) -> Result<ObjectIdentity> {
    let json = entry.value_bytes();
    let text = |field| scan::text(&json, &["metadata", field]);
    // Terminating objects are rare, and are parsed.
    if let (Some(uid), Some("")) = (text("uid"), text("deletionTimestamp")) {
        return Ok(ObjectIdentity { uid: uid.to_owned(), deletion_timestamp: None });
    }
    let object = tree(entry)?;
    let meta = Meta::of(&object);
    Ok(ObjectIdentity { uid: meta.uid().to_owned(), deletion_timestamp: meta.deletion_timestamp() })
}
