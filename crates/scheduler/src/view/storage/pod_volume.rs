//! Volumes in pod specs.

use serde::Deserialize;
use serde::de::IgnoredAny;

/// A volume of a pod that restricts the nodes it can run on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PodVolume {
    /// A PersistentVolumeClaim of this name.
    Claim(Box<str>),
    /// The claim of a generic ephemeral volume.
    Ephemeral(Box<str>),
    /// An in-tree disk that may not be used by several nodes.
    Disk(Disk),
}

impl PodVolume {
    /// The name of the claim, if there is one.
    pub(crate) fn claim_name(&self) -> Option<&str> {
        match self {
            Self::Claim(name) | Self::Ephemeral(name) => Some(name),
            Self::Disk(_) => None,
        }
    }
}

/// An in-tree disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Disk {
    Gce { name: Box<str>, read_only: bool },
    Aws { id: Box<str> },
    Iscsi { iqn: Box<str>, read_only: bool },
    Rbd { monitors: Box<[Box<str>]>, pool: Box<str>, image: Box<str>, read_only: bool },
}

impl Disk {
    /// True if both are the same disk and at least one use does not allow sharing.
    pub(crate) fn conflicts_with(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Gce { name: a, read_only: x }, Self::Gce { name: b, read_only: y })
            | (Self::Iscsi { iqn: a, read_only: x }, Self::Iscsi { iqn: b, read_only: y }) => {
                a == b && !(*x && *y)
            }
            (Self::Aws { id: a }, Self::Aws { id: b }) => a == b,
            (
                Self::Rbd { monitors, pool, image, read_only },
                Self::Rbd {
                    monitors: others,
                    pool: other_pool,
                    image: other_image,
                    read_only: other_read_only,
                },
            ) => {
                monitors.iter().any(|monitor| others.contains(monitor))
                    && pool == other_pool
                    && image == other_image
                    && !(*read_only && *other_read_only)
            }
            _ => false,
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(in crate::view) struct RawVolume {
    name: Box<str>,
    persistent_volume_claim: Option<RawClaim>,
    ephemeral: Option<IgnoredAny>,
    image: Option<RawImage>,
    gce_persistent_disk: Option<RawGce>,
    aws_elastic_block_store: Option<RawAws>,
    iscsi: Option<RawIscsi>,
    rbd: Option<RawRbd>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawClaim {
    claim_name: Box<str>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawImage {
    reference: Box<str>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawGce {
    pd_name: Box<str>,
    read_only: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawAws {
    #[serde(rename = "volumeID")]
    volume_id: Box<str>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawIscsi {
    iqn: Box<str>,
    read_only: bool,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawRbd {
    monitors: Box<[Box<str>]>,
    pool: Box<str>,
    image: Box<str>,
    read_only: bool,
}

impl RawVolume {
    /// The image of an image volume.
    pub(in crate::view) fn image(&self) -> Option<&str> {
        self.image.as_ref().map(|image| &*image.reference)
    }

    /// Parses the volume for a pod of this name; none if it does not restrict scheduling.
    pub(in crate::view) fn parse(self, pod: &str) -> Option<PodVolume> {
        if let Some(claim) = self.persistent_volume_claim {
            return Some(PodVolume::Claim(claim.claim_name));
        }
        if self.ephemeral.is_some() {
            return Some(PodVolume::Ephemeral(format!("{pod}-{}", self.name).into()));
        }
        let gce =
            self.gce_persistent_disk.map(|disk| Disk::Gce { name: disk.pd_name, read_only: disk.read_only });
        let aws = self.aws_elastic_block_store.map(|disk| Disk::Aws { id: disk.volume_id });
        let iscsi = self.iscsi.map(|disk| Disk::Iscsi { iqn: disk.iqn, read_only: disk.read_only });
        let rbd = self.rbd.map(|RawRbd { monitors, pool, image, read_only }| Disk::Rbd {
            monitors,
            pool,
            image,
            read_only,
        });
        gce.or(aws).or(iscsi).or(rbd).map(PodVolume::Disk)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn volume(value: Value) -> Option<PodVolume> {
        serde_json::from_value::<RawVolume>(value).unwrap().parse("pod")
    }

    #[test]
    fn only_volumes_that_restrict_scheduling_are_kept() {
        assert_eq!(volume(json!({"name": "v", "emptyDir": {}})), None);
        let claim = volume(json!({"name": "v", "persistentVolumeClaim": {"claimName": "c"}})).unwrap();
        assert_eq!(claim.claim_name(), Some("c"));
        let own = volume(json!({"name": "v", "ephemeral": {"volumeClaimTemplate": {}}})).unwrap();
        assert_eq!(own.claim_name(), Some("pod-v"));
    }

    #[test]
    fn disk_is_shared_by_readers_only() {
        let disk = |value| match volume(value) {
            Some(PodVolume::Disk(disk)) => disk,
            other => panic!("{other:?}"),
        };
        let gce = |name: &str, read_only: bool| {
            disk(json!({"gcePersistentDisk": {"pdName": name, "readOnly": read_only}}))
        };
        assert!(gce("a", false).conflicts_with(&gce("a", true)));
        assert!(
            !gce("a", true).conflicts_with(&gce("a", true))
                && !gce("a", false).conflicts_with(&gce("b", false))
        );
        let aws = || disk(json!({"awsElasticBlockStore": {"volumeID": "v"}}));
        assert!(aws().conflicts_with(&aws()) && !aws().conflicts_with(&gce("v", false)));
        let rbd =
            |monitor: &str| disk(json!({"rbd": {"monitors": ["m", monitor], "pool": "p", "image": "i"}}));
        assert!(rbd("x").conflicts_with(&rbd("y")));
    }
}
