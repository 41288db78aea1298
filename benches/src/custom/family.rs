//! The families of kinds, and the fields of their specs.

use serde_json::{Value, json};

use super::parts::{
    backups, choice, integer, label_name, maintenance, manifest, monitoring, resources, selector, service,
    short_text, storage, text_map, tls, truth, update_strategy, users, with_default, with_rules,
};
use super::words::described;
use super::{object, pod, rules};

/// A family of kinds of an operator.
#[derive(Debug)]
pub(super) struct Family {
    pub(super) kind: &'static str,
    pub(super) short_name: &'static str,
    /// Name of its operator; the first of each four names the group.
    pub(super) domain: &'static str,
    /// Components beside the main one, each with a name, replicas and resources.
    components: &'static [&'static str],
}

const fn family(
    domain: &'static str,
    kind: &'static str,
    short_name: &'static str,
    components: &'static [&'static str],
) -> Family {
    Family { kind, short_name, domain, components }
}

/// All families, ordered by operator.
pub(super) const FAMILIES: [Family; 20] = [
    family("databases", "SqlCluster", "sqc", &[]),
    family("databases", "DocumentStore", "dst", &["arbiter", "router"]),
    family("databases", "KeyValueRing", "kvr", &["sentinel"]),
    family("databases", "SearchIndex", "six", &["coordinator", "ingest", "dashboard"]),
    family("messaging", "Broker", "brk", &["controller"]),
    family("messaging", "Connector", "cnr", &["registry"]),
    family("messaging", "MirrorLink", "mrl", &[]),
    family("messaging", "StreamProcessor", "stp", &["jobManager", "taskManager"]),
    family("observability", "MetricStore", "mts", &["compactor", "querier", "ruler"]),
    family("observability", "LogPipeline", "lgp", &["collector", "shipper"]),
    family("observability", "TraceCollector", "trc", &["agent"]),
    family("observability", "AlertRouter", "alr", &["webhook"]),
    family("delivery", "Application", "apn", &["hook"]),
    family("delivery", "PipelineRun", "plr", &["cache", "resultStore"]),
    family("delivery", "Rollout", "rlt", &["canary", "stable"]),
    family("delivery", "ImagePolicy", "imp", &[]),
    family("networking", "Gateway", "gwy", &["proxy", "rateLimit"]),
    family("networking", "CertificateAuthority", "cta", &["responder"]),
    family("networking", "IngressPool", "igp", &["waf"]),
    family("networking", "ServiceMesh", "smh", &["sidecar", "ztunnel", "egress"]),
];

/// The schema of a spec.
pub(super) fn spec(family: &Family, is_older: bool) -> Value {
    let mode = choice(&["Standalone", "Replicated", "Sharded", family.kind]);
    let mut spec = object(
        [
            ("replicas", with_default(integer(0, 1000), json!(1))),
            ("minReplicas", integer(0, 1000)),
            ("maxReplicas", integer(1, 1000)),
            ("version", json!({"type": "string", "pattern": r"^[0-9]+\.[0-9]+(\.[0-9]+)?(-[a-z0-9.]+)?$"})),
            ("mode", with_default(mode, json!("Replicated"))),
            ("paused", truth(false)),
            ("image", short_text(512)),
            ("imagePullPolicy", choice(&["Always", "IfNotPresent", "Never"])),
            ("storage", storage()),
            ("resources", resources()),
            ("tls", tls()),
            ("config", text_map(64)),
            ("backups", backups()),
            ("users", users()),
            ("selector", selector()),
            ("extra", json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})),
        ],
        &[],
        &described(family.kind),
    );
    if !is_older {
        for (name, part) in newer(family) {
            spec["properties"][name] = part;
        }
    }
    with_rules(spec, &rules::SPEC)
}

/// Fields added in the newer version.
fn newer(family: &Family) -> Vec<(&'static str, Value)> {
    let mut parts = vec![
        ("template", pod::template()),
        ("service", service()),
        ("monitoring", monitoring()),
        ("updateStrategy", update_strategy()),
        ("maintenance", maintenance()),
        ("manifest", manifest()),
    ];
    parts.extend(family.components.iter().map(|name| (*name, component(name))));
    parts
}

fn component(name: &str) -> Value {
    let component = object(
        [
            ("name", label_name()),
            ("enabled", truth(false)),
            ("replicas", with_default(integer(0, 1000), json!(1))),
            ("image", short_text(512)),
            ("resources", resources()),
            ("config", text_map(64)),
            ("selector", selector()),
            ("storage", storage_of_component()),
        ],
        &["name"],
        &described(name),
    );
    with_rules(component, &rules::COMPONENT)
}

/// Without validation rules, because components would otherwise have most of them.
fn storage_of_component() -> Value {
    let mut storage = storage();
    if let Value::Object(fields) = &mut storage {
        fields.remove("x-kubernetes-validations");
    }
    storage
}
