//! Tests of published definitions against recordings from Kubernetes.

use coracle_crd::{CustomKind, OpenApi, definition_name};
use serde_json::Value;

const BOAT: CustomKind<'_> = CustomKind {
    group: "example.com",
    version: "v1",
    kind: "Boat",
    list_kind: "BoatList",
    plural: "boats",
    selectable_fields: &[],
};

#[test]
fn published_definitions_match_recording() {
    let (mut name, mut schema) = ("", Value::Null);
    let lines = include_str!("data/openapi.txt").lines().filter(|line| !line.is_empty());
    for (word, rest) in lines.map(|line| line.split_once(' ').unwrap()) {
        let open_api = match word {
            "==" => {
                name = rest;
                continue;
            }
            "schema" => {
                schema = serde_json::from_str(rest).unwrap();
                continue;
            }
            "v2" => OpenApi::V2,
            _ => OpenApi::V3,
        };
        let (definition, expected) = rest.split_once(' ').unwrap();
        let found = if definition == definition_name(BOAT.group, BOAT.version, BOAT.kind) {
            BOAT.definition(Some(&schema), open_api)
        } else {
            BOAT.list_definition(open_api)
        };
        let expected: Value = serde_json::from_str(expected).unwrap();
        assert_eq!(found, expected, "{name} {open_api:?}\n{found}\n{expected}");
    }
}

#[test]
fn selectable_fields_are_published() {
    let kind = CustomKind { selectable_fields: &[".spec.size"], ..BOAT };
    let definition = kind.definition(None, OpenApi::V3);
    assert_eq!(definition["x-kubernetes-selectable-fields"], serde_json::json!([{"fieldPath": "spec.size"}]));
}
