//! Adoption of clusters that were stored by a version without cluster records: each gets a record.

use coracle_store::{Error as StoreError, Expect, Put, RangeRequest, Store};

use super::record::ClusterRecord;
use super::{ClusterLimits, DEFAULT_CLUSTER};
use crate::cluster::Registry;
use crate::error::Result;

/// Key that exists once all clusters have records, so that a start need not scan all clusters.
const ADOPTED: &str = "clusters-adopted";

/// The byte after the separator `/` that ends the id of a cluster in a key.
const BEHIND_ID: char = '0';

impl Registry {
    /// Writes a record for each cluster that has objects and no record, once in the life of a store.
    ///
    /// An adopted cluster has no uid, as its credentials, and no limits, since it may be over any.
    pub(super) async fn adopt_clusters(&self) -> Result<()> {
        if self.store().get(ADOPTED).await?.entry.is_some() {
            return Ok(());
        }
        let (clusters, records) = (self.all_clusters(), self.records());
        let mut from = String::new();
        while let Some(id) = next_id(clusters, &from).await? {
            from = format!("{id}{BEHIND_ID}");
            if id == DEFAULT_CLUSTER {
                continue;
            }
            let record = ClusterRecord::new(String::new(), self.now(), ClusterLimits::UNLIMITED);
            match records.put(Put::new(id.as_str(), record.to_json()).expect(Expect::Absent)).await {
                Ok(_) => tracing::info!(
                    cluster = id,
                    "adopted a cluster of an earlier version, without limits; coracle cluster set-limits sets some"
                ),
                // The cluster has a record already.
                Err(StoreError::Conflict(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.store().put(Put::new(ADOPTED, "{\"format\":1}")).await?;
        Ok(())
    }
}

/// The first cluster id that is not less than `from` and has a key.
async fn next_id(clusters: &Store, from: &str) -> Result<Option<String>> {
    let range = clusters.range(RangeRequest::default().start(from).limit(1)).await?;
    let Some(first) = range.entries.first() else { return Ok(None) };
    let key = String::from_utf8_lossy(first.key());
    Ok(key.split_once('/').map(|(id, _)| id.to_owned()))
}
