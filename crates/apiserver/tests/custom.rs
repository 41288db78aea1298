//! Custom resources: every verb, with the schema, columns and versions of their definition.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

use coracle_meta::go_json::from_stored;
use http::Method;
use serde_json::{Value, json};
use support::{Client, MERGE};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const BOATS: &str = "/apis/example.com/v1/namespaces/default/boats";
const JSON: &str = "application/json";
const APPLY: &str = "application/apply-patch+yaml";

impl Client {
    async fn get(&self, path: &str) -> (u16, Value) {
        self.get_as(path, JSON).await
    }

    async fn get_as(&self, path: &str, accept: &str) -> (u16, Value) {
        self.send(Method::GET, path, accept, Value::Null).await
    }
}

fn schema() -> Value {
    let crew = json!({
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "items": {
            "type": "object",
            "required": ["name"],
            "properties": {"name": {"type": "string"}, "rank": {"type": "string"}},
        },
    });
    let spec = json!({
        "type": "object",
        "properties": {
            "size": {"type": "string", "enum": ["small", "large"]},
            "color": {"type": "string", "default": "blue"},
            "replicas": {"type": "integer"},
            "crew": crew,
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        },
    });
    let status = json!({
        "type": "object",
        "properties": {"replicas": {"type": "integer"}, "selector": {"type": "string"}, "phase": {"type": "string"}},
    });
    json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}})
}

fn definition() -> Value {
    let scale = json!({
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    });
    let columns = json!([
        {"name": "Size", "type": "string", "jsonPath": ".spec.size"},
        {"name": "Replicas", "type": "integer", "jsonPath": ".spec.replicas", "priority": 1},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]);
    let version = json!({
        "name": "v1",
        "served": true,
        "storage": true,
        "schema": schema(),
        "subresources": {"status": {}, "scale": scale},
        "additionalPrinterColumns": columns,
        "selectableFields": [{"jsonPath": ".spec.size"}],
    });
    let older = json!({"name": "v1beta1", "served": true, "storage": false, "deprecated": true, "selectableFields": [{"jsonPath": ".spec.size"}],
        "schema": schema()});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "boats.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "boats", "singular": "boat", "kind": "Boat", "listKind": "BoatList", "shortNames": ["bt"]},
            "versions": [version, older],
        },
    })
}

fn boat(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Boat", "metadata": {"name": name}, "spec": spec})
}

/// A server with the definition. The test accepts its names, since no controller runs.
async fn harbour() -> Client {
    let client = Client::new().await;
    let (code, created) = client.post(DEFINITIONS, definition()).await;
    assert_eq!(code, 201, "{created}");
    assert_eq!(client.get(BOATS).await.0, 404, "not before it is established");
    establish(&client).await;
    client
}

async fn establish(client: &Client) {
    let path = format!("{DEFINITIONS}/boats.example.com");
    let (_, mut definition) = client.get(&path).await;
    let names = definition["spec"]["names"].clone();
    definition["status"]["acceptedNames"] = names;
    definition["status"]["conditions"] = json!([
        {"type": "NamesAccepted", "status": "True", "reason": "NoConflicts", "message": ""},
        {"type": "Established", "status": "True", "reason": "InitialNamesAccepted", "message": ""},
    ]);
    let (code, answer) = client.send(Method::PUT, &format!("{path}/status"), JSON, definition).await;
    assert_eq!(code, 200, "{answer}");
}

