//! When a patch holds only for one version of its object.

use serde_json::Value;

/// The resource version that a patch asks for, if it is not the one it was applied to.
///
/// A patch that names a version carries it into its result; one that does not leaves the
/// version of the object it met. So whoever applies a patch again after losing a race
/// compares each time: a difference is a conflict that no further attempt can mend.
pub fn wanted_resource_version<'a>(current: &Value, patched: &'a Value) -> Option<&'a str> {
    let wanted = resource_version(patched)?;
    (Some(wanted) != resource_version(current)).then_some(wanted)
}

/// The version in an object's metadata; an empty one says nothing.
fn resource_version(object: &Value) -> Option<&str> {
    let version = object.get("metadata")?.get("resourceVersion")?.as_str()?;
    (!version.is_empty()).then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_another_version_is_asked_for() {
        let object = |version: Value| json!({"metadata": {"resourceVersion": version}});
        let current = object(json!("7"));
        for (patched, wanted) in [
            (object(json!("7")), None),
            (object(json!("6")), Some("6")),
            (object(json!("")), None),
            (object(json!(null)), None),
            (object(json!(6)), None),
            (json!({}), None),
            (json!([]), None),
        ] {
            assert_eq!(wanted_resource_version(&current, &patched), wanted, "{patched}");
        }
    }
}
