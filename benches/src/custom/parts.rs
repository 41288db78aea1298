//! Schemas of parts that operators' specs consist of.

use serde_json::{Value, json};

use super::object;
use super::rules;
use super::words::described;

const QUANTITY: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

const LABEL_NAME: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";

pub(super) fn text() -> Value {
    json!({"type": "string"})
}

pub(super) fn short_text(max: u32) -> Value {
    json!({"type": "string", "maxLength": max})
}

pub(super) fn label_name() -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": 63, "pattern": LABEL_NAME})
}

pub(super) fn integer(minimum: i64, maximum: i64) -> Value {
    json!({"type": "integer", "format": "int32", "minimum": minimum, "maximum": maximum})
}

pub(super) fn truth(default: bool) -> Value {
    json!({"type": "boolean", "default": default})
}

pub(super) fn choice(values: &[&str]) -> Value {
    json!({"type": "string", "enum": values})
}

pub(super) fn quantity() -> Value {
    json!({
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "pattern": QUANTITY,
        "maxLength": 32,
        "x-kubernetes-int-or-string": true,
    })
}

pub(super) fn int_or_percent() -> Value {
    json!({"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": true})
}

pub(super) fn text_map(max: u32) -> Value {
    json!({"type": "object", "maxProperties": max, "additionalProperties": {"type": "string", "maxLength": 1024}})
}

pub(super) fn list(items: Value, max: u32) -> Value {
    json!({"type": "array", "maxItems": max, "items": items, "x-kubernetes-list-type": "atomic"})
}

pub(super) fn set(items: Value, max: u32) -> Value {
    json!({"type": "array", "maxItems": max, "items": items, "x-kubernetes-list-type": "set"})
}

pub(super) fn list_map(items: Value, keys: &[&str], max: u32) -> Value {
    json!({
        "type": "array",
        "maxItems": max,
        "items": items,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": keys,
    })
}

pub(super) fn with_rules(mut schema: Value, rules: &[rules::Rule]) -> Value {
    schema["x-kubernetes-validations"] = rules::of(rules);
    schema
}

pub(super) fn with_default(mut schema: Value, default: Value) -> Value {
    schema["default"] = default;
    schema
}

/// A key of a Secret or ConfigMap.
pub(super) fn key_reference() -> Value {
    let mut reference = object(
        [
            ("name", with_default(short_text(253), json!(""))),
            ("key", short_text(253)),
            ("optional", json!({"type": "boolean"})),
        ],
        &["key"],
        &described("keyReference"),
    );
    reference["x-kubernetes-map-type"] = json!("atomic");
    reference
}

pub(super) fn selector() -> Value {
    let expression = object(
        [("key", short_text(317)), ("operator", text()), ("values", list(text(), 32))],
        &["key", "operator"],
        &described("matchExpression"),
    );
    let mut selector = object(
        [("matchExpressions", list(expression, 16)), ("matchLabels", text_map(32))],
        &[],
        &described("selector"),
    );
    selector["x-kubernetes-map-type"] = json!("atomic");
    selector
}

pub(super) fn resources() -> Value {
    let amounts = || json!({"type": "object", "maxProperties": 16, "additionalProperties": quantity()});
    let claim = object([("name", text()), ("request", text())], &["name"], &described("claim"));
    object(
        [("claims", list_map(claim, &["name"], 16)), ("limits", amounts()), ("requests", amounts())],
        &[],
        &described("resources"),
    )
}

pub(super) fn storage() -> Value {
    let source = object(
        [("apiGroup", text()), ("kind", text()), ("name", text())],
        &["kind", "name"],
        &described("dataSource"),
    );
    let storage = object(
        [
            ("size", quantity()),
            ("storageClassName", short_text(253)),
            (
                "accessModes",
                with_default(
                    set(choice(&["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany"]), 3),
                    json!(["ReadWriteOnce"]),
                ),
            ),
            ("volumeMode", with_default(choice(&["Filesystem", "Block"]), json!("Filesystem"))),
            ("resizePolicy", choice(&["Never", "Offline", "Online"])),
            ("selector", selector()),
            ("dataSource", source),
            ("annotations", text_map(64)),
        ],
        &["size"],
        &described("storage"),
    );
    with_rules(storage, &rules::STORAGE)
}

