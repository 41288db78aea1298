//! The record of the bootstrap: time, seed of UIDs, and digest of the objects.

use coracle_meta::time::Time;
use coracle_store::{Error as StoreError, Expect, Put, Revision};
use serde::{Deserialize, Serialize};

use crate::cluster::Registry;
use crate::error::{Error, Result};

/// Key of the record. No object has this key, because all keys of objects contain a slash.
const KEY: &str = "bootstrap";

/// The stored record.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Record {
    /// Creation time of the bootstrap objects, in seconds since 1970.
    since: i64,
    /// Seed of UIDs, unique to the installation.
    seed: String,
    /// Digest of all objects.
    digest: String,
}

impl Record {
    pub(super) fn since(&self) -> Time {
        Time(self.since)
    }

    pub(super) fn seed(&self) -> &str {
        &self.seed
    }

    pub(super) fn digest(&self) -> &str {
        &self.digest
    }

    pub(super) fn with_digest(self, digest: &str) -> Self {
        Self { digest: digest.to_owned(), ..self }
    }
}

impl Registry {
    /// Time of the first start of the installation.
    pub(crate) async fn origin_time(&self) -> Result<Time> {
        Ok(self.origin().await?.0.since())
    }

    /// The record, and the revision of its last write.
    pub(super) async fn origin(&self) -> Result<(Record, Option<Revision>)> {
        let Some(entry) = self.store().get(KEY).await?.entry else {
            let first = Record { since: self.now().0, seed: self.new_uid(), digest: String::new() };
            return Ok((first, None));
        };
        let record = serde_json::from_slice(&entry.value_bytes())
            .map_err(|error| Error::Corrupt { key: KEY.into(), reason: error.to_string() })?;
        Ok((record, Some(entry.mod_revision())))
    }

    /// Writes the record and returns its revision. None if another server has written it since `revision`.
    pub(super) async fn note(&self, record: &Record, revision: Option<Revision>) -> Result<Option<Revision>> {
        let expect = revision.map_or(Expect::Absent, Expect::ModRevision);
        let json = serde_json::to_vec(record).expect("a record has a JSON");
        match self.store().put(Put::new(KEY, json).expect(expect)).await {
            Ok(committed) => Ok(Some(committed.revision)),
            Err(StoreError::Conflict(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}
