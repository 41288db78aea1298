//! Fields that belong to features which are off: they are dropped as if never sent.

use serde_json::Value;

use super::container;
use super::defaults::{each, within};

/// Drops from a spec what nobody would act on.
///
/// Kinds call it before they create or update an object, not when they read one.
pub fn drop_disabled_fields(spec: &mut Value) {
    remove(spec, "schedulingGroup");
    for list in container::LISTS {
        each(spec, list, |container| {
            within(container, "lifecycle", |lifecycle| remove(lifecycle, "stopSignal"))
        });
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

fn remove(object: &mut Value, field: &str) {
    if let Value::Object(fields) = object {
        fields.remove(field);
    }
}
