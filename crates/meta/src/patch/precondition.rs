//! Preconditions of patches on the resource version.

use serde_json::Value;

/// Returns the resource version that the patch requires, if it differs from that of the object.
///
/// A patch that sets `resourceVersion` carries it into the patched object; otherwise the patched
/// object has the version of `current`. A caller that retries the patch after a write conflict
/// checks this on each attempt: a difference is a conflict that no retry can resolve.
pub fn conflicting_resource_version<'a>(current: &Value, patched: &'a Value) -> Option<&'a str> {
    let required = resource_version(patched)?;
    (Some(required) != resource_version(current)).then_some(required)
}

/// Returns the object's resource version; `None` if it is empty.
fn resource_version(object: &Value) -> Option<&str> {
    let version = object.get("metadata")?.get("resourceVersion")?.as_str()?;
    (!version.is_empty()).then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn different_resource_version_is_returned() {
        let object = |version: Value| json!({"metadata": {"resourceVersion": version}});
        let current = object(json!("7"));
        for (patched, required) in [
            (object(json!("7")), None),
            (object(json!("6")), Some("6")),
            (object(json!("")), None),
            (object(json!(null)), None),
            (object(json!(6)), None),
            (json!({}), None),
            (json!([]), None),
        ] {
            assert_eq!(conflicting_resource_version(&current, &patched), required, "{patched}");
        }
    }
}