pub(super) fn tls() -> Value {
    let issuer = object(
        [
            ("name", short_text(253)),
            ("kind", with_default(short_text(64), json!("Issuer"))),
            ("group", short_text(253)),
        ],
        &["name"],
        &described("issuerRef"),
    );
    let tls = object(
        [
            ("enabled", truth(false)),
            ("secretName", label_name()),
            ("issuerRef", with_rules(issuer, &rules::ISSUER)),
            ("minVersion", choice(&["TLS10", "TLS12", "TLS13"])),
            ("cipherSuites", set(short_text(128), 64)),
            ("dnsNames", set(short_text(253), 32)),
            ("duration", json!({"type": "string", "format": "duration"})),
            ("certificateAuthority", key_reference()),
        ],
        &[],
        &described("tls"),
    );
    with_rules(tls, &rules::TLS)
}

pub(super) fn service() -> Value {
    let port = object(
        [
            ("name", label_name()),
            ("port", integer(1, 65_535)),
            ("targetPort", int_or_percent()),
            ("nodePort", integer(0, 65_535)),
            ("protocol", with_default(choice(&["TCP", "UDP", "SCTP"]), json!("TCP"))),
            ("appProtocol", text()),
        ],
        &["name", "port"],
        &described("servicePort"),
    );
    let service = object(
        [
            (
                "type",
                with_default(
                    choice(&["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"]),
                    json!("ClusterIP"),
                ),
            ),
            ("externalName", short_text(253)),
            ("ports", list_map(with_rules(port, &rules::SERVICE_PORT), &["name"], 16)),
            ("annotations", text_map(64)),
            ("labels", text_map(64)),
            ("loadBalancerClass", text()),
            ("loadBalancerSourceRanges", set(short_text(64), 64)),
            ("externalTrafficPolicy", choice(&["Cluster", "Local"])),
            ("ipFamilies", list(choice(&["IPv4", "IPv6"]), 2)),
        ],
        &[],
        &described("service"),
    );
    with_rules(service, &rules::SERVICE)
}

pub(super) fn backups() -> Value {
    let bucket = |name: &str| {
        object(
            [
                ("bucket", short_text(63)),
                ("endpoint", json!({"type": "string", "format": "uri", "maxLength": 512})),
                ("path", short_text(512)),
                ("credentials", key_reference()),
                ("serverSideEncryption", choice(&["None", "Managed", "Customer"])),
            ],
            &["bucket"],
            &described(name),
        )
    };
    let volume =
        object([("claimName", label_name()), ("subPath", text())], &["claimName"], &described("volume"));
    let retention =
        object([("count", integer(1, 1000)), ("days", integer(1, 3650))], &[], &described("retention"));
    let backup = object(
        [
            ("name", label_name()),
            (
                "schedule",
                json!({"type": "string", "maxLength": 64, "pattern": r"^(@(yearly|monthly|weekly|daily|hourly)|(\S+\s+){4}\S+)$"}),
            ),
            ("suspended", truth(false)),
            ("reason", short_text(256)),
            ("retention", retention),
            ("s3", bucket("s3")),
            ("gcs", bucket("gcs")),
            ("volume", volume),
            ("compression", with_default(choice(&["none", "gzip", "zstd"]), json!("gzip"))),
        ],
        &["name", "schedule"],
        &described("backup"),
    );
    list_map(with_rules(backup, &rules::BACKUP), &["name"], 16)
}

pub(super) fn users() -> Value {
    let user = object(
        [
            ("name", label_name()),
            ("admin", truth(false)),
            ("passwordSecret", key_reference()),
            ("databases", set(short_text(63), 64)),
            (
                "limits",
                object(
                    [("connections", integer(0, 100_000)), ("queriesPerHour", integer(0, 1_000_000))],
                    &[],
                    &described("limits"),
                ),
            ),
        ],
        &["name"],
        &described("user"),
    );
    list_map(user, &["name"], 64)
}

