//! Deletion of a cluster with everything it stores.
//!
//! A small cluster goes in one transaction. A large one would exceed the limits of etcd's responses and hold up other
//! writers, so its record is marked first: from then on all commits in the cluster fail and requests to it get 404.
//! Its objects go page by page, and the record goes last. A deletion that is interrupted is completed by the next
//! request to delete the cluster, or by the next start of a server.

use coracle_store::{Delete, Entry, Error as StoreError, Expect, Put, RangeRequest, Store, Txn};

use super::record::ClusterRecord;
use super::{DEFAULT_CLUSTER, RECORDS, is_id};
use crate::cluster::{CLUSTERS, Registry};
use crate::error::{Error, Result};

/// Objects deleted in one transaction: below etcd's limit of 128 operations.
const PAGE_OBJECTS: usize = 100;

/// Bytes of objects deleted in one transaction. Watches get all of them in one response, and etcd's clients take
/// responses of 4 MiB by default.
const PAGE_BYTES: usize = 1 << 20;

/// How often the deletion starts again because the record changes: each time another server has changed limits or
/// deletes the same cluster.
const MAX_ATTEMPTS: u32 = 16;

/// The result of one attempt.
enum Attempt {
    Done,
    /// Another server has changed the record.
    Again,
}

impl Registry {
    /// Deletes a cluster, its objects and its record, and removes it from the directory. Watches of the cluster end.
    ///
    /// # Errors
    /// If there is no such cluster, or it is the default one. If the store fails, the deletion may be incomplete;
    /// another call completes it.
    pub async fn delete_cluster(&self, id: &str) -> Result<()> {
        if id == DEFAULT_CLUSTER {
            return Err(Error::DefaultClusterUndeletable);
        }
        self.refresh_clusters().await?;
        for attempt in 0..MAX_ATTEMPTS {
            let entry = if is_id(id) { self.records().get(id).await?.entry } else { None };
            let Some(entry) = entry else {
                if attempt == 0 {
                    return Err(Error::UnknownCluster { id: id.to_owned() });
                }
                // Another server has completed it.
                return Ok(());
            };
            if matches!(self.try_delete(id, &entry).await?, Attempt::Done) {
                return Ok(());
            }
        }
        let key = format!("{RECORDS}/{id}").into_bytes();
        Err(Error::Store(StoreError::Contention { key, attempts: MAX_ATTEMPTS }))
    }

    async fn try_delete(&self, id: &str, entry: &Entry) -> Result<Attempt> {
        let objects = self.all_clusters().scope(id)?;
        let mut revision = entry.mod_revision();
        if !page(&objects).await?.is_last {
            let record = ClusterRecord { deleting: true, ..ClusterRecord::read(entry)? };
            let put = Put::new(id, record.to_json()).expect(Expect::ModRevision(revision));
            revision = match self.records().put(put).await {
                Ok(committed) => committed.revision,
                Err(StoreError::Conflict(_)) => return Ok(Attempt::Again),
                Err(error) => return Err(error.into()),
            };
            self.note_committed(id, revision, Some(record));
            delete_all_but_last_page(&objects).await?;
        }
        // The record's revision is a condition: a cluster that was re-created meanwhile stays.
        let record = Delete::new(format!("{RECORDS}/{id}")).expect(Expect::ModRevision(revision));
        let txn = Txn::new().delete(record).delete_prefix(format!("{CLUSTERS}/{id}/"));
        match self.store().commit(txn).await {
            Ok(committed) => {
                self.note_committed(id, committed.revision, None);
                tracing::info!(cluster = id, "deleted a cluster");
                Ok(Attempt::Done)
            }
            Err(StoreError::Conflict(_)) => Ok(Attempt::Again),
            Err(error) => Err(error.into()),
        }
    }
}

/// The first objects of a cluster, as many as one transaction deletes.
struct Page {
    keys: Vec<Vec<u8>>,
    is_last: bool,
}

async fn page(objects: &Store) -> Result<Page> {
    let range = objects.range(RangeRequest::default().limit(PAGE_OBJECTS)).await?;
    let (mut keys, mut bytes) = (Vec::with_capacity(range.entries.len()), 0);
    for entry in &range.entries {
        bytes += entry.key().len() + entry.value_len();
        // One object is deleted in any case, however large it is.
        if bytes > PAGE_BYTES && !keys.is_empty() {
            return Ok(Page { keys, is_last: false });
        }
        keys.push(entry.key().to_vec());
    }
    Ok(Page { keys, is_last: !range.more })
}

async fn delete_all_but_last_page(objects: &Store) -> Result<()> {
    loop {
        let Page { keys, is_last } = page(objects).await?;
        if is_last {
            return Ok(());
        }
        let txn = keys.into_iter().fold(Txn::new(), |txn, key| txn.delete(Delete::new(key)));
        objects.commit(txn).await?;
    }
}