#[tokio::test]
async fn objects_are_created_read_changed_and_deleted() {
    let client = harbour().await;
    let (code, created) = client.post(BOATS, boat("a", json!({"size": "small"}))).await;
    assert_eq!(code, 201, "{created}");
    assert_eq!(created["spec"], json!({"size": "small", "color": "blue"}), "with its default");
    assert_eq!(created["metadata"]["generation"], 1);
    assert_eq!(created["metadata"]["managedFields"][0]["apiVersion"], "example.com/v1");

    let one = format!("{BOATS}/a");
    let (_, mut read) = client.get(&one).await;
    assert_eq!(read, created);
    read["spec"]["size"] = json!("large");
    read["status"] = json!({"phase": "not written here"});
    let (code, updated) = client.send(Method::PUT, &one, JSON, read.clone()).await;
    assert_eq!((code, &updated["metadata"]["generation"], updated.get("status")), (200, &json!(2), None));
    assert_eq!(client.send(Method::PUT, &one, JSON, read).await.0, 409, "it has changed");

    let patch = json!([{"op": "replace", "path": "/spec/size", "value": "small"}]);
    let (code, patched) = client.send(Method::PATCH, &one, "application/json-patch+json", patch).await;
    assert_eq!((code, &patched["spec"]["size"]), (200, &json!("small")));
    let (code, patched) = client.send(Method::PATCH, &one, MERGE, json!({"spec": {"color": null}})).await;
    assert_eq!((code, &patched["spec"]["color"]), (200, &json!("blue")), "the default comes back");
    let strategic = "application/strategic-merge-patch+json";
    let (code, refused) = client.send(Method::PATCH, &one, strategic, json!({})).await;
    assert_eq!((code, &refused["reason"]), (415, &json!("UnsupportedMediaType")));

    let (code, list) = client.get(BOATS).await;
    assert_eq!(
        (code, &list["kind"], &list["apiVersion"]),
        (200, &json!("BoatList"), &json!("example.com/v1"))
    );
    assert_eq!(list["items"][0]["kind"], "Boat", "items of custom kinds tell their kind");
    let (code, gone) = client.send(Method::DELETE, &one, JSON, Value::Null).await;
    assert_eq!((code, &gone["status"]), (200, &json!("Success")));
    assert_eq!(client.get(&one).await.0, 404);
}

#[tokio::test]
async fn invalid_fields_are_rejected_and_unknown_fields_pruned() {
    let client = harbour().await;
    let (code, refused) = client.post(BOATS, boat("a", json!({"size": "huge"}))).await;
    assert_eq!(code, 422, "{refused}");
    assert_eq!(refused["details"]["causes"][0]["field"], "spec.size");
    let spec = json!({"size": "small", "sail": 1, "free": {"any": {"thing": true}}, "crew": [{"name": "x", "y": 1}]});
    let (_, created) = client.post(BOATS, boat("a", spec.clone())).await;
    let kept =
        json!({"size": "small", "color": "blue", "free": {"any": {"thing": true}}, "crew": [{"name": "x"}]});
    assert_eq!(created["spec"], kept);
    let strict = format!("{BOATS}?fieldValidation=Strict");
    let (code, refused) = client.post(&strict, boat("b", spec)).await;
    let message = refused["message"].as_str().unwrap();
    assert_eq!(code, 400);
    assert!(message.contains("unknown field \"spec.crew[0].y\", unknown field \"spec.sail\""), "{message}");
    let wrong = json!({"apiVersion": "example.com/v2", "kind": "Boat", "metadata": {"name": "c"}});
    let (code, refused) = client.post(BOATS, wrong).await;
    assert_eq!(code, 400);
    assert!(refused["message"].as_str().unwrap().starts_with("the API version in the data (example.com/v2)"));
    let nameless = json!({"apiVersion": "example.com/v1", "kind": "Ship", "metadata": {"name": "c"}});
    assert_eq!(client.post(BOATS, nameless).await.0, 422);
}

