//! Objects of the generated kinds.

use serde_json::{Value, json};

use super::VERSION;
use super::family::Family;

/// An object with a field for almost every rule.
pub(super) fn object(group: &str, family: &Family, name: &str) -> Value {
    json!({
        "apiVersion": format!("{group}/{VERSION}"),
        "kind": family.kind,
        "metadata": {"name": name, "labels": {"app": "bench"}},
        "spec": {
            "replicas": 3,
            "minReplicas": 1,
            "maxReplicas": 5,
            "version": "16.4.1",
            "mode": "Replicated",
            "image": "registry.example/databases/server:16.4.1",
            "storage": {"size": "20Gi", "storageClassName": "fast"},
            "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"memory": "2Gi"}},
            "tls": {"enabled": true, "issuerRef": {"name": "internal"}, "minVersion": "TLS12", "dnsNames": ["db.example.com"]},
            "service": {"type": "ClusterIP", "ports": [{"name": "client", "port": 5432, "targetPort": "client"}]},
            "config": {"max_connections": "200", "shared_buffers": "256MB", "log_line_prefix": "%m [%p] %q%u@%d from %h: "},
            "users": [{"name": "owner", "admin": true}],
            "backups": [{"name": "nightly", "schedule": "0 3 * * *", "retention": {"count": 7}, "s3": {"bucket": "backups"}}],
            "monitoring": {"enabled": true, "interval": "30s"},
            "template": {"spec": {"containers": [{"name": "main", "env": [{"name": "LANG", "value": "C"}]}]}},
        },
    })
}

/// Objects with one invalid field each, and the path of that field.
pub(super) fn wrong(object: &Value) -> Vec<(Value, &'static str)> {
    let with = |pointer: &str, value: Value| {
        let mut object = object.clone();
        if let Some(place) = object.pointer_mut(pointer) {
            *place = value;
        }
        object
    };
    vec![
        // Violates a rule of the whole spec, and a rule of a part.
        (with("/spec/replicas", json!(7)), "replicas must not exceed maxReplicas"),
        (with("/spec/backups/0/s3", Value::Null), "exactly one destination must be given"),
        (with("/spec/storage/size", json!(0)), "size must be positive"),
        // Violates a type, an enum, and a pattern.
        (with("/spec/tls/enabled", json!("yes")), "spec.tls.enabled"),
        (with("/spec/mode", json!("Sideways")), "spec.mode"),
        (with("/spec/monitoring/interval", json!("often")), "spec.monitoring.interval"),
    ]
}
