//! The record of a cluster: id, creation time and limits.

use coracle_meta::time::Time;
use coracle_store::Entry;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The format of records. A server rejects records of a later format instead of misreading them.
const FORMAT: u32 = 1;

/// Limits of what a cluster may store; `None` is unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterLimits {
    /// Bytes of keys and values.
    pub max_bytes: Option<u64>,
    /// Stored objects. Addresses and ports that are allocated to an object count as objects, too.
    pub max_objects: Option<u64>,
}

impl ClusterLimits {
    /// No limit.
    pub const UNLIMITED: Self = Self { max_bytes: None, max_objects: None };

    /// Default limits of new clusters: a cluster of some thousand pods uses a tenth of both, and 100 clusters at
    /// their limit still fit on a common disk and into the memory of a server.
    pub const OF_CREATED_CLUSTERS: Self = Self { max_bytes: Some(1 << 30), max_objects: Some(200_000) };

    pub(crate) fn is_unlimited(&self) -> bool {
        *self == Self::UNLIMITED
    }
}

/// A change of limits. `None` leaves a limit as it is, `Some(None)` removes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitsChange {
    /// See [`ClusterLimits::max_bytes`].
    pub max_bytes: Option<Option<u64>>,
    /// See [`ClusterLimits::max_objects`].
    pub max_objects: Option<Option<u64>>,
}

impl LimitsChange {
    /// The limits after the change.
    pub fn applied_to(&self, limits: ClusterLimits) -> ClusterLimits {
        ClusterLimits {
            max_bytes: self.max_bytes.unwrap_or(limits.max_bytes),
            max_objects: self.max_objects.unwrap_or(limits.max_objects),
        }
    }
}

/// The stored record of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClusterRecord {
    pub(crate) format: u32,
    /// Empty for the default cluster, and for clusters that were adopted from a version without records: their
    /// credentials name no uid.
    pub(crate) uid: String,
    pub(crate) created_at: Time,
    pub(crate) limits: ClusterLimits,
    /// Whether the objects are being deleted; the record is deleted last.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) deleting: bool,
}

impl ClusterRecord {
    pub(crate) fn new(uid: String, created_at: Time, limits: ClusterLimits) -> Self {
        Self { format: FORMAT, uid, created_at, limits, deleting: false }
    }

    pub(crate) fn read(entry: &Entry) -> Result<Self> {
        let corrupt = |reason: String| Error::Corrupt {
            key: format!("{}/{}", super::RECORDS, String::from_utf8_lossy(entry.key())),
            reason,
        };
        let record: Self =
            serde_json::from_slice(&entry.value_bytes()).map_err(|error| corrupt(error.to_string()))?;
        if record.format > FORMAT {
            return Err(corrupt(format!("its format {} is newer than this program", record.format)));
        }
        Ok(record)
    }

    pub(crate) fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a record has only strings, numbers and flags")
    }
}

#[cfg(test)]
mod tests {
    use coracle_store::{EntryParts, Revision};

    use super::*;

    fn entry(json: impl Into<Vec<u8>>) -> Entry {
        Entry::from_parts(&EntryParts {
            key: "t1".into(),
            value: json.into().into(),
            stamp: None,
            create_revision: Revision::new(1),
            mod_revision: Revision::new(1),
            version: 1,
            expires_at: None,
        })
    }

    #[test]
    fn record_written_is_read_back() {
        let limits = ClusterLimits { max_bytes: Some(7), max_objects: None };
        let mut record = ClusterRecord::new("u".to_owned(), Time(0), limits);
        assert_eq!(ClusterRecord::read(&entry(record.to_json())).unwrap(), record);
        record.deleting = true;
        assert_eq!(ClusterRecord::read(&entry(record.to_json())).unwrap(), record);
    }

    #[test]
    fn record_of_a_later_format_is_rejected() {
        let json = ClusterRecord::new(String::new(), Time(0), ClusterLimits::UNLIMITED).to_json();
        let later = String::from_utf8(json).unwrap().replace("\"format\":1", "\"format\":2");
        let error = ClusterRecord::read(&entry(later)).unwrap_err();
        assert!(error.to_string().contains("newer than this program"), "{error}");
        assert!(ClusterRecord::read(&entry("{}")).is_err());
    }

    #[test]
    fn change_of_limits_leaves_those_that_it_does_not_name() {
        let before = ClusterLimits { max_bytes: Some(1), max_objects: Some(2) };
        assert_eq!(LimitsChange::default().applied_to(before), before);
        let change = LimitsChange { max_bytes: Some(None), max_objects: None };
        assert_eq!(change.applied_to(before), ClusterLimits { max_bytes: None, max_objects: Some(2) });
    }
}