#[tokio::test]
async fn status_and_scale_are_subresources() {
    let client = harbour().await;
    client.post(BOATS, boat("a", json!({"size": "small"}))).await;
    let (one, scale) = (format!("{BOATS}/a"), format!("{BOATS}/a/scale"));
    let (code, refused) = client.get(&scale).await;
    assert_eq!(code, 500);
    assert!(
        refused["message"]
            .as_str()
            .unwrap()
            .contains("the spec replicas field \".spec.replicas\" does not exist")
    );
    let status = json!({"metadata": {"labels": {"not": "written"}}, "spec": {"size": "large"}, "status": {"replicas": 2, "selector": "a=b"}});
    let (code, written) = client.send(Method::PATCH, &format!("{one}/status"), MERGE, status).await;
    assert_eq!(code, 200, "{written}");
    assert_eq!((&written["spec"]["size"], &written["status"]["replicas"]), (&json!("small"), &json!(2)));
    assert_eq!((&written["metadata"]["generation"], written["metadata"].get("labels")), (&json!(1), None));

    let (code, scaled) = client.send(Method::PATCH, &scale, MERGE, json!({"spec": {"replicas": 3}})).await;
    assert_eq!(code, 200, "{scaled}");
    assert_eq!(scaled["kind"], "Scale");
    assert_eq!(
        (&scaled["spec"], &scaled["status"]),
        (&json!({"replicas": 3}), &json!({"replicas": 2, "selector": "a=b"}))
    );
    let (_, read) = client.get(&one).await;
    assert_eq!((&read["spec"]["replicas"], &read["metadata"]["generation"]), (&json!(3), &json!(2)));
    assert_eq!(client.get(&format!("{one}/log")).await.0, 404);
}

#[tokio::test]
async fn configurations_are_applied() {
    let client = harbour().await;
    let one = format!("{BOATS}/a?fieldManager=one");
    let crew = |name: &str| json!({"crew": [{"name": name, "rank": "mate"}]});
    let (code, applied) = client.send(Method::PATCH, &one, APPLY, boat("a", crew("x"))).await;
    assert_eq!(code, 201, "{applied}");
    let two = format!("{BOATS}/a?fieldManager=two");
    let (code, applied) = client.send(Method::PATCH, &two, APPLY, boat("a", crew("y"))).await;
    assert_eq!((code, applied["spec"]["crew"].as_array().unwrap().len()), (200, 2), "merged by name");
    let (code, applied) = client.send(Method::PATCH, &one, APPLY, boat("a", json!({}))).await;
    assert_eq!((code, &applied["spec"]["crew"]), (200, &json!([{"name": "y", "rank": "mate"}])));
    let other = json!({"crew": [{"name": "y", "rank": "captain"}]});
    let (code, conflict) = client.send(Method::PATCH, &one, APPLY, boat("a", other)).await;
    assert_eq!(code, 409, "{conflict}");
    let (code, refused) = client.send(Method::PATCH, &one, APPLY, boat("a", json!({"sail": 1}))).await;
    assert_eq!(code, 500);
    assert!(refused["message"].as_str().unwrap().contains(".spec.sail: field not declared in schema"));
}

#[tokio::test]
async fn tables_and_selectors_follow_the_definition() {
    let client = harbour().await;
    client.post(BOATS, boat("a", json!({"size": "small", "replicas": 2}))).await;
    client.post(BOATS, boat("b", json!({"size": "large"}))).await;
    let (_, table) = client.get_as(BOATS, "application/json;as=Table;v=v1;g=meta.k8s.io").await;
    let names: Vec<_> =
        table["columnDefinitions"].as_array().unwrap().iter().map(|column| &column["name"]).collect();
    assert_eq!(names, ["Name", "Size", "Replicas", "Age"]);
    assert_eq!(table["rows"][0]["cells"].as_array().unwrap()[..3], [json!("a"), json!("small"), json!(2)]);
    let (_, selected) = client.get(&format!("{BOATS}?fieldSelector=spec.size=large")).await;
    assert_eq!(selected["items"].as_array().unwrap().len(), 1);
    assert_eq!(client.get(&format!("{BOATS}?fieldSelector=spec.color=blue")).await.0, 400);
    let (_, metadata) =
        client.get_as(BOATS, "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io").await;
    assert_eq!(metadata["items"][1]["metadata"]["name"], "b");
}

