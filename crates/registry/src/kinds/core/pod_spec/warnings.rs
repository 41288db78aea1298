//! Warnings about pods that are valid but questionable.

use std::collections::{BTreeMap, BTreeSet};

use coracle_meta::field::{Path, quoted};
use coracle_meta::name;
use coracle_meta::quantity::Quantity;
use serde_json::Value;

use super::{annotation, container, overlap};
use crate::view;

const NULL_SELECTOR: &str = "a null labelSelector results in matching no pod";
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
const USE_SECCOMP_FIELD: &str = "non-functional in v1.27+; use the \"seccompProfile\" field instead";

/// Deprecated node labels and the text of their warnings; annotations without effect follow.
const OLD_LABELS: &[(&str, &str)] = &[
    ("app.kubernetes.io/created-by", "deprecated since v1.9"),
    ("beta.kubernetes.io/arch", "deprecated since v1.14; use \"kubernetes.io/arch\" instead"),
    (
        "beta.kubernetes.io/instance-type",
        "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead",
    ),
    ("beta.kubernetes.io/os", "deprecated since v1.14; use \"kubernetes.io/os\" instead"),
    (
        "failure-domain.beta.kubernetes.io/region",
        "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead",
    ),
    (
        "failure-domain.beta.kubernetes.io/zone",
        "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead",
    ),
    ("node-role.kubernetes.io/master", "use \"node-role.kubernetes.io/control-plane\" instead"),
    (
        "scheduler.alpha.kubernetes.io/preferAvoidPods",
        "deprecated since v1.22; use Taints and Tolerations instead",
    ),
];

const OLD_ANNOTATIONS: &[(&str, &str)] = &[
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        "non-functional in v1.16+; use the \"priorityClassName\" field instead",
    ),
    ("security.alpha.kubernetes.io/sysctls", "non-functional in v1.11+; use the \"sysctls\" field instead"),
    (
        "security.alpha.kubernetes.io/unsafe-sysctls",
        "non-functional in v1.11+; use the \"sysctls\" field instead",
    ),
];