pub(super) fn monitoring() -> Value {
    let relabeling = || {
        let one = object(
            [
                (
                    "action",
                    with_default(
                        choice(&["replace", "keep", "drop", "labelmap", "hashmod"]),
                        json!("replace"),
                    ),
                ),
                ("sourceLabels", list(text(), 16)),
                ("targetLabel", text()),
                ("regex", text()),
                ("replacement", text()),
                ("modulus", json!({"type": "integer", "format": "int64"})),
            ],
            &[],
            &described("relabeling"),
        );
        list(one, 32)
    };
    let monitoring = object(
        [
            ("enabled", truth(false)),
            ("interval", json!({"type": "string", "maxLength": 16, "pattern": "^[0-9]+(ms|s|m|h)$"})),
            ("labels", text_map(32)),
            ("relabelings", relabeling()),
            ("metricRelabelings", relabeling()),
            ("queries", json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})),
        ],
        &[],
        &described("monitoring"),
    );
    with_rules(monitoring, &rules::MONITORING)
}

pub(super) fn update_strategy() -> Value {
    let rolling = object(
        [
            ("maxSurge", int_or_percent()),
            ("maxUnavailable", int_or_percent()),
            ("partition", integer(0, 1000)),
        ],
        &[],
        &described("rollingUpdate"),
    );
    object(
        [
            ("type", choice(&["RollingUpdate", "OnDelete", "Recreate"])),
            ("rollingUpdate", rolling),
            ("switchover", truth(true)),
        ],
        &[],
        &described("updateStrategy"),
    )
}

pub(super) fn maintenance() -> Value {
    let window = object(
        [
            ("day", choice(&["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"])),
            ("start", json!({"type": "string", "pattern": "^([01][0-9]|2[0-3]):[0-5][0-9]$"})),
            ("duration", json!({"type": "string", "format": "duration"})),
        ],
        &["day", "start"],
        &described("window"),
    );
    object([("windows", list(window, 14)), ("enabled", truth(true))], &[], &described("maintenance"))
}

/// An object of any kind, created together with the workload.
pub(super) fn manifest() -> Value {
    json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true})
}

pub(super) fn status() -> Value {
    let condition = object(
        [
            (
                "type",
                json!({"type": "string", "maxLength": 316, "pattern": r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"}),
            ),
            ("status", choice(&["True", "False", "Unknown"])),
            ("observedGeneration", json!({"type": "integer", "format": "int64", "minimum": 0})),
            ("lastTransitionTime", json!({"type": "string", "format": "date-time"})),
            (
                "reason",
                json!({"type": "string", "minLength": 1, "maxLength": 1024, "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"}),
            ),
            ("message", short_text(32_768)),
        ],
        &["lastTransitionTime", "message", "reason", "status", "type"],
        &described("condition"),
    );
    let member = object(
        [
            ("name", text()),
            ("role", choice(&["Primary", "Replica", "Observer"])),
            ("ready", json!({"type": "boolean"})),
            ("lag", json!({"type": "number"})),
            ("startedAt", json!({"type": "string", "format": "date-time"})),
        ],
        &["name"],
        &described("member"),
    );
    let status = object(
        [
            ("conditions", list_map(condition, &["type"], 32)),
            ("members", list_map(member, &["name"], 256)),
            ("phase", choice(&["Pending", "Creating", "Running", "Updating", "Failed", "Deleting"])),
            ("observedGeneration", json!({"type": "integer", "format": "int64"})),
            ("replicas", integer(0, 100_000)),
            ("readyReplicas", integer(0, 100_000)),
            ("selector", text()),
            ("endpoints", text_map(64)),
            ("details", json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})),
        ],
        &[],
        &described("status"),
    );
    with_rules(status, &rules::STATUS)
}
