//! The catalog of all built-in kinds.

use crate::kind::{Declaration, Kind};
use crate::kinds::admissionregistration::mutating_admission_policy::MutatingAdmissionPolicy;
use crate::kinds::admissionregistration::mutating_admission_policy_binding::MutatingAdmissionPolicyBinding;
use crate::kinds::admissionregistration::mutating_webhook_configuration::MutatingWebhookConfiguration;
use crate::kinds::admissionregistration::validating_admission_policy::ValidatingAdmissionPolicy;
use crate::kinds::admissionregistration::validating_admission_policy_binding::ValidatingAdmissionPolicyBinding;
use crate::kinds::admissionregistration::validating_webhook_configuration::ValidatingWebhookConfiguration;
use crate::kinds::apiextensions::custom_resource_definition::CustomResourceDefinition;
use crate::kinds::apiregistration::api_service::ApiService;
use crate::kinds::apps::controller_revision::ControllerRevision;
use crate::kinds::apps::daemon_set::DaemonSet;
use crate::kinds::apps::deployment::Deployment;
use crate::kinds::apps::replica_set::ReplicaSet;
use crate::kinds::apps::stateful_set::StatefulSet;
use crate::kinds::authentication::self_subject_review::SelfSubjectReview;
use crate::kinds::authentication::token_review::TokenReview;
use crate::kinds::authorization::local_subject_access_review::LocalSubjectAccessReview;
use crate::kinds::authorization::self_subject_access_review::SelfSubjectAccessReview;
use crate::kinds::authorization::self_subject_rules_review::SelfSubjectRulesReview;
use crate::kinds::authorization::subject_access_review::SubjectAccessReview;
use crate::kinds::autoscaling::horizontal_pod_autoscaler::HorizontalPodAutoscaler;
use crate::kinds::batch::cron_job::CronJob;
use crate::kinds::batch::job::Job;
use crate::kinds::certificates::certificate_signing_request::CertificateSigningRequest;
use crate::kinds::coordination::lease::Lease;
use crate::kinds::core::binding::Binding;
use crate::kinds::core::component_status::ComponentStatus;
use crate::kinds::core::config_map::ConfigMap;
use crate::kinds::core::endpoints::Endpoints;
use crate::kinds::core::event::Event;
use crate::kinds::core::limit_range::LimitRange;
use crate::kinds::core::namespace::Namespace;
use crate::kinds::core::node::Node;
use crate::kinds::core::persistent_volume::PersistentVolume;
use crate::kinds::core::persistent_volume_claim::PersistentVolumeClaim;
use crate::kinds::core::pod::Pod;
use crate::kinds::core::pod_template::PodTemplate;
use crate::kinds::core::replication_controller::ReplicationController;
use crate::kinds::core::resource_quota::ResourceQuota;
use crate::kinds::core::secret::Secret;
use crate::kinds::core::service::Service;
use crate::kinds::core::service_account::ServiceAccount;
use crate::kinds::discovery::endpoint_slice::EndpointSlice;
use crate::kinds::events::event::Event as EventsEvent;
use crate::kinds::flowcontrol::flow_schema::FlowSchema;
use crate::kinds::flowcontrol::priority_level_configuration::PriorityLevelConfiguration;
use crate::kinds::metrics::node_metrics::NodeMetrics;
use crate::kinds::metrics::pod_metrics::PodMetrics;
use crate::kinds::networking::ingress::Ingress;
use crate::kinds::networking::ingress_class::IngressClass;
use crate::kinds::networking::ip_address::IpAddress;
use crate::kinds::networking::network_policy::NetworkPolicy;
use crate::kinds::networking::service_cidr::ServiceCidr;
use crate::kinds::node::runtime_class::RuntimeClass;
use crate::kinds::policy::pod_disruption_budget::PodDisruptionBudget;
use crate::kinds::rbac::cluster_role::ClusterRole;
use crate::kinds::rbac::cluster_role_binding::ClusterRoleBinding;
use crate::kinds::rbac::role::Role;
use crate::kinds::rbac::role_binding::RoleBinding;
use crate::kinds::resource::device_class::DeviceClass;
use crate::kinds::resource::resource_claim::ResourceClaim;
use crate::kinds::resource::resource_claim_template::ResourceClaimTemplate;
use crate::kinds::resource::resource_slice::ResourceSlice;
use crate::kinds::scheduling::priority_class::PriorityClass;
use crate::kinds::storage::csi_driver::CsiDriver;
use crate::kinds::storage::csi_node::CsiNode;
use crate::kinds::storage::csi_storage_capacity::CsiStorageCapacity;
use crate::kinds::storage::storage_class::StorageClass;
use crate::kinds::storage::volume_attachment::VolumeAttachment;
use crate::kinds::storage::volume_attributes_class::VolumeAttributesClass;

