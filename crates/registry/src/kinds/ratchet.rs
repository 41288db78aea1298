//! The rules that objects need not keep to which were stored before there were such rules.
//!
//! A check says which of these it is about (`ErrorList::ratcheted`), and [`crate::Kind::revalidate`] does the
//! rest. What is here is what upstream's validation options and comparisons with the old object come to.

use coracle_meta::field::Ratchet;

/// Values in the expressions of a label selector that no label can have.
pub(crate) const SELECTOR_VALUE: Ratchet = Ratchet::Broken("values in label selectors");
/// Values in what a node is required to have that no label can have.
pub(crate) const NODE_AFFINITY_VALUE: Ratchet = Ratchet::Broken("values in required node affinity");
/// The selector of a topology spread constraint.
pub(crate) const SPREAD_SELECTOR: Ratchet = Ratchet::Broken("selectors of topology spread constraints");
/// The label keys of a topology spread constraint.
pub(crate) const SPREAD_LABEL_KEYS: Ratchet = Ratchet::Broken("label keys of topology spread constraints");
/// Amounts of huge pages that are not so many pages.
pub(crate) const WHOLE_HUGE_PAGES: Ratchet = Ratchet::Broken("whole huge pages");
/// Where a projected token lies.
pub(crate) const TOKEN_PATH: Ratchet = Ratchet::Broken("paths of projected tokens");
/// Sysctls of namespaces that are the host's.
pub(crate) const HOST_SYSCTLS: Ratchet = Ratchet::Broken("sysctls of the host's namespaces");
/// Block devices in a pod with users of its own.
pub(crate) const DEVICES_OF_OWN_USERS: Ratchet = Ratchet::Broken("devices in user namespaces");
/// What it costs to delete a pod.
pub(crate) const DELETION_COST: Ratchet = Ratchet::Broken("deletion costs");
/// The template of a StatefulSet, which was once not validated.
pub(crate) const STATEFUL_SET_TEMPLATE: Ratchet = Ratchet::Broken("templates of stateful sets");
/// The group of what a claim gets its data from.
pub(crate) const DATA_SOURCE_GROUP: Ratchet = Ratchet::Broken("groups of data sources");
/// Blocks of addresses in fields that are older than the strict forms.
pub(crate) const CIDR: Ratchet = Ratchet::Kept("blocks of addresses");
/// The same for addresses from outside of the cluster.
pub(crate) const EXTERNAL_IP: Ratchet = Ratchet::Kept("external addresses");
/// The same for addresses of services.
pub(crate) const CLUSTER_IP: Ratchet = Ratchet::Kept("cluster addresses");
/// The same for addresses of load balancers.
pub(crate) const LOAD_BALANCER_IP: Ratchet = Ratchet::Kept("load balancer addresses");
/// How few pods an autoscaler may leave.
pub(crate) const MIN_REPLICAS: Ratchet = Ratchet::Broken("minimum of replicas");
/// The version of what a metric is about.
pub(crate) const METRIC_OBJECT_VERSION: Ratchet = Ratchet::Broken("versions of described objects");
/// The version of what is scaled.
pub(crate) const SCALE_TARGET_VERSION: Ratchet =
    Ratchet::Unchanged(&[&["spec", "scaleTargetRef", "apiVersion"], &["spec", "scaleTargetRef", "kind"]]);
/// The time zone of a schedule, which may have been renamed.
pub(crate) const TIME_ZONE: Ratchet = Ratchet::Unchanged(&[&["spec", "timeZone"]]);
/// Time zones within a schedule.
pub(crate) const ZONE_IN_SCHEDULE: Ratchet = Ratchet::Broken("time zones in schedules");
/// The names of secrets with certificates.
pub(crate) const TLS_SECRET_NAME: Ratchet = Ratchet::Broken("names of secrets for TLS");
/// What is said of hosts with a wildcard.
pub(crate) const WILDCARD_HOST_RULE: Ratchet = Ratchet::Broken("rules of wildcard hosts");
/// What a webhook does beside answering.
pub(crate) const SIDE_EFFECTS: Ratchet = Ratchet::Broken("side effects of webhooks");
/// The versions of reviews that a webhook understands.
pub(crate) const REVIEW_VERSIONS: Ratchet = Ratchet::Broken("versions of admission reviews");
/// Webhooks of the same name.
pub(crate) const WEBHOOK_NAMES: Ratchet = Ratchet::Broken("unique names of webhooks");
/// Conditions on what is sent to a webhook or looked at by a policy.
pub(crate) const MATCH_CONDITIONS: Ratchet = Ratchet::Kept("match conditions");
/// How long the parameters of devices are.
pub(crate) const PARAMETERS_SIZE: Ratchet =
    Ratchet::Unchanged(&[&["spec", "config"], &["spec", "spec", "devices", "config"]]);
/// What keeps others away from a device.
pub(crate) const DEVICE_TAINTS: Ratchet = Ratchet::Kept("taints of devices");
/// A request that was approved and denied.
pub(crate) const APPROVED_AND_DENIED: Ratchet = Ratchet::Broken("either approved or denied");
/// Conditions of the same type.
pub(crate) const CONDITION_TWICE: Ratchet = Ratchet::Broken("one condition of a type");
/// Conditions without a type.
pub(crate) const CONDITION_TYPE: Ratchet = Ratchet::Broken("types of conditions");
/// What a signer has written.
pub(crate) const CERTIFICATE: Ratchet = Ratchet::Unchanged(&[&["status", "certificate"]]);
/// The addresses of Endpoints.
pub(crate) const SUBSETS: Ratchet = Ratchet::Unchanged(&[&["subsets"]]);
/// The endpoints of an EndpointSlice.
pub(crate) const ENDPOINTS: Ratchet = Ratchet::Unchanged(&[&["endpoints"]]);
/// The ranges that a service names in an annotation.
pub(crate) const SOURCE_RANGES_ANNOTATION: Ratchet = Ratchet::Unchanged(&[&[
    "metadata",
    "annotations",
    "service.beta.kubernetes.io/load-balancer-source-ranges",
]]);
/// The signer of requests that named none.
pub(crate) const LEGACY_SIGNER: Ratchet = Ratchet::Broken("the legacy signer");
/// The same usage twice.
pub(crate) const USAGE_TWICE: Ratchet = Ratchet::Broken("each usage once");
/// Usages that nobody knows.
pub(crate) const KNOWN_USAGES: Ratchet = Ratchet::Broken("known usages");
