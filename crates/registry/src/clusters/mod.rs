//! Clusters are created, limited and deleted explicitly. See `docs/adr/0013-explicit-clusters.md`.
//!
//! A cluster is a record outside of all clusters, under `cluster-records/<id>`, and a key prefix, `clusters/<id>/`.
//! Every commit in a cluster depends on its record, so no write outlives the deletion. The default cluster always
//! exists; it has a record only if it has limits.

mod adopt;
mod delete;
mod directory;
mod record;
mod usage;

use coracle_meta::name::dns1123_label;
use coracle_meta::time::Time;
use coracle_store::{Error as StoreError, Expect, Put, Revision, WatchEvent, WatchRequest};
use serde::{Deserialize, Serialize};

pub(crate) use directory::{Directory, KnownCluster};
pub use record::{ClusterLimits, LimitsChange};
pub use usage::ClusterUsage;
pub(crate) use usage::{Growth, Reservation, Usage};

use crate::cluster::Registry;
use crate::error::{Error, Result};
use record::ClusterRecord;

/// The cluster of plain paths.
pub const DEFAULT_CLUSTER: &str = "default";

/// The scope of the records in the store.
pub(crate) const RECORDS: &str = "cluster-records";

/// How often a change of limits is repeated when another server changes the same record.
const MAX_ATTEMPTS: u32 = 16;

/// Information on a cluster, for operators.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterInfo {
    /// The id in paths.
    pub id: String,
    /// Differs from that of every other cluster that had the same id. Empty for the default cluster and for clusters
    /// that were adopted from a version without records.
    pub uid: String,
    /// When it was created; for an adopted cluster, when it was adopted.
    pub created_at: Time,
    /// The limits of its storage.
    pub limits: ClusterLimits,
    /// The usage of its storage.
    pub usage: ClusterUsage,
    /// Whether its objects are being deleted; requests to it get 404.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deleting: bool,
}

