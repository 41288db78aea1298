//! Fields of disabled feature gates, which are dropped as if never sent.

use serde_json::Value;

use super::container;
use super::defaults::{each, within};

/// Drops fields of disabled features, on which no component would act, from a spec.
///
/// Kinds call it before they create or update an object, not when they read one.
pub fn drop_disabled_fields(spec: &mut Value) {
    remove(spec, "schedulingGroup");
    for list in container::LISTS {
        each(spec, list, drop_stop_signal);
    }
    each(spec, "volumes", |volume| {
        within(volume, "projected", |projected| {
            each(projected, "sources", |source| {
                remove(source, "clusterTrustBundle");
                remove(source, "podCertificate");
            });
        });
    });
}

/// Drops the stop signal, and `lifecycle` if it is empty then.
fn drop_stop_signal(container: &mut Value) {
    let Some(lifecycle) = container.get_mut("lifecycle").and_then(Value::as_object_mut) else { return };
    if lifecycle.remove("stopSignal").is_some() && lifecycle.is_empty() {
        remove(container, "lifecycle");
    }
}

fn remove(object: &mut Value, field: &str) {
    if let Value::Object(fields) = object {
        fields.remove(field);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lifecycle_with_only_a_stop_signal_is_dropped() {
        let mut spec = json!({"containers": [
            {"name": "a", "lifecycle": {"stopSignal": "SIGUSR1"}},
            {"name": "b", "lifecycle": {"stopSignal": "SIGUSR1", "preStop": {}}},
            {"name": "c", "lifecycle": {}},
        ]});
        drop_disabled_fields(&mut spec);
        let left = json!([{"name": "a"}, {"name": "b", "lifecycle": {"preStop": {}}}, {"name": "c", "lifecycle": {}}]);
        assert_eq!(spec["containers"], left);
    }
}