const OLD_VOLUMES: &[(&str, &str, &str)] = &[
    ("photonPersistentDisk", "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

/// Returns warnings about a valid pod template.
pub fn template_warnings(template: &Value, path: &Path<'_>) -> Vec<String> {
    let metadata = template.get("metadata").unwrap_or(&Value::Null);
    let spec = template.get("spec").unwrap_or(&Value::Null);
    spec_warnings(spec, metadata, path)
}

/// Returns warnings about a valid pod, whose path is [`Path::NIL`].
pub fn spec_warnings(spec: &Value, metadata: &Value, path: &Path<'_>) -> Vec<String> {
    let spec_path = path.child("spec");
    let annotations = path.child("metadata.annotations");
    let mut warnings = Vec::new();
    node_labels(spec, &spec_path, &mut warnings);
    for (key, message) in OLD_ANNOTATIONS {
        if view::at(metadata, &["annotations", key]).is_some() {
            warnings.push(format!("{}: {message}", annotations.key(key)));
        }
    }
    volumes(spec, &spec_path.child("volumes"), &mut warnings);
    duplicates(spec, "hostAliases", "ip", &spec_path, &mut warnings);
    duplicates(spec, "imagePullSecrets", "name", &spec_path, &mut warnings);
    empty_pull_secrets(spec, &spec_path.child("imagePullSecrets"), &mut warnings);
    if let Some(overhead) = spec.get("overhead") {
        fractions(overhead, &spec_path.child("overhead"), &mut warnings);
    }
    profiles(spec, metadata, path, &mut warnings);
    containers(spec, &spec_path, &mut warnings);
    ports(spec, &spec_path, &mut warnings);
    port_names(spec, &spec_path, &mut warnings);
    if view::integer(spec, &["terminationGracePeriodSeconds"]).is_some_and(|seconds| seconds < 0) {
        let path = spec_path.child("terminationGracePeriodSeconds");
        warnings.push(format!("{path}: must be >= 0; negative values are invalid and will be treated as 1"));
    }
    pod_affinity(spec, &spec_path.child("affinity"), &mut warnings);
    addresses(spec, &spec_path, &mut warnings);
    warnings
}

fn old_label(key: &str) -> Option<&'static str> {
    OLD_LABELS.iter().find(|(old, _)| *old == key).map(|(_, message)| *message)
}

fn node_labels(spec: &Value, path: &Path<'_>, warnings: &mut Vec<String>) {
    let selector = path.child("nodeSelector");
    for (key, _) in view::fields(spec, &["nodeSelector"]) {
        warnings.extend(old_label(key).map(|message| format!("{}: {message}", selector.key(key))));
    }
    let affinity = path.child("affinity.nodeAffinity");
    let required = affinity.child(REQUIRED);
    let required = required.child("nodeSelectorTerms");
    let terms = view::items(spec, &["affinity", "nodeAffinity", REQUIRED, "nodeSelectorTerms"]);
    for (index, term) in terms.iter().enumerate() {
        node_term(term, false, &required.index(index), warnings);
    }
    let preferred = affinity.child(PREFERRED);
    for (index, term) in view::items(spec, &["affinity", "nodeAffinity", PREFERRED]).iter().enumerate() {
        let path = preferred.index(index);
        let preference = term.get("preference").unwrap_or(&Value::Null);
        node_term(preference, true, &path.child("preference"), warnings);
    }
    let constraints = path.child("topologySpreadConstraints");
    for (index, constraint) in view::items(spec, &["topologySpreadConstraints"]).iter().enumerate() {
        let path = constraints.index(index);
        let key = view::text(constraint, &["topologyKey"]);
        if let Some(message) = old_label(key) {
            warnings.push(format!("{}: {key} is {message}", path.child("topologyKey")));
        }
        if constraint.get("labelSelector").is_none() {
            warnings.push(format!("{}: {NULL_SELECTOR}", path.child("labelSelector")));
        }
    }
}

fn node_term(term: &Value, check_values: bool, path: &Path<'_>, warnings: &mut Vec<String>) {
    let expressions = path.child("matchExpressions");
    for (index, expression) in view::items(term, &["matchExpressions"]).iter().enumerate() {
        let path = expressions.index(index);
        let key = view::text(expression, &["key"]);
        if let Some(message) = old_label(key) {
            warnings.push(format!("{}: {key} is {message}", path.child("key")));
        }
        if !check_values {
            continue;
        }
        let values = path.child("values");
        for (index, value) in
            view::items(expression, &["values"]).iter().filter_map(Value::as_str).enumerate()
        {
            for message in name::label_value(value) {
                warnings.push(format!("{}: {value} is invalid, {message}", values.index(index)));
            }
        }
    }
}

fn volumes(spec: &Value, path: &Path<'_>, warnings: &mut Vec<String>) {
    let volumes = view::items(spec, &["volumes"]);
    for (index, volume) in volumes.iter().enumerate() {
        for (field, reported, message) in OLD_VOLUMES {
            if volume.get(field).is_some() {
                warnings.push(format!("{}: {message}", path.index(index).child(reported)));
            }
        }
        for list in ["requests", "limits"] {
            let claim = ["ephemeral", "volumeClaimTemplate", "spec", "resources", list];
            if let Some(amounts) = view::at(volume, &claim) {
                let path = path.index(index);
                let path = path.child("ephemeral.volumeClaimTemplate.spec.resources");
                fractions_of(amounts, &["storage"], &path.child(list), warnings);
            }
        }
    }
    for volume in volumes {
        overlap::warn(volume, warnings);
    }
}

fn duplicates(spec: &Value, list: &str, field: &str, path: &Path<'_>, warnings: &mut Vec<String>) {
    let path = path.child(list);
    let mut seen = BTreeSet::new();
    for (index, item) in view::items(spec, &[list]).iter().enumerate() {
        let value = view::text(item, &[field]);
        if !seen.insert(value) {
            let path = path.index(index);
            warnings.push(format!("{}: duplicate {field} {}", path.child(field), quoted(value)));
        }
    }
}

fn empty_pull_secrets(spec: &Value, path: &Path<'_>, warnings: &mut Vec<String>) {
    for (index, secret) in view::items(spec, &["imagePullSecrets"]).iter().enumerate() {
        if view::text(secret, &["name"]).is_empty() {
            warnings.push(format!("{}: invalid empty name \"\"", path.index(index).child("name")));
        }
    }
}

fn fractions(amounts: &Value, path: &Path<'_>, warnings: &mut Vec<String>) {
    fractions_of(amounts, &["memory", "ephemeral-storage"], path, warnings);
}

fn fractions_of(amounts: &Value, resources: &[&str], path: &Path<'_>, warnings: &mut Vec<String>) {
    for resource in resources {
        let amount = amounts.get(resource).and_then(|amount| Quantity::from_json(amount).ok());
        if let Some(amount) = amount.filter(|amount| amount.milli_value() % 1000 != 0) {
            let (path, amount) = (path.key(resource), amount.to_string());
            let amount = quoted(&amount);
            warnings.push(format!("{path}: fractional byte value {amount} is invalid, must be an integer"));
        }
    }
}

/// Warns about annotations that fields have replaced.
fn profiles(spec: &Value, metadata: &Value, path: &Path<'_>, warnings: &mut Vec<String>) {
    let annotations = path.child("metadata.annotations");
    let has = |key: &str| view::at(metadata, &["annotations", key]).is_some();
    if view::at(spec, &["securityContext", "seccompProfile"]).is_none() && has(SECCOMP_POD) {
        warnings.push(format!("{}: {USE_SECCOMP_FIELD}", annotations.key(SECCOMP_POD)));
    }
    let is_template = path.to_string() != Path::NIL.to_string();
    let pod_profile = view::at(spec, &["securityContext", "appArmorProfile"]);
    container::for_each(spec, path, |container, _| {
        let name = view::text(container, &["name"]);
        let key = format!("{SECCOMP_CONTAINER}{name}");
        if view::at(container, &["securityContext", "seccompProfile"]).is_none() && has(&key) {
            warnings.push(format!("{}: {USE_SECCOMP_FIELD}", annotations.key(&key)));
        }
        let key = format!("{}{name}", annotation::APP_ARMOR);
        let has_own = view::at(container, &["securityContext", "appArmorProfile"]).is_some();
        let annotation = view::at(metadata, &["annotations", &key]).and_then(Value::as_str);
        if let Some(annotation) = annotation.filter(|_| is_template && !has_own)
            && (pod_profile.is_none()
                || pod_profile != annotation::profile_of_annotation(annotation).as_ref())
        {
            warnings.push(format!("{}: {}", annotations.key(&key), annotation::USE_APP_ARMOR_FIELD));
        }
    });
}

fn containers(spec: &Value, path: &Path<'_>, warnings: &mut Vec<String>) {
    container::for_each(spec, path, |container, path| {
        for list in ["limits", "requests"] {
            if let Some(amounts) = view::at(container, &["resources", list]) {
                let resources = path.child("resources");
                fractions(amounts, &resources.child(list), warnings);
            }
        }
        let env = path.child("env");
        let mut seen = BTreeSet::new();
        for (index, variable) in view::items(container, &["env"]).iter().enumerate() {
            let name = view::text(variable, &["name"]);
            if !seen.insert(name) && hides_previous(name, variable) {
                let (path, name) = (env.index(index), quoted(name));
                warnings.push(format!(
                    "{path}: hides previous definition of {name}, which may be dropped when using apply"
                ));
            }
        }
    });
}

/// Returns true if a variable hides an earlier one of the same name, instead of extending its value.
fn hides_previous(name: &str, variable: &Value) -> bool {
    let reference = format!("$({name})");
    let value = view::text(variable, &["value"]);
    variable.get("valueFrom").is_some() || value == reference || !value.contains(&reference)
}

/// A port of a container, with the fields by which ports can conflict.
struct Port {
    path: String,
    name: String,
    container_port: i64,
    host_port: i64,
    protocol: String,
    host_ip: String,
}

impl Port {
    fn read(port: &Value, path: String) -> Self {
        let number = |field: &str| view::integer(port, &[field]).unwrap_or(0);
        let text = |field: &str| view::text(port, &[field]).to_owned();
        Self {
            path,
            name: text("name"),
            container_port: number("containerPort"),
            host_port: number("hostPort"),
            protocol: text("protocol"),
            host_ip: text("hostIP"),
        }
    }

    /// Returns how two ports conflict, if they do.
    fn clash(&self, other: &Self) -> Option<&'static str> {
        if self.container_port != other.container_port || self.protocol != other.protocol {
            None
        } else if (self.host_port, &self.host_ip) == (other.host_port, &other.host_ip) {
            Some("duplicate")
        } else if self.host_port == 0 || other.host_port == 0 {
            Some("overlapping")
        } else if self.host_port == other.host_port && self.host_ip.is_empty() != other.host_ip.is_empty() {
            Some("dangerously ambiguous")
        } else {
            None
        }
    }
}

