//! The schema of a pod template, which most operators embed.

use serde_json::{Value, json};

use super::parts::{
    choice, int_or_percent, integer, key_reference, label_name, list, list_map, quantity, resources,
    selector, short_text, text, text_map, with_default, with_rules,
};
use super::words::described;
use super::{object, rules};

/// A template with containers and all scheduling constraints.
pub(super) fn template() -> Value {
    let metadata =
        object([("annotations", text_map(64)), ("labels", text_map(64))], &[], &described("podMetadata"));
    let spec = object(
        [
            ("containers", list_map(container(), &["name"], 16)),
            ("volumes", list_map(volume(), &["name"], 32)),
            ("affinity", affinity()),
            ("tolerations", list(toleration(), 32)),
            ("topologySpreadConstraints", list_map(spread(), &["topologyKey", "whenUnsatisfiable"], 8)),
            ("securityContext", security_context()),
            ("nodeSelector", text_map(32)),
            ("serviceAccountName", short_text(253)),
            ("priorityClassName", short_text(253)),
            ("schedulerName", text()),
            ("terminationGracePeriodSeconds", json!({"type": "integer", "format": "int64", "minimum": 0})),
            ("hostNetwork", json!({"type": "boolean"})),
            ("imagePullSecrets", list(object([("name", text())], &[], &described("pullSecret")), 16)),
        ],
        &[],
        &described("podSpec"),
    );
    let template = object([("metadata", metadata), ("spec", spec)], &[], &described("template"));
    with_rules(template, &rules::TEMPLATE)
}

fn container() -> Value {
    let port = object(
        [
            ("containerPort", integer(1, 65_535)),
            ("hostPort", integer(1, 65_535)),
            ("name", short_text(15)),
            ("protocol", with_default(choice(&["TCP", "UDP", "SCTP"]), json!("TCP"))),
        ],
        &["containerPort"],
        &described("containerPort"),
    );
    let mount = object(
        [
            ("name", text()),
            ("mountPath", text()),
            ("subPath", text()),
            ("readOnly", json!({"type": "boolean"})),
        ],
        &["mountPath", "name"],
        &described("volumeMount"),
    );
    object(
        [
            ("name", label_name()),
            ("image", short_text(512)),
            ("imagePullPolicy", choice(&["Always", "IfNotPresent", "Never"])),
            ("command", list(text(), 64)),
            ("args", list(text(), 64)),
            ("workingDir", text()),
            ("env", list_map(variable(), &["name"], 128)),
            ("ports", list_map(port, &["containerPort", "protocol"], 32)),
            ("resources", resources()),
            ("volumeMounts", list_map(mount, &["mountPath"], 64)),
            ("livenessProbe", probe("livenessProbe")),
            ("securityContext", security_context()),
        ],
        &["name"],
        &described("container"),
    )
}

fn variable() -> Value {
    let field =
        object([("apiVersion", text()), ("fieldPath", text())], &["fieldPath"], &described("fieldRef"));
    let source = object(
        [("configMapKeyRef", key_reference()), ("fieldRef", field), ("secretKeyRef", key_reference())],
        &[],
        &described("valueFrom"),
    );
    object([("name", text()), ("value", text()), ("valueFrom", source)], &["name"], &described("env"))
}

fn probe(name: &str) -> Value {
    let header = object([("name", text()), ("value", text())], &["name", "value"], &described("httpHeader"));
    let http = object(
        [
            ("host", text()),
            ("httpHeaders", list(header, 16)),
            ("path", text()),
            ("port", int_or_percent()),
            ("scheme", text()),
        ],
        &["port"],
        &described("httpGet"),
    );
    object(
        [
            ("exec", object([("command", list(text(), 64))], &[], &described("exec"))),
            ("httpGet", http),
            (
                "tcpSocket",
                object([("host", text()), ("port", int_or_percent())], &["port"], &described("tcpSocket")),
            ),
            ("initialDelaySeconds", integer(0, 86_400)),
            ("periodSeconds", integer(1, 86_400)),
            ("timeoutSeconds", integer(1, 86_400)),
            ("failureThreshold", integer(1, 1000)),
        ],
        &[],
        &described(name),
    )
}

fn security_context() -> Value {
    let id = || json!({"type": "integer", "format": "int64", "minimum": 0});
    let profile = object(
        [("localhostProfile", text()), ("type", choice(&["Localhost", "RuntimeDefault", "Unconfined"]))],
        &["type"],
        &described("seccompProfile"),
    );
    object(
        [
            ("runAsUser", id()),
            ("runAsGroup", id()),
            ("runAsNonRoot", json!({"type": "boolean"})),
            ("readOnlyRootFilesystem", json!({"type": "boolean"})),
            ("seccompProfile", profile),
        ],
        &[],
        &described("securityContext"),
    )
}

fn volume() -> Value {
    let item = object(
        [("key", text()), ("mode", integer(0, 511)), ("path", text())],
        &["key", "path"],
        &described("item"),
    );
    let from_keys = |name: &str| {
        object(
            [
                ("name", short_text(253)),
                ("items", list(item.clone(), 64)),
                ("optional", json!({"type": "boolean"})),
            ],
            &[],
            &described(name),
        )
    };
    let empty = object([("medium", text()), ("sizeLimit", quantity())], &[], &described("emptyDir"));
    let claim = object(
        [("claimName", short_text(253)), ("readOnly", json!({"type": "boolean"}))],
        &["claimName"],
        &described("persistentVolumeClaim"),
    );
    object(
        [
            ("name", label_name()),
            ("configMap", from_keys("configMap")),
            ("secret", from_keys("secret")),
            ("emptyDir", empty),
            ("persistentVolumeClaim", claim),
        ],
        &["name"],
        &described("volume"),
    )
}

fn affinity() -> Value {
    let term = || {
        object(
            [
                ("labelSelector", selector()),
                ("namespaces", list(text(), 64)),
                ("namespaceSelector", selector()),
                ("topologyKey", text()),
            ],
            &["topologyKey"],
            &described("podAffinityTerm"),
        )
    };
    let part = |name: &str| {
        object([("requiredDuringSchedulingIgnoredDuringExecution", list(term(), 16))], &[], &described(name))
    };
    object(
        [("podAffinity", part("podAffinity")), ("podAntiAffinity", part("podAntiAffinity"))],
        &[],
        &described("affinity"),
    )
}

fn toleration() -> Value {
    object(
        [
            ("effect", choice(&["NoSchedule", "PreferNoSchedule", "NoExecute"])),
            ("key", text()),
            ("operator", choice(&["Exists", "Equal"])),
            ("tolerationSeconds", json!({"type": "integer", "format": "int64"})),
            ("value", text()),
        ],
        &[],
        &described("toleration"),
    )
}

fn spread() -> Value {
    object(
        [
            ("labelSelector", selector()),
            ("maxSkew", integer(1, 1000)),
            ("topologyKey", text()),
            ("whenUnsatisfiable", choice(&["DoNotSchedule", "ScheduleAnyway"])),
        ],
        &["maxSkew", "topologyKey", "whenUnsatisfiable"],
        &described("spread"),
    )
}