/// All built-in kinds, in the order in which discovery lists their groups. A new kind is one file and one line here.
pub static BUILT_IN: &[&dyn Kind] = &[
    &Binding,
    &ComponentStatus,
    &ConfigMap,
    &Endpoints,
    &Event,
    &LimitRange,
    &Namespace,
    &Node,
    &PersistentVolume,
    &PersistentVolumeClaim,
    &Pod,
    &PodTemplate,
    &ReplicationController,
    &ResourceQuota,
    &Secret,
    &Service,
    &ServiceAccount,
    &ApiService,
    &ControllerRevision,
    &DaemonSet,
    &Deployment,
    &ReplicaSet,
    &StatefulSet,
    &EventsEvent,
    &SelfSubjectReview,
    &TokenReview,
    &LocalSubjectAccessReview,
    &SelfSubjectAccessReview,
    &SelfSubjectRulesReview,
    &SubjectAccessReview,
    &HorizontalPodAutoscaler,
    &CronJob,
    &Job,
    &CertificateSigningRequest,
    &Ingress,
    &IngressClass,
    &IpAddress,
    &NetworkPolicy,
    &ServiceCidr,
    &PodDisruptionBudget,
    &ClusterRole,
    &ClusterRoleBinding,
    &Role,
    &RoleBinding,
    &CsiDriver,
    &CsiNode,
    &CsiStorageCapacity,
    &StorageClass,
    &VolumeAttachment,
    &VolumeAttributesClass,
    &MutatingAdmissionPolicy,
    &MutatingAdmissionPolicyBinding,
    &MutatingWebhookConfiguration,
    &ValidatingAdmissionPolicy,
    &ValidatingAdmissionPolicyBinding,
    &ValidatingWebhookConfiguration,
    &CustomResourceDefinition,
    &PriorityClass,
    &Lease,
    &RuntimeClass,
    &EndpointSlice,
    &DeviceClass,
    &ResourceClaim,
    &ResourceClaimTemplate,
    &ResourceSlice,
    &FlowSchema,
    &PriorityLevelConfiguration,
    &NodeMetrics,
    &PodMetrics,
];

/// Looks up a built-in kind by group, version and plural name, as in a path.
pub fn find(group: &str, version: &str, plural: &str) -> Option<&'static dyn Kind> {
    BUILT_IN.iter().copied().find(|kind| {
        let declaration = kind.declaration();
        declaration.plural == plural
            && declaration.group == group
            && declaration.versions.iter().any(|served| served == version)
    })
}

/// Looks up a built-in kind by group, version and kind.
pub fn find_named(group: &str, version: &str, kind: &str) -> Option<&'static dyn Kind> {
    BUILT_IN.iter().copied().find(|known| known.declaration().is_named(group, version, kind))
}

