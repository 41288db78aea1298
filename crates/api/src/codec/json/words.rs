//! Wording of type errors: that of Go's JSON decoder, or that of Kubernetes' converter of trees
//! (`pkg/runtime/converter.go` of k8s.io/apimachinery).

/// The source of the wording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Words {
    /// Go's JSON decoder.
    Json,
    /// The converter of trees.
    Tree,
}

/// Stands for the name of any struct, which the converter does not print.
pub(super) const STRUCT: &str = "struct";

/// The converter's message for a type error. `text` is the literal of a number.
pub(super) fn misfit_in_tree(found: &str, text: Option<&str>, go_type: &str) -> String {
    let kind = match found {
        "object" => "map",
        "array" => "slice",
        "number" if text.is_some_and(|text| text.contains(['.', 'e', 'E'])) => "float64",
        "number" => "int64",
        other => other,
    };
    match go_type {
        STRUCT => format!("cannot restore struct from: {kind}"),
        list if list.starts_with("[]") => format!("cannot restore slice from {kind}"),
        map if map.starts_with("map[") => format!("cannot restore map from {kind}"),
        // Go could convert between numbers, and integers to strings, but the converter rejects it.
        "string" if kind == "int64" => format!("cannot convert {kind} to {go_type}"),
        "int32" | "int64" | "float64" if kind == "float64" => format!("cannot convert {kind} to {go_type}"),
        "int32" | "int64" if kind == "int64" => misfit_alone(found, text, go_type),
        "bool" | "int32" | "int64" | "float64" => format!("unrecognized type: {go_type}"),
        // All other named types are strings.
        named if kind == "int64" => format!("cannot convert {kind} to {named}"),
        _ => "unrecognized type: string".to_owned(),
    }
}

/// The JSON decoder's message for a value without a path.
pub(super) fn misfit_alone(found: &str, text: Option<&str>, go_type: &str) -> String {
    let blank = if text.is_some() { " " } else { "" };
    let text = text.unwrap_or("");
    format!("json: cannot unmarshal {found}{blank}{text} into Go value of type {go_type}")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::codec::json;
    use crate::schema::types;

    /// Responses of kube-apiserver v1.36.4 to strategic merge patches with these values.
    #[test]
    fn type_errors_in_trees_have_the_messages_of_the_converter() {
        let check = |kind: &str, object: Value, message: &str| {
            let id = types().kind("", "v1", kind).unwrap();
            let shown = object.to_string();
            assert_eq!(json::convert(object, id).unwrap_err().to_string(), message, "{shown}");
        };
        let config_map = |object, message| check("ConfigMap", object, message);
        config_map(json!({"metadata": []}), "cannot restore struct from: slice");
        config_map(json!({"metadata": 1}), "cannot restore struct from: int64");
        config_map(json!({"metadata": {"labels": []}}), "cannot restore map from slice");
        config_map(json!({"metadata": {"labels": {"a": 1}}}), "cannot convert int64 to string");
        config_map(json!({"metadata": {"labels": {"a": true}}}), "unrecognized type: string");
        config_map(json!({"metadata": {"generation": "x"}}), "unrecognized type: int64");
        config_map(json!({"metadata": {"finalizers": "x"}}), "cannot restore slice from string");
        config_map(json!({"data": {"a": {}}}), "unrecognized type: string");
        config_map(json!({"immutable": "x"}), "unrecognized type: bool");
        config_map(
            json!({"metadata": {"creationTimestamp": 5}}),
            "json: cannot unmarshal number into Go value of type string",
        );
        config_map(
            json!({"binaryData": {"a": "%"}}),
            "error decoding from json: illegal base64 data at input byte 0",
        );
        config_map(json!({"binaryData": {"a": 1}}), "cannot restore slice from int64");
        let port =
            |port| json!({"spec": {"containers": [{"name": "c", "ports": [{"containerPort": port}]}]}});
        check("Pod", port(json!(1.5)), "cannot convert float64 to int32");
        let id = types().kind("", "v1", "Pod").unwrap();
        let whole = json::convert(port(json!(80.0)), id).unwrap().object;
        assert_eq!(whole.pointer("/spec/containers/0/ports/0/containerPort"), Some(&json!(80)));
        check("Pod", port(json!("x")), "unrecognized type: int32");
        check("Pod", json!({"spec": {"containers": [1]}}), "cannot restore struct from: int64");
    }
}
