//! Parts of the documents that clients depend on.

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
    list_kind: "List",
    definitions: &[],
};
const APPS: Subject<'_> = Subject::Resources(GroupVersion { group: "apps", version: "v1" }, &[DEPLOYMENTS]);
const ONE: &str = "/apis/apps/v1/namespaces/{namespace}/deployments/{name}";

fn swagger() -> Value {
    let mut document = V2::new();
    [Subject::CoreVersions, Subject::Version, APPS].into_iter().for_each(|subject| document.add(subject));
    document.finish()
}

#[test]
fn paths_are_those_of_the_resource() {
    let document = v3(APPS);
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
fn patch_has_the_parameter_that_kubectl_looks_for() {
    let document = v3(APPS);
    let patch = &document["paths"][ONE]["patch"];
    let kind = json!({ "group": "apps", "version": "v1", "kind": "Deployment" });
    assert_eq!(patch["x-kubernetes-group-version-kind"], kind);
    assert_eq!(patch["operationId"], "patchAppsV1NamespacedDeployment");
    let parameters = patch["parameters"].as_array().unwrap();
    assert!(parameters.iter().any(|one| one["name"] == "fieldValidation" && one["in"] == "query"));
    assert!(patch["requestBody"]["content"]["application/strategic-merge-patch+json"].is_object());
}

#[test]
fn parameters_of_all_operations_are_listed_once() {
    let document = v3(APPS);
    let names = |parameters: &Value| -> Vec<String> {
        let all = parameters.as_array().into_iter().flatten();
        all.map(|one| one["name"].as_str().unwrap().to_owned()).collect()
    };
    let item = &document["paths"][ONE];
    assert_eq!(names(&item["parameters"]), ["name", "namespace", "pretty"]);
    assert_eq!(names(&item["put"]["parameters"]), ["dryRun", "fieldManager", "fieldValidation"]);
    assert!(item["get"].get("parameters").is_none());
    let everywhere = &document["paths"]["/apis/apps/v1/deployments"];
    assert!(
        names(&everywhere["parameters"]).contains(&"labelSelector".to_owned()),
        "there is only one request"
    );
    assert!(everywhere["get"].get("parameters").is_none());
}

#[test]
fn components_have_types_descriptions_and_merge_keys() {
    let document = v3(APPS);
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let containers = &schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"];
    assert_eq!(containers["x-kubernetes-patch-merge-key"], "name");
    assert_eq!(containers["x-kubernetes-list-map-keys"], json!(["name"]));
    let item =
        json!({ "allOf": [{ "$ref": "#/components/schemas/io.k8s.api.core.v1.Container" }], "default": {} });
    assert_eq!(containers["items"], item);
    let text = containers["description"].as_str().unwrap();
    assert!(text.starts_with("List of containers belonging to the pod."), "{text}");
    let scale = &schemas["io.k8s.api.autoscaling.v1.Scale"]["x-kubernetes-group-version-kind"];
    assert_eq!(*scale, json!([{ "group": "autoscaling", "version": "v1", "kind": "Scale" }]));
    let options =
        &schemas["io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"]["x-kubernetes-group-version-kind"];
    assert_eq!(options[1], json!({ "group": "apps", "version": "v1", "kind": "DeleteOptions" }));
    let list = &schemas["io.k8s.api.apps.v1.DeploymentList"];
    assert_eq!(list["description"], "DeploymentList is a list of Deployments.");
    assert!(list["properties"]["apiVersion"]["description"].as_str().unwrap().starts_with("APIVersion"));
    assert!(!schemas.contains_key("io.k8s.api.core.v1.Node"), "only what is reachable");
}

#[test]
fn enumerated_values_are_described() {
    let document = v3(APPS);
    let properties = |name: &str| &document["components"]["schemas"][name]["properties"];
    let policy = &properties("io.k8s.api.core.v1.Container")["imagePullPolicy"];
    assert_eq!(policy["enum"], json!(["Always", "IfNotPresent", "Never"]));
    let text = policy["description"].as_str().unwrap();
    assert!(text.starts_with("Image pull policy."), "{text}");
    let values = "\n\nPossible enum values:\n - `\"Always\"`\n - `\"IfNotPresent\"`\n - `\"Never\"`";
    assert!(text.ends_with(values), "{text}");
    let modes = &properties("io.k8s.api.core.v1.PersistentVolumeClaimSpec")["accessModes"];
    assert_eq!(modes["items"]["enum"][0], "ReadOnlyMany");
    assert_eq!(modes.get("enum"), None, "the items have values, not the list");
}

#[test]
fn required_fields_are_in_the_order_of_go() {
    let document = v3(APPS);
    let required = |name: &str| &document["components"]["schemas"][name]["required"];
    let owner = json!(["apiVersion", "kind", "name", "uid"]);
    assert_eq!(*required("io.k8s.apimachinery.pkg.apis.meta.v1.OwnerReference"), owner);
    assert_eq!(*required("io.k8s.api.apps.v1.DeploymentSpec"), json!(["selector", "template"]));
    assert_eq!(*required("io.k8s.api.core.v1.VolumeMount"), json!(["name", "mountPath"]));
}

#[test]
fn all_references_resolve() {
    let document = v3(APPS);
    let text = document.to_string();
    let schemas = document["components"]["schemas"].as_object().unwrap();
    for reference in text.split("#/components/schemas/").skip(1) {
        let name = reference.split('"').next().unwrap();
        assert!(schemas.contains_key(name), "{name}");
    }
    let document = swagger();
    let text = document.to_string();
    assert!(!text.contains("#/components"));
    for section in ["definitions", "parameters"] {
        for reference in text.split(&format!("\"$ref\":\"#/{section}/")).skip(1) {
            let name = reference.split('"').next().unwrap();
            assert!(document[section].get(name).is_some(), "{name}");
        }
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
    let document = v3(Subject::Resources(group_version, &[roles]));
    let read = &document["paths"]["/apis/rbac.authorization.k8s.io/v1/clusterroles/{name}"]["get"];
    assert_eq!(read["operationId"], "readRbacAuthorizationV1ClusterRole");
    assert_eq!(read["tags"], json!(["rbacAuthorization_v1"]));
    assert!(document["paths"]["/apis/rbac.authorization.k8s.io/v1/watch/clusterroles"].is_object());
    let group = v3(Subject::Group("rbac.authorization.k8s.io"));
    let get = &group["paths"]["/apis/rbac.authorization.k8s.io/"]["get"];
    assert_eq!(get["operationId"], "getRbacAuthorizationAPIGroup");
}

#[test]
fn version_2_has_everything_in_one_document() {
    let document = swagger();
    assert_eq!(document["swagger"], "2.0");
    assert_eq!(document["security"], json!([{ "BearerToken": [] }]));
    assert!(document["paths"]["/version/"].is_object() && document["paths"]["/api/"].is_object());
    let patch = &document["paths"][ONE]["patch"];
    assert_eq!(patch["consumes"][0], "application/json-patch+json");
    assert_eq!(patch["produces"][0], "application/json");
    assert_eq!(patch["schemes"], json!(["https"]));
    assert_eq!(patch["x-kubernetes-action"], "patch");
    let answer = &patch["responses"]["200"]["schema"]["$ref"];
    assert_eq!(*answer, "#/definitions/io.k8s.api.apps.v1.Deployment");
    let parameters = patch["parameters"].as_array().unwrap();
    let own = parameters.iter().find(|one| one["name"] == "fieldValidation").unwrap();
    assert_eq!((&own["type"], &own["in"]), (&json!("string"), &json!("query")));
    let shared = parameters[0]["$ref"].as_str().unwrap().strip_prefix("#/parameters/").unwrap();
    assert!(shared.starts_with("body-"));
    let body = &document["parameters"][shared]["schema"]["$ref"];
    assert_eq!(*body, "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.Patch");
}

#[test]
fn version_2_has_no_defaults_and_plain_references() {
    let document = swagger();
    let definitions = &document["definitions"];
    let template = &definitions["io.k8s.api.apps.v1.DeploymentSpec"]["properties"]["template"];
    assert_eq!(template["$ref"], "#/definitions/io.k8s.api.core.v1.PodTemplateSpec");
    assert!(template["description"].is_string() && template.get("default").is_none());
    let amount = &definitions["io.k8s.apimachinery.pkg.api.resource.Quantity"];
    assert_eq!((&amount["type"], amount.get("oneOf")), (&json!("string"), None));
    let port = &definitions["io.k8s.apimachinery.pkg.util.intstr.IntOrString"];
    assert_eq!((&port["type"], &port["format"]), (&json!("string"), &json!("int-or-string")));
    let kinds =
        &definitions["io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"]["x-kubernetes-group-version-kind"];
    assert_eq!(kinds.as_array().unwrap().len(), 2, "one for each version");
    let containers = &definitions["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"];
    assert_eq!(containers["x-kubernetes-list-type"], "map");
}

#[test]
fn version_2_in_protobuf_byte_by_byte() {
    let document = json!({
        "swagger": "2.0",
        "info": { "title": "K", "version": "1" },
        "definitions": { "A": {
            "type": "object",
            "required": ["b"],
            "properties": { "b": { "$ref": "#/definitions/B" } },
            "x-y": [1],
        } },
    });
    let expected = [
        &b"\x0a\x032.0"[..],
        b"\x12\x06\x0a\x01K\x12\x011",
        b"\x4a\x40\x0a\x3e\x0a\x01A\x12\x39",
        b"\x9a\x01\x01b",
        b"\xb2\x01\x08\x0a\x06object",
        b"\xca\x01\x18\x0a\x16\x0a\x01b\x12\x11\x0a\x0f#/definitions/B",
        b"\xfa\x01\x0c\x0a\x03x-y\x12\x05\x12\x03[1]",
    ];
    assert_eq!(encode_v2(&document), expected.concat());
}

#[test]
fn version_3_in_protobuf_byte_by_byte() {
    let document = json!({
        "openapi": "3.0.0",
        "info": { "title": "K", "version": "1" },
        "paths": { "/a": { "get": {
            "parameters": [{ "name": "p", "in": "query" }],
            "responses": { "200": { "description": "OK" } },
        } } },
        "components": { "schemas": { "A": {
            "type": "object",
            "default": {},
            "properties": { "b": { "allOf": [{ "$ref": "#/B" }], "default": 1 } },
            "additionalProperties": { "type": "string" },
            "x-y": [1],
        } } },
    });
    let properties: &[u8] = b"\x0a\x1d\x0a\x01b\x12\x18\x0a\x16\
        \xd2\x01\x07\x12\x05\x0a\x03#/B\x8a\x02\x09\x09\x00\x00\x00\x00\x00\x00\xf0\x3f";
    let schema = [
        &b"\xca\x01\x06object"[..],
        b"\xfa\x01\x1f",
        properties,
        b"\x82\x02\x0d\x0a\x0b\x0a\x09\xca\x01\x06string",
        b"\x8a\x02\x00",
        b"\xa2\x02\x0c\x0a\x03x-y\x12\x05\x12\x03[1]",
    ]
    .concat();
    let wrapped = |tag: &[u8], content: &[u8]| [tag, &[content.len() as u8], content].concat();
    let named = [&b"\x0a\x01A"[..], &wrapped(b"\x12", &wrapped(b"\x0a", &schema))].concat();
    let expected = [
        &b"\x0a\x053.0.0"[..],
        b"\x12\x06\x0a\x01K\x32\x011",
        b"\x22\x29\x0a\x27\x0a\x02/a\x12\x21\x22\x1f",
        b"\x32\x0c\x0a\x0a\x0a\x01p\x12\x05query",
        b"\x42\x0f\x12\x0d\x0a\x03200\x12\x06\x0a\x04\x0a\x02OK",
        &wrapped(b"\x2a", &wrapped(b"\x0a", &wrapped(b"\x0a", &named))),
    ];
    let encoded = encode_v3(&document);
    assert_eq!(encoded, expected.concat(), "{:02x?}", encoded);
}

#[test]
fn lists_and_parameters_have_the_descriptions_of_kubernetes() {
    let document = swagger();
    let list = &document["definitions"]["io.k8s.api.apps.v1.DeploymentList"];
    assert_eq!(list["description"], "DeploymentList is a list of Deployments.");
    assert_eq!(list["properties"]["items"]["description"], "Items is the list of Deployments.");
    assert_eq!(list["properties"]["metadata"]["description"], "Standard list metadata.");
    assert!(
        list["properties"]["kind"]["description"].as_str().unwrap().starts_with("Kind is a string value")
    );
    let described: Vec<(&str, &str)> = document["parameters"]
        .as_object()
        .unwrap()
        .values()
        .filter(|one| one["in"] == "query")
        .map(|one| (one["name"].as_str().unwrap(), one["description"].as_str().unwrap_or_default()))
        .collect();
    assert!(described.iter().all(|(_, text)| !text.is_empty()), "{described:?}");
    for (name, start) in [
        ("watch", "Watch for changes to the described resources and return them as a stream"),
        ("labelSelector", "A selector to restrict the list of returned objects by their labels."),
        ("pretty", "If 'true', then the output is pretty printed."),
        ("propagationPolicy", "Whether and how garbage collection will be performed."),
    ] {
        assert!(described.iter().any(|(found, text)| *found == name && text.starts_with(start)), "{name}");
    }
    let watch = &document["paths"]["/apis/apps/v1/watch/deployments"]["get"]["description"];
    assert!(watch.as_str().unwrap().starts_with("watch individual changes to a list of Deployment."));
}