fn ports(spec: &Value, path: &Path<'_>, warnings: &mut Vec<String>) {
    let mut seen: Vec<Port> = Vec::new();
    container::for_each(spec, path, |container, path| {
        let ports = path.child("ports");
        for (index, port) in view::items(container, &["ports"]).iter().enumerate() {
            let port = Port::read(port, ports.index(index).to_string());
            let path = &port.path;
            if !port.host_ip.is_empty() && port.host_port == 0 {
                let Port { name, container_port, protocol, host_ip, .. } = &port;
                warnings.push(format!(
                    "{path}: hostIP set without hostPort: {{Name:{name} HostPort:0 ContainerPort:{container_port} Protocol:{protocol} HostIP:{host_ip}}}"
                ));
            }
            for other in &seen {
                if let Some(what) = port.clash(other) {
                    warnings.push(format!("{path}: {what} port definition with {}", other.path));
                }
            }
            seen.push(port);
        }
    });
}

fn port_names(spec: &Value, path: &Path<'_>, warnings: &mut Vec<String>) {
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    container::for_each(spec, path, |container, path| {
        let ports = path.child("ports");
        for (index, port) in view::items(container, &["ports"]).iter().enumerate() {
            let name = view::text(port, &["name"]);
            let path = ports.index(index).to_string();
            match seen.get(name) {
                _ if name.is_empty() => {}
                None => {
                    seen.insert(name.to_owned(), path);
                }
                Some(other) => warnings.push(format!(
                    "{path}: duplicate port name {} with {other}, services and probes that select ports by name will use {other}",
                    quoted(name)
                )),
            }
        }
    });
}

