//! Reading one object.

use coracle_store::Revision;

use super::Object;
use crate::cluster::Cluster;
use crate::error::{Error, Result, Subject};
use crate::keys;
use crate::kind::Kind;

impl Cluster {
    /// One object, at the latest revision. With `not_older_than`, only if the store has come
    /// that far.
    ///
    /// # Errors
    /// If there is none.
    pub async fn get(
        &self,
        kind: &dyn Kind,
        namespace: &str,
        name: &str,
        not_older_than: Option<Revision>,
    ) -> Result<Object> {
        let declaration = kind.declaration();
        let found = self.store.get(keys::key(declaration, namespace, name)).await?;
        if let Some(requested) = not_older_than.filter(|requested| *requested > found.revision) {
            return Err(Error::TooLargeRevision { requested, current: found.revision });
        }
        let entry = found.entry.ok_or_else(|| Error::NotFound(Box::new(Subject::of(declaration, name))))?;
        Ok(Object { json: entry.value(), revision: entry.mod_revision() })
    }
}
