//! Defaults of pod specs.

use coracle_meta::quantity::{Quantity, Scale};
use serde_json::{Value, json};

use super::image;

/// Sets the defaults of a pod template.
pub fn set_template_defaults(template: &mut Value) {
    let Value::Object(fields) = template else { return };
    fields.entry("metadata").or_insert_with(|| json!({}));
    set_spec_defaults(fields.entry("spec").or_insert_with(|| json!({})));
}

/// Sets the defaults of a pod spec, except those that only pods have and templates do not.
pub fn set_spec_defaults(spec: &mut Value) {
    service_account(spec);
    default_text(spec, "dnsPolicy", "ClusterFirst");
    default_text(spec, "restartPolicy", "Always");
    default_to(spec, "securityContext", || json!({}));
    default_to(spec, "terminationGracePeriodSeconds", || 30.into());
    default_text(spec, "schedulerName", "default-scheduler");
    each(spec, "volumes", set_volume_defaults);
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        each(spec, list, set_container_defaults);
    }
    within(spec, "overhead", round_up);
    within(spec, "resources", set_resources_defaults);
}

/// Makes `serviceAccount`, the older alias, equal to `serviceAccountName`; the newer field wins.
fn service_account(spec: &mut Value) {
    let Value::Object(fields) = spec else { return };
    let named = |name: &str| fields.get(name).filter(|value| **value != "").cloned();
    if let Some(account) = named("serviceAccountName").or_else(|| named("serviceAccount")) {
        fields.insert("serviceAccount".to_owned(), account.clone());
        fields.insert("serviceAccountName".to_owned(), account);
    }
}

fn set_container_defaults(container: &mut Value) {
    let reference = container.get("image").and_then(Value::as_str).unwrap_or_default();
    let policy = image::default_pull_policy(reference);
    default_text(container, "imagePullPolicy", policy);
    default_text(container, "terminationMessagePath", "/dev/termination-log");
    default_text(container, "terminationMessagePolicy", "File");
    default_to(container, "resources", || json!({}));
    within(container, "resources", set_resources_defaults);
    each(container, "ports", |port| default_text(port, "protocol", "TCP"));
    each(container, "env", |variable| within(variable, "valueFrom", set_env_source_defaults));
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        within(container, probe, set_probe_defaults);
    }
    within(container, "lifecycle", |lifecycle| {
        for handler in ["postStart", "preStop"] {
            within(lifecycle, handler, |handler| within(handler, "httpGet", set_http_get_defaults));
        }
    });
}

fn set_env_source_defaults(source: &mut Value) {
    within(source, "fieldRef", set_field_ref_defaults);
    within(source, "resourceFieldRef", set_resource_ref_defaults);
    within(source, "fileKeyRef", |reference| default_to(reference, "optional", || false.into()));
}

fn set_field_ref_defaults(reference: &mut Value) {
    default_text(reference, "apiVersion", "v1");
}

fn set_resource_ref_defaults(reference: &mut Value) {
    default_to(reference, "divisor", || "0".into());
    within(reference, "divisor", normalize);
}

fn set_resources_defaults(resources: &mut Value) {
    within(resources, "limits", round_up);
    within(resources, "requests", round_up);
}

/// Rounds amounts up to thousandths and writes them in canonical form.
fn round_up(amounts: &mut Value) {
    let Value::Object(amounts) = amounts else { return };
    for amount in amounts.values_mut() {
        if let Ok(mut quantity) = Quantity::from_json(amount) {
            quantity.round_up(Scale::MILLI);
            *amount = quantity.canonical().into();
        }
    }
}

/// Writes an amount as it is serialized.
fn normalize(amount: &mut Value) {
    if let Ok(quantity) = Quantity::from_json(amount) {
        *amount = quantity.to_string().into();
    }
}

fn set_probe_defaults(probe: &mut Value) {
    for (name, value) in
        [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)]
    {
        default_number(probe, name, value);
    }
    within(probe, "httpGet", set_http_get_defaults);
    within(probe, "grpc", |grpc| default_to(grpc, "service", || "".into()));
}

fn set_http_get_defaults(action: &mut Value) {
    default_text(action, "path", "/");
    default_text(action, "scheme", "HTTP");
}

fn set_volume_defaults(volume: &mut Value) {
    if let Value::Object(fields) = volume
        && !fields.keys().any(|name| name != "name")
    {
        fields.insert("emptyDir".to_owned(), json!({}));
    }
    within(volume, "emptyDir", |source| within(source, "sizeLimit", normalize));
    within(volume, "image", |source| {
        let reference = source.get("reference").and_then(Value::as_str).unwrap_or_default();
        let policy = image::default_pull_policy(reference);
        default_text(source, "pullPolicy", policy);
    });
    within(volume, "hostPath", |source| default_to(source, "type", || "".into()));
    for kind in ["secret", "configMap", "downwardAPI", "projected"] {
        within(volume, kind, |source| default_to(source, "defaultMode", || 0o644.into()));
    }
    within(volume, "downwardAPI", set_downward_items_defaults);
    within(volume, "projected", |projected| each(projected, "sources", set_projection_defaults));
    within(volume, "ephemeral", set_ephemeral_defaults);
    set_plugin_defaults(volume);
}