fn pod_affinity(spec: &Value, path: &Path<'_>, warnings: &mut Vec<String>) {
    for field in ["podAffinity", "podAntiAffinity"] {
        let affinity = path.child(field);
        let required = affinity.child(REQUIRED);
        for (index, term) in view::items(spec, &["affinity", field, REQUIRED]).iter().enumerate() {
            if term.get("labelSelector").is_none() {
                warnings.push(format!("{}: {NULL_SELECTOR}", required.index(index).child("labelSelector")));
            }
        }
        let preferred = affinity.child(PREFERRED);
        for (index, term) in view::items(spec, &["affinity", field, PREFERRED]).iter().enumerate() {
            if view::at(term, &["podAffinityTerm", "labelSelector"]).is_none() {
                let path = preferred.index(index);
                warnings.push(format!("{}: {NULL_SELECTOR}", path.child("podAffinityTerm.labelSelector")));
            }
        }
    }
}

fn addresses(spec: &Value, path: &Path<'_>, warnings: &mut Vec<String>) {
    let servers = path.child("dnsConfig.nameservers");
    for (index, server) in view::items(spec, &["dnsConfig", "nameservers"]).iter().enumerate() {
        warnings.extend(name::ip_warnings(&servers.index(index), server.as_str().unwrap_or_default()));
    }
    let aliases = path.child("hostAliases");
    for (index, alias) in view::items(spec, &["hostAliases"]).iter().enumerate() {
        let path = aliases.index(index);
        warnings.extend(name::ip_warnings(&path.child("ip"), view::text(alias, &["ip"])));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn questionable_fields_cause_warnings() {
        let template = json!({"spec": {
            "nodeSelector": {"beta.kubernetes.io/os": "linux"},
            "terminationGracePeriodSeconds": -1,
            "containers": [{
                "name": "a",
                "env": [{"name": "X", "value": "1"}, {"name": "X", "value": "2"}, {"name": "X", "value": "$(X)3"}],
                "ports": [{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 80, "protocol": "TCP"}],
                "resources": {"limits": {"memory": "100m"}}
            }]
        }});
        assert_eq!(
            template_warnings(&template, &Path::root("spec.template")),
            [
                "spec.template.spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use \"kubernetes.io/os\" instead",
                "spec.template.spec.containers[0].resources.limits[memory]: fractional byte value \"100m\" is invalid, must be an integer",
                "spec.template.spec.containers[0].env[1]: hides previous definition of \"X\", which may be dropped when using apply",
                "spec.template.spec.containers[0].ports[1]: duplicate port definition with spec.template.spec.containers[0].ports[0]",
                "spec.template.spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1",
            ]
        );
        assert!(spec_warnings(&json!({}), &json!({}), &Path::NIL).is_empty());
    }
}
