//! CEL validation rules in the style of operators.

use serde_json::{Value, json};

/// An expression and its message.
pub(super) type Rule = (&'static str, &'static str);

pub(super) const NAME_LENGTH: Rule = ("size(self.metadata.name) <= 52", "metadata.name is too long");

/// Rules of the whole spec.
pub(super) const SPEC: [Rule; 9] = [
    (
        "!has(self.minReplicas) || !has(self.maxReplicas) || self.minReplicas <= self.maxReplicas",
        "minReplicas must not exceed maxReplicas",
    ),
    ("!has(self.maxReplicas) || self.replicas <= self.maxReplicas", "replicas must not exceed maxReplicas"),
    ("self.mode != 'Standalone' || self.replicas <= 1", "a standalone instance has one replica"),
    (
        "!has(self.tls) || !self.tls.enabled || has(self.tls.secretName) || has(self.tls.issuerRef)",
        "tls needs a secretName or an issuerRef",
    ),
    ("!has(oldSelf.storage) || has(self.storage)", "storage cannot be removed"),
    ("!has(self.config) || self.config.all(key, !key.startsWith('internal.'))", "config has reserved keys"),
    ("!has(self.users) || self.users.exists(user, user.admin)", "one of the users must be an administrator"),
    ("!has(self.image) || !self.image.endsWith(':latest')", "image must have a fixed tag"),
    (
        "!has(self.backups) || self.backups.all(one, !one.suspended || has(one.reason))",
        "a suspended backup needs a reason",
    ),
];

pub(super) const STORAGE: [Rule; 2] = [
    (
        "type(self.size) == string ? quantity(self.size).isGreaterThan(quantity('0')) : self.size > 0",
        "size must be positive",
    ),
    (
        "!has(oldSelf.storageClassName) || (has(self.storageClassName) && self.storageClassName == oldSelf.storageClassName)",
        "storageClassName is immutable",
    ),
];

pub(super) const TLS: [Rule; 2] = [
    ("!has(self.minVersion) || self.minVersion != 'TLS10'", "minVersion is too old"),
    (
        "!has(self.dnsNames) || self.dnsNames.all(name, !name.startsWith('.'))",
        "dnsNames must not begin with a dot",
    ),
];

pub(super) const ISSUER: [Rule; 1] =
    [("self.kind in ['Issuer', 'ClusterIssuer']", "kind must be Issuer or ClusterIssuer")];

pub(super) const SERVICE: [Rule; 1] =
    [("self.type != 'ExternalName' || has(self.externalName)", "externalName is required")];

pub(super) const SERVICE_PORT: [Rule; 1] =
    [("!has(self.nodePort) || self.nodePort >= 30000", "nodePort is out of range")];

pub(super) const BACKUP: [Rule; 2] = [
    (
        "[has(self.s3), has(self.gcs), has(self.volume)].filter(is, is).size() == 1",
        "exactly one destination must be given",
    ),
    (
        "!has(self.retention) || has(self.retention.count) || has(self.retention.days)",
        "retention says nothing",
    ),
];

pub(super) const MONITORING: [Rule; 1] =
    [("!self.enabled || has(self.interval)", "interval is required when monitoring is enabled")];

pub(super) const TEMPLATE: [Rule; 1] = [(
    "!has(self.spec) || !has(self.spec.containers) || self.spec.containers.all(one, one.name != 'operator')",
    "the name operator is reserved",
)];

pub(super) const COMPONENT: [Rule; 2] = [
    ("!self.enabled || self.replicas > 0", "a component that is enabled needs replicas"),
    ("self.name == oldSelf.name", "name is immutable"),
];

pub(super) const STATUS: [Rule; 1] = [(
    "!has(self.readyReplicas) || !has(self.replicas) || self.readyReplicas <= self.replicas",
    "readyReplicas must not exceed replicas",
)];

/// The rules as `x-kubernetes-validations`.
pub(super) fn of(rules: &[Rule]) -> Value {
    rules.iter().map(|(rule, message)| json!({"rule": rule, "message": message})).collect()
}