fn set_downward_items_defaults(source: &mut Value) {
    each(source, "items", |item| {
        within(item, "fieldRef", set_field_ref_defaults);
        within(item, "resourceFieldRef", set_resource_ref_defaults);
    });
}

fn set_projection_defaults(source: &mut Value) {
    within(source, "downwardAPI", set_downward_items_defaults);
    within(source, "serviceAccountToken", |token| default_to(token, "expirationSeconds", || 3600.into()));
}

fn set_ephemeral_defaults(source: &mut Value) {
    within(source, "volumeClaimTemplate", |template| {
        default_to(template, "spec", || json!({}));
        within(template, "spec", |spec| {
            default_to(spec, "volumeMode", || "Filesystem".into());
            default_to(spec, "resources", || json!({}));
            within(spec, "resources", set_resources_defaults);
        });
    });
}

/// Sets the defaults of sources that are implemented only by plugins outside of Kubernetes today.
fn set_plugin_defaults(volume: &mut Value) {
    within(volume, "iscsi", |source| default_text(source, "iscsiInterface", "default"));
    within(volume, "rbd", |source| {
        default_text(source, "pool", "rbd");
        default_text(source, "user", "admin");
        default_text(source, "keyring", "/etc/ceph/keyring");
    });
    within(volume, "scaleIO", |source| {
        default_text(source, "storageMode", "ThinProvisioned");
        default_text(source, "fsType", "xfs");
    });
    within(volume, "azureDisk", |source| {
        default_to(source, "cachingMode", || "ReadWrite".into());
        default_to(source, "fsType", || "ext4".into());
        default_to(source, "readOnly", || false.into());
        default_to(source, "kind", || "Shared".into());
    });
}

/// Applies `change` to each item of a list, if there is one.
pub(crate) fn each(object: &mut Value, list: &str, change: impl FnMut(&mut Value)) {
    if let Some(items) = object.get_mut(list).and_then(Value::as_array_mut) {
        items.iter_mut().for_each(change);
    }
}

/// Applies `change` to a field, if it is present.
pub(crate) fn within(object: &mut Value, field: &str, change: impl FnOnce(&mut Value)) {
    if let Some(value) = object.get_mut(field) {
        change(value);
    }
}

/// Sets a default for a field in which an empty value differs from an absent one.
fn default_to(object: &mut Value, name: &str, value: impl FnOnce() -> Value) {
    crate::view::set_default(object, name, value);
}

/// Sets a default for a text field in which empty means absent.
fn default_text(object: &mut Value, name: &str, value: &str) {
    if let Value::Object(fields) = object
        && fields.get(name).is_none_or(|found| *found == "")
    {
        fields.insert(name.to_owned(), value.into());
    }
}

/// Sets a default for a number field in which zero means absent.
fn default_number(object: &mut Value, name: &str, value: i64) {
    if let Value::Object(fields) = object
        && fields.get(name).is_none_or(|found| *found == 0)
    {
        fields.insert(name.to_owned(), value.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minimal_template_gets_all_defaults() {
        let mut template = json!({"spec": {
            "serviceAccount": "robot",
            "volumes": [{"name": "scratch"}, {"name": "config", "configMap": {"name": "c"}}],
            "containers": [{
                "name": "web",
                "image": "nginx",
                "ports": [{"containerPort": 80}],
                "resources": {"limits": {"cpu": "0.5", "memory": "1500u"}},
                "readinessProbe": {"httpGet": {"port": 80}}
            }]
        }});
        set_template_defaults(&mut template);
        let expected = json!({"metadata": {}, "spec": {
            "serviceAccount": "robot",
            "serviceAccountName": "robot",
            "dnsPolicy": "ClusterFirst",
            "restartPolicy": "Always",
            "schedulerName": "default-scheduler",
            "securityContext": {},
            "terminationGracePeriodSeconds": 30,
            "volumes": [
                {"name": "scratch", "emptyDir": {}},
                {"name": "config", "configMap": {"name": "c", "defaultMode": 420}}
            ],
            "containers": [{
                "name": "web",
                "image": "nginx",
                "imagePullPolicy": "Always",
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
                "ports": [{"containerPort": 80, "protocol": "TCP"}],
                "resources": {"limits": {"cpu": "500m", "memory": "2m"}},
                "readinessProbe": {
                    "httpGet": {"port": 80, "path": "/", "scheme": "HTTP"},
                    "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3
                }
            }]
        }});
        assert_eq!(template, expected);
        set_template_defaults(&mut template);
        assert_eq!(template, expected);
    }
}