impl Registry {
    /// Reads all clusters, adopts those that a version without records has stored, and completes deletions that a stop
    /// of the server has interrupted. To be called once, before the first request.
    ///
    /// # Errors
    /// If the store fails, or a record cannot be read.
    pub async fn open_clusters(&self) -> Result<()> {
        self.adopt_clusters().await?;
        self.refresh_clusters().await?;
        for (id, known) in self.directory().all() {
            if known.record.deleting {
                tracing::info!(cluster = &*id, "completing the deletion of a cluster");
                match self.delete_cluster(&id).await {
                    // Another server has completed it.
                    Ok(()) | Err(Error::UnknownCluster { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// Creates an empty cluster. It can be used as soon as this returns; other servers on the same etcd see it some
    /// milliseconds later.
    ///
    /// # Errors
    /// If the id is malformed or exists.
    pub async fn create_cluster(&self, id: &str, limits: LimitsChange) -> Result<ClusterInfo> {
        let problems = dns1123_label(id);
        if !problems.is_empty() {
            let problems = problems.into_iter().map(Into::into).collect();
            return Err(Error::InvalidClusterId { id: id.to_owned(), problems });
        }
        self.refresh_clusters().await?;
        if id == DEFAULT_CLUSTER {
            return Err(Error::ClusterExists { id: id.to_owned(), deleting: false });
        }
        let limits = limits.applied_to(self.default_limits());
        let record = ClusterRecord::new(self.new_uid(), self.now(), limits);
        let put = Put::new(id, record.to_json()).expect(Expect::Absent);
        let revision = match self.records().put(put).await {
            Ok(committed) => committed.revision,
            Err(StoreError::Conflict(conflict)) => {
                let found = conflict.found.as_ref().map(ClusterRecord::read).transpose()?;
                let deleting = found.is_some_and(|found| found.deleting);
                return Err(Error::ClusterExists { id: id.to_owned(), deleting });
            }
            Err(error) => return Err(error.into()),
        };
        let info = ClusterInfo {
            id: id.to_owned(),
            uid: record.uid.clone(),
            created_at: record.created_at,
            limits,
            usage: ClusterUsage::default(),
            deleting: false,
        };
        self.note_committed(id, revision, Some(record));
        Ok(info)
    }

    /// Changes the limits of a cluster. A limit below the usage stops it from growing and deletes nothing.
    ///
    /// # Errors
    /// If there is no such cluster.
    pub async fn set_cluster_limits(&self, id: &str, change: LimitsChange) -> Result<ClusterInfo> {
        self.refresh_clusters().await?;
        let records = self.records();
        for _ in 0..MAX_ATTEMPTS {
            let entry = if is_id(id) { records.get(id).await?.entry } else { None };
            let found = entry.as_ref().map(ClusterRecord::read).transpose()?;
            let record = match found.filter(|found| !found.deleting) {
                Some(found) => found,
                None if id == DEFAULT_CLUSTER => {
                    ClusterRecord::new(String::new(), self.origin_time().await?, ClusterLimits::UNLIMITED)
                }
                None => return Err(Error::UnknownCluster { id: id.to_owned() }),
            };
            let record = ClusterRecord { limits: change.applied_to(record.limits), ..record };
            let expect = entry.map_or(Expect::Absent, |entry| Expect::ModRevision(entry.mod_revision()));
            match records.put(Put::new(id, record.to_json()).expect(expect)).await {
                Ok(committed) => {
                    self.note_committed(id, committed.revision, Some(record));
                    return self.cluster_info(id).await;
                }
                Err(StoreError::Conflict(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let key = format!("{RECORDS}/{id}").into_bytes();
        Err(Error::Store(StoreError::Contention { key, attempts: MAX_ATTEMPTS }))
    }

    /// Information on all clusters: the default cluster first, then the others sorted by id.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn cluster_infos(&self) -> Result<Vec<ClusterInfo>> {
        self.refresh_clusters().await?;
        let mut infos = vec![self.cluster_info(DEFAULT_CLUSTER).await?];
        for (id, known) in self.directory().all() {
            if &*id != DEFAULT_CLUSTER {
                infos.push(self.info(&id, &known.record).await?);
            }
        }
        Ok(infos)
    }

    /// Information on one cluster.
    ///
    /// # Errors
    /// If there is no such cluster.
    pub async fn cluster_info(&self, id: &str) -> Result<ClusterInfo> {
        self.refresh_clusters().await?;
        match self.directory().get_any(id) {
            Some(known) => self.info(id, &known.record).await,
            None if id == DEFAULT_CLUSTER => {
                let record =
                    ClusterRecord::new(String::new(), self.origin_time().await?, ClusterLimits::UNLIMITED);
                self.info(id, &record).await
            }
            None => Err(Error::UnknownCluster { id: id.to_owned() }),
        }
    }

    async fn info(&self, id: &str, record: &ClusterRecord) -> Result<ClusterInfo> {
        let ClusterRecord { uid, created_at, limits, deleting, .. } = record.clone();
        let usage = self.usage().measure(self.all_clusters(), id).await?;
        Ok(ClusterInfo { id: id.to_owned(), uid, created_at, limits, usage, deleting })
    }

    /// Applies changes of clusters by other servers as far as they have arrived.
    ///
    /// # Errors
    /// If the store fails, or a record cannot be read.
    pub async fn refresh_clusters(&self) -> Result<()> {
        self.directory().refresh(self.records()).await
    }

    /// The clusters that were deleted since the last call. The caller frees what it caches of them.
    pub fn take_deleted_clusters(&self) -> Vec<std::sync::Arc<str>> {
        self.directory().take_deleted()
    }

    /// Applies changes of clusters by other servers as they happen, and calls `forget` for each deleted cluster.
    /// Returns only with an error of the store. Cancellation safe.
    ///
    /// # Errors
    /// If the store fails, or so many clusters have changed that events were dropped.
    pub async fn follow_clusters(&self, forget: impl Fn(&str)) -> Result<()> {
        let records = self.records();
        let mut watch = records.watch(WatchRequest::default()).await?;
        self.refresh_clusters().await?;
        loop {
            self.take_deleted_clusters().iter().for_each(|id| forget(id));
            let event = watch.next().await?;
            let Some(key) = event.key() else { continue };
            let id = String::from_utf8_lossy(key).into_owned();
            let found = match &event {
                WatchEvent::Put { entry, .. } => Some(KnownCluster::of(records, &id, entry)?),
                _ => None,
            };
            self.directory().committed(&id, event.revision(), found);
        }
    }

    /// Drops the cached usage of a cluster.
    pub fn forget_usage(&self, id: &str) {
        self.usage().forget(id);
    }

    /// Applies a change of a record by this server; `None` for its deletion.
    fn note_committed(&self, id: &str, revision: Revision, record: Option<ClusterRecord>) {
        let known = record.map(|record| KnownCluster::new(self.records(), id, record, revision));
        self.directory().committed(id, revision, known);
    }
}

/// Whether a text is a well-formed cluster id. Others have no key in the store.
fn is_id(text: &str) -> bool {
    dns1123_label(text).is_empty()
}