/// Other kinds that represent the same stored objects, such as the Events of two groups.
pub fn same_objects(declaration: &Declaration) -> impl Iterator<Item = &'static dyn Kind> {
    BUILT_IN.iter().copied().filter(|kind| {
        let other = kind.declaration();
        other.plural == declaration.plural
            && other.group != declaration.group
            && other.storage_api_version() == declaration.storage_api_version()
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use coracle_api::codec::protobuf::{TextEncoder, encode_message};
    use coracle_meta::time::Time;
    use serde_json::Value;

    use super::*;
    use crate::samples::{Refused, errors_on_create, errors_on_update, warnings_on};

    /// The expected number of cells: one per column. Rows of IPAddresses have one more, as in kube-apiserver.
    fn cell_count(kind: &dyn Kind) -> usize {
        let declaration = kind.declaration();
        declaration.columns.len() + usize::from(declaration.kind == "IPAddress")
    }

    #[test]
    fn names_are_unique() {
        let mut seen = HashSet::new();
        for kind in BUILT_IN {
            let declaration = kind.declaration();
            for version in declaration.versions.iter() {
                assert!(
                    seen.insert(format!("{}/{version}", declaration.group_resource())),
                    "{declaration:?}"
                );
            }
        }
    }

    #[test]
    fn valid_samples_are_accepted_and_defaults_are_idempotent() {
        for kind in BUILT_IN {
            let samples = kind.samples();
            let name = kind.declaration().group_resource();
            assert!(!samples.valid.is_empty(), "{name} has no sample");
            for sample in &samples.valid {
                let errors = errors_on_create(*kind, sample);
                assert!(errors.is_empty(), "{name}: {errors:?} for {sample}");
                let mut once = sample.clone();
                kind.set_defaults(&mut once);
                let mut twice = once.clone();
                kind.set_defaults(&mut twice);
                assert_eq!(once, twice, "{name}: defaults of defaults");
                let cells = kind.cells(&once, 1_700_000_000);
                assert_eq!(cells.len(), cell_count(*kind), "{name}: a cell for each column");
            }
            for patch in &samples.updates {
                let errors = errors_on_update(*kind, &samples.valid[0], patch);
                assert!(errors.is_empty(), "{name}: {errors:?} for the update {patch}");
            }
        }
    }

    #[test]
    fn protobuf_of_stored_json_equals_protobuf_of_its_tree() {
        let mut encoder = TextEncoder::default();
        for kind in BUILT_IN {
            for version in kind.declaration().versions.iter() {
                let Some(id) = kind.type_id(version) else { continue };
                for mut object in kind.samples().valid {
                    kind.set_defaults(&mut object);
                    let object = kind.convert_out(version, object);
                    let (text, mut message) = (crate::encode::json(&object), Vec::new());
                    assert!(encoder.encode(&text, id, &mut message), "{text:?}");
                    assert_eq!(message, encode_message(&object, id), "{text:?}");
                }
            }
        }
    }

    #[test]
    fn invalid_samples_are_rejected_with_the_expected_reason() {
        for kind in BUILT_IN {
            let samples = kind.samples();
            let name = kind.declaration().group_resource();
            for refused in &samples.invalid {
                let errors = errors_on_create(*kind, &refused.object);
                let found = errors
                    .iter()
                    .any(|error| error.field == refused.field && error.kind.reason() == refused.reason);
                assert!(found, "{name}: wanted {} at {:?}, got {errors:?}", refused.reason, refused.field);
            }
            for refused in &samples.invalid_updates {
                let errors = errors_on_update(*kind, &samples.valid[0], &refused.object);
                let found = errors
                    .iter()
                    .any(|error| error.field == refused.field && error.kind.reason() == refused.reason);
                assert!(found, "{name}: wanted {} at {:?}, got {errors:?}", refused.reason, refused.field);
            }
        }
    }

    #[test]
    fn stored_invalid_values_are_tolerated_on_update() {
        let mut wrong = Vec::new();
        for kind in BUILT_IN {
            let name = kind.declaration().group_resource();
            for stored in kind.stored_samples() {
                let object = &stored.object;
                if errors_on_create(*kind, object).is_empty() {
                    wrong.push(format!("{name}: nothing is wrong with {object}"));
                }
                for patch in &stored.updates {
                    let errors = errors_on_update(*kind, object, patch);
                    if !errors.is_empty() {
                        wrong.push(format!("{name}: {errors} for the update {patch} of {object}"));
                    }
                }
                for Refused { object: patch, field, reason } in &stored.invalid_updates {
                    let errors = errors_on_update(*kind, object, patch);
                    if !errors.iter().any(|error| error.field == *field && error.kind.reason() == *reason) {
                        wrong.push(format!("{name}: wanted {reason} at {field}, got {errors} for {patch}"));
                    }
                }
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    }

    #[test]
    fn warned_samples_give_the_expected_warnings() {
        for kind in BUILT_IN {
            let name = kind.declaration().group_resource();
            for write in kind.warned_samples() {
                assert_eq!(warnings_on(*kind, &write), write.warnings, "{name}: {}", write.object);
            }
        }
    }

    /// All copies of an object that lack one field at any depth.
    fn lacking_one(object: &Value) -> Vec<Value> {
        let mut found = Vec::new();
        match object {
            Value::Object(fields) => {
                for (name, value) in fields {
                    let mut lacking = fields.clone();
                    lacking.remove(name);
                    found.push(Value::Object(lacking));
                    for value in lacking_one(value) {
                        let mut changed = fields.clone();
                        changed.insert(name.clone(), value);
                        found.push(Value::Object(changed));
                    }
                }
            }
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    let mut lacking = items.clone();
                    lacking.remove(index);
                    found.push(Value::Array(lacking));
                    for item in lacking_one(item) {
                        let mut changed = items.clone();
                        changed[index] = item;
                        found.push(Value::Array(changed));
                    }
                }
            }
            _ => {}
        }
        found
    }

    #[test]
    fn hooks_accept_absent_fields() {
        for kind in BUILT_IN {
            let declaration = kind.declaration();
            let samples = kind.samples();
            let first = &samples.valid[0];
            for object in samples.valid.iter().flat_map(lacking_one) {
                let _ = errors_on_create(*kind, &object);
                let _ = errors_on_update(*kind, first, &object);
                let _ = errors_on_update(*kind, &object, first);
                let mut once = object.clone();
                kind.set_defaults(&mut once);
                let mut twice = once.clone();
                kind.set_defaults(&mut twice);
                assert_eq!(once, twice, "{}: defaults of defaults", declaration.group_resource());
                let mut status = once.clone();
                kind.prepare_for_status_update(&mut status, first, Time(0));
                kind.validate_status_update(&status, first, &mut Default::default());
                let _ = kind.warnings(&once, None);
                let _ = kind.warnings(&once, Some(first));
                let _ = kind.status_warnings(&once);
                assert_eq!(kind.cells(&object, 0).len(), cell_count(*kind));
                for field in &declaration.selectable_fields {
                    let _ = kind.selectable_value(&object, field);
                }
            }
        }
    }
}
