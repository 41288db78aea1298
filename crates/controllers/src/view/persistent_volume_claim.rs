//! View of PersistentVolumeClaims.

use coracle_meta::selector::LabelSelector;
use coracle_meta::selector::labels::Selector;
use coracle_runtime::informer::{Labels, Metadata, ObjectMetadata, View};
use coracle_runtime::{Informer, Manager, Selection};
use serde::{Deserialize, Deserializer};

use super::ObjectView;
use super::pod::Resources;

/// Informer of all claims.
pub(crate) fn claims(manager: &mut Manager) -> Informer<PersistentVolumeClaim> {
    manager.informer(Selection::of::<k8s_openapi::api::core::v1::PersistentVolumeClaim>())
}

/// View of a claim.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PersistentVolumeClaim {
    pub(crate) metadata: ObjectMetadata,
    pub(crate) spec: ClaimSpec,
    pub(crate) status: ClaimStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ClaimSpec {
    pub(crate) access_modes: Box<[Box<str>]>,
    /// Selector of suitable volumes, if there is one.
    #[serde(deserialize_with = "selector")]
    pub(crate) selector: Option<Selector>,
    pub(crate) resources: Resources,
    /// The volume that it is bound to or requests.
    pub(crate) volume_name: Box<str>,
    /// `None` to use the default class.
    pub(crate) storage_class_name: Option<Box<str>>,
    pub(crate) volume_mode: Option<Box<str>>,
    pub(crate) volume_attributes_class_name: Option<Box<str>>,
    /// Data source of the volume; only its presence matters.
    pub(crate) data_source: Option<DataSource>,
}

/// See [`ClaimSpec::data_source`].
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct DataSource {}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ClaimStatus {
    pub(crate) phase: Box<str>,
    pub(crate) access_modes: Box<[Box<str>]>,
    /// Amounts by resource.
    pub(crate) capacity: Labels,
    pub(crate) current_volume_attributes_class_name: Option<Box<str>>,
    pub(crate) modify_volume_status: Modification,
}

/// A change of the volume in progress.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Modification {
    pub(crate) target_volume_attributes_class_name: Option<Box<str>>,
}

/// Validation rejects invalid selectors; one would select nothing.
fn selector<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Selector>, D::Error> {
    let selector = Option::<LabelSelector>::deserialize(from)?;
    Ok(selector.map(|selector| selector.to_selector().unwrap_or_else(|_| Selector::nothing())))
}

impl View for PersistentVolumeClaim {
    fn metadata(&self) -> &Metadata {
        &self.metadata.plain
    }
}

impl ObjectView for PersistentVolumeClaim {
    fn object_metadata(&self) -> &ObjectMetadata {
        &self.metadata
    }
}
