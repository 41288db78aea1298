//! Ratcheting validation: rules that stored objects may continue to violate in updates, because the rule is newer
//! than they are.
//!
//! A check marks its errors with the rule (`ErrorList::ratcheted`), and [`crate::Kind::revalidate`] drops those that
//! the rule permits. The rules here follow from the validation options of kube-apiserver and its comparisons with the
//! old object.

use coracle_meta::field::Ratchet;

/// Invalid label values in the expressions of a label selector.
pub(crate) const SELECTOR_VALUE: Ratchet = Ratchet::Broken("values in label selectors");
/// Invalid label values in required node affinity.
pub(crate) const NODE_AFFINITY_VALUE: Ratchet = Ratchet::Broken("values in required node affinity");
/// The selector of a topology spread constraint.
pub(crate) const SPREAD_SELECTOR: Ratchet = Ratchet::Broken("selectors of topology spread constraints");
/// The label keys of a topology spread constraint.
pub(crate) const SPREAD_LABEL_KEYS: Ratchet = Ratchet::Broken("label keys of topology spread constraints");
/// Huge page quantities that are not a multiple of the page size.
pub(crate) const WHOLE_HUGE_PAGES: Ratchet = Ratchet::Broken("whole huge pages");
/// The path of a projected service account token.
pub(crate) const TOKEN_PATH: Ratchet = Ratchet::Broken("paths of projected tokens");
/// Namespaced sysctls of a pod that uses the host's namespace.
pub(crate) const HOST_SYSCTLS: Ratchet = Ratchet::Broken("sysctls of the host's namespaces");
/// Block devices in a pod with a user namespace.
pub(crate) const DEVICES_OF_OWN_USERS: Ratchet = Ratchet::Broken("devices in user namespaces");
/// The pod deletion cost.
pub(crate) const DELETION_COST: Ratchet = Ratchet::Broken("deletion costs");
/// The template of a StatefulSet, which early versions did not validate.
pub(crate) const STATEFUL_SET_TEMPLATE: Ratchet = Ratchet::Broken("templates of stateful sets");
/// The API group of a claim's data source.
pub(crate) const DATA_SOURCE_GROUP: Ratchet = Ratchet::Broken("groups of data sources");
/// CIDRs in fields that are older than strict CIDR validation.
pub(crate) const CIDR: Ratchet = Ratchet::Kept("blocks of addresses");
/// The same for external IPs.
pub(crate) const EXTERNAL_IP: Ratchet = Ratchet::Kept("external addresses");
/// The same for cluster IPs.
pub(crate) const CLUSTER_IP: Ratchet = Ratchet::Kept("cluster addresses");
/// The same for load balancer IPs.
pub(crate) const LOAD_BALANCER_IP: Ratchet = Ratchet::Kept("load balancer addresses");
/// `minReplicas` of an autoscaler.
pub(crate) const MIN_REPLICAS: Ratchet = Ratchet::Broken("minimum of replicas");
/// `apiVersion` of the described object of a metric.
pub(crate) const METRIC_OBJECT_VERSION: Ratchet = Ratchet::Broken("versions of described objects");
/// `apiVersion` of the scale target.
pub(crate) const SCALE_TARGET_VERSION: Ratchet =
    Ratchet::Unchanged(&[&["spec", "scaleTargetRef", "apiVersion"], &["spec", "scaleTargetRef", "kind"]]);
/// The time zone of a schedule; the time zone database may have renamed it.
pub(crate) const TIME_ZONE: Ratchet = Ratchet::Unchanged(&[&["spec", "timeZone"]]);
/// Time zones within a schedule.
pub(crate) const ZONE_IN_SCHEDULE: Ratchet = Ratchet::Broken("time zones in schedules");
/// Names of TLS secrets.
pub(crate) const TLS_SECRET_NAME: Ratchet = Ratchet::Broken("names of secrets for TLS");
/// Rules of hosts with a wildcard.
pub(crate) const WILDCARD_HOST_RULE: Ratchet = Ratchet::Broken("rules of wildcard hosts");
/// `sideEffects` of a webhook.
pub(crate) const SIDE_EFFECTS: Ratchet = Ratchet::Broken("side effects of webhooks");
/// `admissionReviewVersions` of a webhook.
pub(crate) const REVIEW_VERSIONS: Ratchet = Ratchet::Broken("versions of admission reviews");
/// Duplicate names of webhooks.
pub(crate) const WEBHOOK_NAMES: Ratchet = Ratchet::Broken("unique names of webhooks");
/// `matchConditions` of webhooks and policies.
pub(crate) const MATCH_CONDITIONS: Ratchet = Ratchet::Kept("match conditions");
/// Size of the opaque parameters of devices.
pub(crate) const PARAMETERS_SIZE: Ratchet =
    Ratchet::Unchanged(&[&["spec", "config"], &["spec", "spec", "devices", "config"]]);
/// Device taints.
pub(crate) const DEVICE_TAINTS: Ratchet = Ratchet::Kept("taints of devices");
/// A certificate signing request that is both approved and denied.
pub(crate) const APPROVED_AND_DENIED: Ratchet = Ratchet::Broken("either approved or denied");
/// Duplicate condition types.
pub(crate) const CONDITION_TWICE: Ratchet = Ratchet::Broken("one condition of a type");
/// Conditions without a type.
pub(crate) const CONDITION_TYPE: Ratchet = Ratchet::Broken("types of conditions");
/// The certificate issued by a signer.
pub(crate) const CERTIFICATE: Ratchet = Ratchet::Unchanged(&[&["status", "certificate"]]);
/// The addresses of Endpoints.
pub(crate) const SUBSETS: Ratchet = Ratchet::Unchanged(&[&["subsets"]]);
/// The endpoints of an EndpointSlice.
pub(crate) const ENDPOINTS: Ratchet = Ratchet::Unchanged(&[&["endpoints"]]);
/// The source ranges in the annotation of a Service.
pub(crate) const SOURCE_RANGES_ANNOTATION: Ratchet = Ratchet::Unchanged(&[&[
    "metadata",
    "annotations",
    "service.beta.kubernetes.io/load-balancer-source-ranges",
]]);
/// The legacy signer of requests without a signer name.
pub(crate) const LEGACY_SIGNER: Ratchet = Ratchet::Broken("the legacy signer");
/// Duplicate usages.
pub(crate) const USAGE_TWICE: Ratchet = Ratchet::Broken("each usage once");
/// Unknown usages.
pub(crate) const KNOWN_USAGES: Ratchet = Ratchet::Broken("known usages");