#[tokio::test]
async fn every_version_shows_the_same_objects() {
    let client = harbour().await;
    let older = "/apis/example.com/v1beta1/namespaces/default/boats";
    let mut sent = boat("a", json!({"size": "small"}));
    sent["apiVersion"] = json!("example.com/v1beta1");
    let (code, created) = client.post(older, sent).await;
    assert_eq!((code, &created["apiVersion"]), (201, &json!("example.com/v1beta1")));
    assert_eq!(created["metadata"]["managedFields"][0]["apiVersion"], "example.com/v1beta1");
    let (_, read) = client.get(&format!("{BOATS}/a")).await;
    assert_eq!(read["apiVersion"], "example.com/v1");
    let (_, list) = client.get(older).await;
    assert_eq!(list["items"][0]["apiVersion"], "example.com/v1beta1");
    let patch = boat("a", json!({"size": "small"}));
    let path = format!("{BOATS}/a?fieldManager=other");
    let (code, applied) = client.send(Method::PATCH, &path, APPLY, patch).await;
    assert_eq!(code, 200, "owned by both: {applied}");
}

#[tokio::test]
async fn ownership_of_fields_holds_across_versions() {
    let client = harbour().await;
    client.post(&format!("{BOATS}?fieldManager=creator"), boat("a", json!({"size": "small"}))).await;
    let older = "/apis/example.com/v1beta1/namespaces/default/boats/a?fieldManager=me";
    let mut config = boat("a", json!({"size": "large"}));
    config["apiVersion"] = json!("example.com/v1beta1");
    let (code, refused) = client.send(Method::PATCH, older, APPLY, config.clone()).await;
    let message = "Apply failed with 1 conflict: conflict with \"creator\" using example.com/v1: .spec.size";
    assert_eq!((code, &refused["message"]), (409, &json!(message)));
    let (code, forced) = client.send(Method::PATCH, &format!("{older}&force=true"), APPLY, config).await;
    assert_eq!((code, &forced["spec"]["size"]), (200, &json!("large")), "{forced}");
    let config = boat("a", json!({"replicas": 1}));
    let (code, applied) =
        client.send(Method::PATCH, &format!("{BOATS}/a?fieldManager=me"), APPLY, config).await;
    let left = json!({"color": "blue", "replicas": 1});
    assert_eq!((code, &applied["spec"]), (200, &left), "what was applied in the other version is removed");
}

#[tokio::test]
async fn objects_show_defaults_that_came_later() {
    let client = harbour().await;
    client.post(BOATS, boat("a", json!({"size": "small", "replicas": 1}))).await;
    let path = format!("{DEFINITIONS}/boats.example.com");
    let (_, mut changed) = client.get(&path).await;
    for version in 0..2 {
        let properties =
            format!("/spec/versions/{version}/schema/openAPIV3Schema/properties/spec/properties");
        let properties = changed.pointer_mut(&properties).unwrap();
        properties["mast"] = json!({"type": "integer", "default": 1});
        properties.as_object_mut().unwrap().remove("replicas");
    }
    let (code, answer) = client.send(Method::PUT, &path, JSON, changed).await;
    assert_eq!(code, 200, "{answer}");
    let expected = json!({"size": "small", "color": "blue", "mast": 1});
    let (_, read) = client.get(&format!("{BOATS}/a")).await;
    assert_eq!(read["spec"], expected, "what is no longer known is not seen");
    let (_, list) = client.get(BOATS).await;
    assert_eq!(list["items"][0]["spec"], expected);
    client.post(BOATS, boat("b", json!({"size": "small"}))).await;
    assert_eq!(client.get(&format!("{BOATS}/b")).await.1["spec"], expected);
}

