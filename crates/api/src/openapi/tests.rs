//! What clients look for in the documents.

use serde_json::json;

use super::*;

const ALL: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
const PART: &[&str] = &["get", "patch", "update"];
const BELOW: &[Subresource<'_>] = &[
    Subresource { name: "scale", group: "autoscaling", version: "v1", kind: "Scale", verbs: PART },
    Subresource { name: "status", group: "apps", version: "v1", kind: "Deployment", verbs: PART },
];
const DEPLOYMENTS: Resource<'_> = Resource {
    name: "deployments",
    kind: "Deployment",
    namespaced: true,
    verbs: ALL,
    delete_returns_object: false,
    subresources: BELOW,
};

/// Describes everything by its name.
struct Named;

impl Describe for Named {
    fn of_type(&self, type_name: &str) -> Option<String> {
        Some(format!("the type {type_name}"))
    }

    fn of_field(&self, _type_name: &str, field: &str) -> Option<String> {
        Some(format!("the field {field}"))
    }
}

fn apps() -> Value {
    document(GroupVersion { group: "apps", version: "v1" }, &[DEPLOYMENTS], &Named)
}

#[test]
fn paths_are_those_of_the_resource() {
    let document = apps();
    let paths: Vec<&String> = document["paths"].as_object().unwrap().keys().collect();
    let expected = [
        "/apis/apps/v1/",
        "/apis/apps/v1/deployments",
        "/apis/apps/v1/namespaces/{namespace}/deployments",
        "/apis/apps/v1/namespaces/{namespace}/deployments/{name}",
        "/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale",
        "/apis/apps/v1/namespaces/{namespace}/deployments/{name}/status",
        "/apis/apps/v1/watch/deployments",
        "/apis/apps/v1/watch/namespaces/{namespace}/deployments",
        "/apis/apps/v1/watch/namespaces/{namespace}/deployments/{name}",
    ];
    assert_eq!(paths, expected);
}

#[test]
fn kubectl_finds_that_the_server_validates() {
    let document = apps();
    let patch = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
    let kind = json!({ "group": "apps", "version": "v1", "kind": "Deployment" });
    assert_eq!(patch["x-kubernetes-group-version-kind"], kind);
    assert_eq!(patch["operationId"], "patchAppsV1NamespacedDeployment");
    let parameters = patch["parameters"].as_array().unwrap();
    assert!(parameters.iter().any(|one| one["name"] == "fieldValidation" && one["in"] == "query"));
    assert!(patch["requestBody"]["content"]["application/strategic-merge-patch+json"].is_object());
}

#[test]
fn components_have_types_texts_and_merge_keys() {
    let document = apps();
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let containers = &schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"];
    assert_eq!(containers["x-kubernetes-patch-merge-key"], "name");
    assert_eq!(containers["x-kubernetes-list-map-keys"], json!(["name"]));
    let item =
        json!({ "allOf": [{ "$ref": "#/components/schemas/io.k8s.api.core.v1.Container" }], "default": {} });
    assert_eq!(containers["items"], item);
    assert_eq!(containers["description"], "the field containers");
    let scale = &schemas["io.k8s.api.autoscaling.v1.Scale"]["x-kubernetes-group-version-kind"];
    assert_eq!(*scale, json!([{ "group": "autoscaling", "version": "v1", "kind": "Scale" }]));
    let options =
        &schemas["io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"]["x-kubernetes-group-version-kind"];
    assert_eq!(options[1], json!({ "group": "apps", "version": "v1", "kind": "DeleteOptions" }));
    assert!(!schemas.contains_key("io.k8s.api.core.v1.Node"), "only what is reachable");
}

#[test]
fn nothing_refers_to_what_is_not_there() {
    let document = apps();
    let text = document.to_string();
    let schemas = document["components"]["schemas"].as_object().unwrap();
    for reference in text.split("#/components/schemas/").skip(1) {
        let name = reference.split('"').next().unwrap();
        assert!(schemas.contains_key(name), "{name}");
    }
}

#[test]
fn names_of_operations_follow_the_group() {
    let group_version = GroupVersion { group: "rbac.authorization.k8s.io", version: "v1" };
    let roles = Resource {
        name: "clusterroles",
        kind: "ClusterRole",
        namespaced: false,
        subresources: &[],
        ..DEPLOYMENTS
    };
    let document = document(group_version, &[roles], &Named);
    let read = &document["paths"]["/apis/rbac.authorization.k8s.io/v1/clusterroles/{name}"]["get"];
    assert_eq!(read["operationId"], "readRbacAuthorizationV1ClusterRole");
    assert_eq!(read["tags"], json!(["rbacAuthorization_v1"]));
    assert!(document["paths"]["/apis/rbac.authorization.k8s.io/v1/watch/clusterroles"].is_object());
}
