//! Views of kinds that several controllers watch.
//!
//! All controllers share one informer per kind, which [`pods`], [`nodes`] and the like return. A view holds only
//! fields that some controller reads; add others here when needed.

mod condition;
mod deployment;
mod endpoint_slice;
mod endpoints;
mod int_or_string;
mod job;
mod node;
mod persistent_volume;
mod persistent_volume_claim;
mod pod;
mod pod_template;
mod reference;
mod replica_set;
mod service;

pub(crate) use condition::{Condition, condition};
pub(crate) use deployment::{Deployment, DeploymentStatus, StrategyType, deployments};
pub(crate) use endpoint_slice::{
    AddressType, Endpoint, EndpointConditions, EndpointHints, EndpointPort, EndpointSlice, HEADLESS,
    MANAGED_BY, Named, SERVICE_NAME, SLICES_BY_SERVICE, endpoint_slices,
};
pub(crate) use endpoints::{EndpointAddress, EndpointSubset, Endpoints, SubsetPort, endpoints};
pub(crate) use int_or_string::{IntOrString, Rounding};
pub(crate) use job::{
    ExitCodes, Job, JobEnd, JobStatus, PodFailureRule, SuccessRule, UncountedTerminatedPods, jobs,
};
pub(crate) use node::{Node, Taint, nodes};
pub(crate) use persistent_volume::{PersistentVolume, StorageClass, storage_classes, volumes};
pub(crate) use persistent_volume_claim::{PersistentVolumeClaim, claims};
pub(crate) use pod::{
    Container, ContainerStatus, PODS_BY_NODE, Phase, Pod, Toleration, index_by_claim, next_available, pods,
    pods_by_node, pods_of_claim,
};
pub(crate) use pod_template::PodTemplate;
pub(crate) use reference::ObjectReference;
pub(crate) use replica_set::{
    PodSelector, ReplicaSet, Replicated, ReplicatedStatus, ReplicationController, replica_sets,
    replication_controllers,
};
pub(crate) use service::{Service, ServicePort, TargetPort, services};

use coracle_base::Timestamp;
pub(crate) use coracle_runtime::informer::rfc3339;
use coracle_runtime::informer::{ObjectMetadata, PartialObject, View, timestamp};
use serde::{Deserialize, Deserializer, Serializer};

/// Default number of replicas, which the API server sets.
pub(crate) const ONE_REPLICA: i32 = 1;

/// A view with all metadata that controllers need, such as owners and labels.
pub(crate) trait ObjectView: View {
    fn object_metadata(&self) -> &ObjectMetadata;
}

impl ObjectView for PartialObject {
    fn object_metadata(&self) -> &ObjectMetadata {
        &self.metadata
    }
}

/// For `#[serde(with = "optional_time")]`.
pub(crate) mod optional_time {
    use super::{Deserialize, Deserializer, Serializer, Timestamp, rfc3339, timestamp};

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Timestamp>, D::Error> {
        let text = Option::<std::borrow::Cow<'de, str>>::deserialize(from)?;
        Ok(text.map(|text| timestamp(&text)))
    }

    #[expect(clippy::ref_option, reason = "what serde hands over")]
    pub(crate) fn serialize<S: Serializer>(at: &Option<Timestamp>, to: S) -> Result<S::Ok, S::Error> {
        match at {
            Some(at) => to.serialize_str(&rfc3339(*at)),
            None => to.serialize_none(),
        }
    }
}