#[tokio::test]
async fn a_definition_that_goes_takes_no_new_objects() {
    let client = harbour().await;
    client.post(BOATS, boat("a", json!({"size": "small"}))).await;
    let path = format!("{DEFINITIONS}/boats.example.com");
    let (code, going) = client.send(Method::DELETE, &path, JSON, Value::Null).await;
    assert_eq!(code, 200, "{going}");
    assert_eq!(going["metadata"]["finalizers"], json!(["customresourcecleanup.apiextensions.k8s.io"]));
    assert_eq!(going["status"]["conditions"][2]["reason"], "InstanceDeletionPending");
    let (code, refused) = client.post(BOATS, boat("b", json!({"size": "small"}))).await;
    assert_eq!((code, &refused["reason"]), (403, &json!("Forbidden")));
    assert_eq!(client.send(Method::DELETE, BOATS, JSON, Value::Null).await.0, 200, "old ones can go");
    let finalized = json!({"metadata": {"finalizers": null}});
    let (code, _) = client.send(Method::PATCH, &path, MERGE, finalized).await;
    assert_eq!(code, 200);
    assert_eq!(client.get(&path).await.0, 404);
    assert_eq!(client.get(BOATS).await.0, 404);
}

#[tokio::test]
async fn discovery_and_openapi_include_custom_kinds() {
    let client = harbour().await;
    let (_, groups) = client.get("/apis").await;
    let last = groups["groups"].as_array().unwrap().last().unwrap().clone();
    assert_eq!((&last["name"], &last["preferredVersion"]["version"]), (&json!("example.com"), &json!("v1")));
    assert_eq!(last["versions"].as_array().unwrap().len(), 2);
    let (_, group) = client.get("/apis/example.com").await;
    assert_eq!((&group["kind"], &group["name"]), (&json!("APIGroup"), &json!("example.com")));
    let (_, resources) = client.get("/apis/example.com/v1").await;
    let names: Vec<_> = resources["resources"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert_eq!(names, ["boats", "boats/status", "boats/scale"]);
    assert_eq!(resources["resources"][0]["shortNames"], json!(["bt"]));
    let newer = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let (_, told) = client.get_as("/apis", newer).await;
    let last = told["items"].as_array().unwrap().last().unwrap();
    let kind = json!({"group": "example.com", "version": "v1", "kind": "Boat"});
    assert_eq!(last["versions"][0]["resources"][0]["responseKind"], kind);

    let (_, index) = client.get("/openapi/v3").await;
    let url = index["paths"]["apis/example.com/v1"]["serverRelativeURL"].as_str().unwrap();
    let (_, document) = client.get(url).await;
    let boat = &document["components"]["schemas"]["com.example.v1.Boat"];
    assert_eq!(boat["properties"]["spec"]["properties"]["color"]["default"], "blue");
    assert!(document["components"]["schemas"]["io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"].is_object());
    assert!(document["paths"]["/apis/example.com/v1/namespaces/{namespace}/boats/{name}/scale"].is_object());
    let (_, document) = client.get("/openapi/v2").await;
    let kinds = &document["definitions"]["com.example.v1beta1.BoatList"]["x-kubernetes-group-version-kind"];
    assert_eq!(kinds[0]["kind"], "BoatList");
    assert_eq!(client.get("/apis/other.example.com").await.0, 404);
}

/// A definition with the versions v1 and v2, each with a field of its own and its own default; v2 is stored.
async fn two_versions() -> Client {
    let client = Client::new().await;
    let version = |name: &str, own: &str| {
        let properties = json!({own: {"type": "string"}, "color": {"type": "string", "default": name}});
        let spec = json!({"type": "object", "properties": properties});
        let schema = json!({"type": "object", "properties": {"spec": spec}});
        json!({"name": name, "served": true, "storage": name == "v2", "schema": {"openAPIV3Schema": schema}})
    };
    let mut definition = definition();
    definition["spec"]["versions"] = json!([version("v1", "sails"), version("v2", "engine")]);
    let (code, created) = client.post(DEFINITIONS, definition).await;
    assert_eq!(code, 201, "{created}");
    establish(&client).await;
    client
}

#[tokio::test]
async fn fields_that_the_stored_version_does_not_have_are_dropped() {
    let client = two_versions().await;
    let spec = json!({"sails": "three", "color": "red"});
    let (code, created) = client.post(BOATS, boat("a", spec.clone())).await;
    assert_eq!((code, &created["spec"]), (201, &json!({"color": "red"})), "{created}");
    let apply = format!("{BOATS}/b?fieldManager=test");
    let (code, applied) = client.send(Method::PATCH, &apply, APPLY, boat("b", spec)).await;
    assert_eq!((code, &applied["spec"]), (201, &json!({"color": "red"})), "{applied}");
    for path in [format!("{BOATS}/a"), format!("{BOATS}/a").replace("/v1/", "/v2/")] {
        assert_eq!(client.get(&path).await.1["spec"], json!({"color": "red"}), "{path}");
    }
}

#[tokio::test]
async fn stored_objects_are_read_with_the_defaults_of_the_stored_version() {
    let client = two_versions().await;
    let boats = BOATS.replace("/v1/", "/v2/");
    let mut boat = boat("a", json!({"engine": "diesel"}));
    boat["apiVersion"] = json!("example.com/v2");
    assert_eq!(client.post(&boats, boat).await.1["spec"], json!({"engine": "diesel", "color": "v2"}));
    assert_eq!(client.get(&format!("{BOATS}/a")).await.1["spec"], json!({"color": "v2"}));
}

#[tokio::test]
async fn selector_of_an_unknown_field_is_rejected() {
    let client = harbour().await;
    let list = |field: &str| format!("{BOATS}?fieldSelector={field}%3Da");
    assert_eq!(client.get(&list("metadata.namespace")).await.0, 200);
    let (code, answer) = client.get(&list("spec.color")).await;
    assert_eq!((code, &answer["message"]), (400, &json!("field label not supported: spec.color")));
}

/// Deeper than `serde_json` reads, and as deep as managedFields leave room for.
#[tokio::test]
async fn deep_object_is_read_patched_and_applied() {
    const DEPTH: usize = 190;
    // The client of the tests takes JSON that is too deep for `serde_json` as text.
    let spec_of = |answer: &Value| from_stored(answer.as_str().unwrap().as_bytes()).unwrap()["spec"].take();
    let client = harbour().await;
    let free = (0..DEPTH - 4).fold(json!(1), |inner, level| match level % 2 {
        0 => json!([inner]),
        _ => json!({"a": inner}),
    });
    let deep = boat("a", json!({"free": {"deep": free}}));
    let (code, created) = client.post(BOATS, deep.clone()).await;
    assert_eq!((code, &spec_of(&created)["free"]["deep"]), (201, &free));
    let one = format!("{BOATS}/a");
    let (code, patched) = client.send(Method::PATCH, &one, MERGE, json!({"spec": {"size": "large"}})).await;
    assert_eq!((code, &spec_of(&patched)["free"]["deep"]), (200, &free), "{patched}");
    let patch = json!([{"op": "replace", "path": "/spec/size", "value": "small"}]);
    assert_eq!(client.send(Method::PATCH, &one, "application/json-patch+json", patch).await.0, 200);
    let apply = format!("{one}?fieldManager=test&force=true");
    assert_eq!(client.send(Method::PATCH, &apply, APPLY, deep).await.0, 200);
    let (code, yaml) = client.get_as(&one, "application/yaml").await;
    assert!(code == 200 && yaml.as_str().unwrap().contains("deep:"), "{code}");
    let (code, table) = client.get_as(BOATS, "application/json;as=Table;v=v1;g=meta.k8s.io").await;
    assert!(code == 200 && table.to_string().contains("columnDefinitions"), "{code}");
}
