//! Objects nested as deep as kube-apiserver allows: all code that reads, changes, compares, encodes or drops them recurses,
//! and must not overflow its stack. The runtime is that of an embedding program, whose threads have 2 MiB of stack. These
//! tests must not hold such an object as a tree themselves: bodies are text.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::time::Duration;

use coracle::kube::Client;
use coracle::kube::client::Body;
use coracle::{Config, Coracle, Handle, StoreConfig};
use futures_util::{AsyncBufReadExt, TryStreamExt};
use http_body_util::BodyExt;
use serde_json::{Value, json};

/// Time limit for an idle cluster, far above the real duration, so that a hang fails the test.
const LIMIT: Duration = Duration::from_secs(120);

/// kube-apiserver's limit of the nesting depth.
const MAX_LEVELS: usize = 10_000;

/// Maximum depth of an object that can be patched: managedFields are four levels deeper than the object, with one more for
/// the innermost field.
const LEVELS: usize = MAX_LEVELS - 5;

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const MERGE: &str = "application/merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

const BOATS: &str = "/apis/example.com/v1/namespaces/default/boats";

struct Cluster {
    handle: Handle,
    client: Client,
}

struct Response {
    code: u16,
    body: Vec<u8>,
}

impl Response {
    #[track_caller]
    fn expect(self, code: u16) -> Self {
        assert_eq!(self.code, code, "{}", self.summary());
        self
    }

    fn summary(&self) -> String {
        let text = String::from_utf8_lossy(&self.body);
        let tail: String = text.chars().skip(text.chars().count().saturating_sub(300)).collect();
        text.chars().take(600).chain(" ... ".chars()).chain(tail.chars()).collect()
    }

    #[track_caller]
    fn contains(&self, part: &str) -> &Self {
        let found = self.body.windows(part.len()).any(|window| window == part.as_bytes());
        assert!(found, "{}", self.summary());
        self
    }
}

impl Cluster {
    async fn start() -> Self {
        let nowhere = Config::new("/nothing/is/written/there");
        let config = Config { store: StoreConfig::Memory, listen: Vec::new(), ..nowhere };
        let handle = Coracle::start(config).await.unwrap();
        let client = handle.client();
        let cluster = Self { handle, client };
        cluster.define_boats().await;
        cluster
    }

    async fn define_boats(&self) {
        let free = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let spec = json!({"type": "object", "properties": {"free": free, "size": {"type": "string"}}});
        let rules = json!([{"rule": "self.spec.size == oldSelf.spec.size || self.spec.size != ''"}]);
        let schema = json!({"type": "object", "properties": {"spec": spec, "status": free}, "x-kubernetes-validations": rules});
        let columns = json!([{"name": "All", "type": "string", "jsonPath": ".spec"}, {"name": "Size", "type": "string", "jsonPath": ".spec.size"}]);
        let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
            "subresources": {"status": {}}, "additionalPrinterColumns": columns});
        let names = json!({"plural": "boats", "singular": "boat", "kind": "Boat", "listKind": "BoatList"});
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "boats.example.com"},
            "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]},
        });
        self.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition.to_string())
            .await
            .expect(201);
        self.settle().await;
    }

    async fn settle(&self) {
        tokio::time::timeout(LIMIT, self.handle.run_until_idle()).await.unwrap().unwrap();
    }

    async fn send(
        &self,
        method: &str,
        path: &str,
        media: (&str, &str),
        body: impl Into<Vec<u8>>,
    ) -> Response {
        let request = http::Request::builder().method(method).uri(path);
        let request = request.header("content-type", media.0).header("accept", media.1);
        let response = self.client.send(request.body(Body::from(body.into())).unwrap()).await.unwrap();
        let code = response.status().as_u16();
        Response { code, body: response.into_body().collect().await.unwrap().to_bytes().to_vec() }
    }

    async fn post(&self, path: &str, body: &str) -> Response {
        self.send("POST", path, (JSON, JSON), body).await
    }

    async fn get(&self, path: &str, accept: &str) -> Response {
        self.send("GET", path, (JSON, accept), "").await
    }

    async fn patch(&self, path: &str, media_type: &str, body: &str) -> Response {
        self.send("PATCH", path, (media_type, JSON), body).await
    }

    /// Replaces a boat with the current resourceVersion.
    async fn put(&self, path: &str, media_type: &str, boat: &str) -> Response {
        let name = path.split('?').next().unwrap();
        let current = self.get(name, "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io").await;
        let text = String::from_utf8(current.expect(200).body).unwrap();
        let version = text.split("\"resourceVersion\":\"").nth(1).unwrap().split('"').next().unwrap();
        let with_version = format!(r#""metadata":{{"resourceVersion":"{version}","#);
        let body = boat.replacen(r#""metadata":{"#, &with_version, 1);
        self.send("PUT", path, (media_type, media_type), body).await
    }

    async fn delete(&self, path: &str, options: Value) -> Response {
        self.send("DELETE", path, (JSON, JSON), options.to_string()).await
    }
}

/// Wraps `inner` in objects or lists, `levels` deep.
fn nested(levels: usize, is_object: bool, inner: &str) -> String {
    let (begin, end) = if is_object { (r#"{"a":"#, "}") } else { ("[", "]") };
    format!("{}{inner}{}", begin.repeat(levels), end.repeat(levels))
}

/// A custom object that is nested `levels` deep.
fn boat(name: &str, levels: usize, is_object: bool, inner: &str) -> String {
    let deep = nested(levels - 3, is_object, inner);
    format!(
        r#"{{"apiVersion":"example.com/v1","kind":"Boat","metadata":{{"name":"{name}"}},"spec":{{"free":{{"deep":{deep}}},"size":"s"}}}}"#
    )
}

/// Runs a test on a runtime with default stacks, as an embedding program may have it.
fn run<F: Future<Output = ()>>(test: impl FnOnce() -> F) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(test());
}

#[test]
fn every_verb_on_deep_custom_object_succeeds() {
    run(async || {
        let cluster = Cluster::start().await;
        for is_object in [true, false] {
            every_verb(&cluster, is_object).await;
        }
        cluster.handle.shutdown().await;
    });
}

async fn every_verb(cluster: &Cluster, is_object: bool) {
    let one = format!("{BOATS}/a");
    let first = boat("a", LEVELS, is_object, "1");
    let deep = nested(LEVELS - 3, is_object, "1");

    cluster.post(&format!("{BOATS}?dryRun=All"), &first).await.expect(201).contains(&deep);
    let watch = format!("{BOATS}?watch=true&timeoutSeconds=120");
    let watch = http::Request::get(watch).body(Vec::new()).unwrap();
    let mut events = Box::pin(cluster.client.request_stream(watch).await.unwrap().lines());
    cluster.post(&format!("{BOATS}?fieldManager=first"), &first).await.expect(201).contains(&deep);
    let event = events.try_next().await.unwrap().unwrap();
    assert!(event.starts_with(r#"{"type":"ADDED""#) && event.contains(&deep));

    // Reads.
    let json = cluster.get(&one, JSON).await.expect(200);
    json.contains(&deep);
    cluster.get(&format!("{one}?pretty=true"), JSON).await.expect(200).contains("\"deep\": ");
    let yaml = cluster.get(&one, YAML).await.expect(200);
    yaml.contains("kind: Boat");
    cluster.get(BOATS, JSON).await.expect(200).contains(&deep);
    cluster.get(BOATS, YAML).await.expect(200).contains("kind: BoatList");
    cluster.get(BOATS, TABLE).await.expect(200).contains("columnDefinitions");
    cluster.get(&one, TABLE).await.expect(200).contains("columnDefinitions");
    for form in ["PartialObjectMetadata", "PartialObjectMetadataList"] {
        let path = if form.ends_with("List") { BOATS } else { &one };
        for media in [JSON, PROTOBUF] {
            let accept = format!("{media};as={form};v=v1;g=meta.k8s.io");
            cluster.get(path, &accept).await.expect(200);
        }
    }
    cluster.get(&format!("{BOATS}?fieldSelector=metadata.name%3Da"), JSON).await.expect(200).contains(&deep);

    // Updates and patches.
    let second = boat("a", LEVELS, is_object, "2");
    let update = format!("{one}?fieldManager=second");
    cluster.put(&update, JSON, &second).await.expect(200).contains("\"second\"");
    cluster.put(&update, YAML, &first).await.expect(200);
    cluster.patch(&one, MERGE, &format!(r#"{{"spec":{{"free":{{"deep":{deep}}}}}}}"#)).await.expect(200);
    cluster.patch(&one, MERGE, r#"{"spec":{"size":"m"}}"#).await.expect(200).contains(&deep);
    let operations = format!(
        r#"[{{"op":"test","path":"/spec/free/deep","value":{deep}}},{{"op":"copy","from":"/spec/free/deep","path":"/spec/free/again"}},{{"op":"remove","path":"/spec/free/deep"}},{{"op":"move","from":"/spec/free/again","path":"/spec/free/deep"}}]"#
    );
    cluster.patch(&one, JSON_PATCH, &operations).await.expect(200).contains(&deep);
    cluster
        .patch(&format!("{one}/status"), MERGE, &format!(r#"{{"status":{{"deep":{deep}}}}}"#))
        .await
        .expect(200);

    // Server-side apply.
    let apply = format!("{one}?fieldManager=third");
    cluster.patch(&apply, APPLY, &second).await.expect(409).contains("conflict");
    cluster.patch(&format!("{apply}&force=true"), APPLY, &second).await.expect(200).contains("\"third\"");
    cluster.patch(&format!("{apply}&force=true"), APPLY, &first).await.expect(200).contains(&deep);
    let bare = r#"{"apiVersion":"example.com/v1","kind":"Boat","metadata":{"name":"a"}}"#;
    cluster.patch(&format!("{one}?fieldManager=fourth"), APPLY, &first).await.expect(200);
    cluster.patch(&apply, APPLY, bare).await.expect(200).contains(&deep);
    cluster.patch(&format!("{one}?fieldManager=kubectl"), APPLY, &second).await.expect(409);

    // Creation in YAML, and deletion.
    let other = boat("b", LEVELS, is_object, "1");
    cluster.send("POST", BOATS, (YAML, YAML), &*other).await.expect(201);
    cluster.delete(&one, json!({})).await.expect(200);
    cluster.delete(&format!("{BOATS}?labelSelector=none"), json!({})).await.expect(200);
    cluster.delete(BOATS, json!({})).await.expect(200);
    loop {
        let event = events.try_next().await.unwrap().unwrap();
        if event.starts_with(r#"{"type":"DELETED""#) && event.contains("\"name\":\"b\"") {
            break;
        }
    }
    cluster.settle().await;
}

#[test]
fn deep_owner_and_dependent_are_garbage_collected() {
    run(async || {
        let cluster = Cluster::start().await;
        let owner = cluster.post(BOATS, &boat("owner", LEVELS, true, "1")).await.expect(201);
        let text = String::from_utf8(owner.body).unwrap();
        let uid = text.split("\"uid\":\"").nth(1).unwrap().split('"').next().unwrap();
        let reference = json!([{"apiVersion": "example.com/v1", "kind": "Boat", "name": "owner", "uid": uid, "blockOwnerDeletion": true}]);
        let dependent = boat("dependent", LEVELS, true, "1");
        let dependent = dependent.replace(
            r#""metadata":{"name":"dependent"}"#,
            &format!(r#""metadata":{{"name":"dependent","ownerReferences":{reference}}}"#),
        );
        cluster.post(BOATS, &dependent).await.expect(201);
        cluster.settle().await;
        cluster
            .delete(&format!("{BOATS}/owner"), json!({"propagationPolicy": "Foreground"}))
            .await
            .expect(200);
        cluster.settle().await;
        cluster.get(&format!("{BOATS}/dependent"), JSON).await.expect(404);
        cluster.get(&format!("{BOATS}/owner"), JSON).await.expect(404);
        cluster.handle.shutdown().await;
    });
}

#[test]
fn namespace_with_deep_objects_is_deleted() {
    run(async || {
        let cluster = Cluster::start().await;
        // managedFields are not limited by a schema, and the namespace controller reads the object.
        let fields = nested(2_000, true, "{}").replace("\"a\"", "\"f:a\"");
        let entry = format!(
            r#"{{"manager":"m","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{fields}}}"#
        );
        let namespace = format!(r#"{{"metadata":{{"name":"deep","managedFields":[{entry}]}}}}"#);
        cluster.post("/api/v1/namespaces", &namespace).await.expect(201);
        cluster.settle().await;
        let boats = BOATS.replace("default", "deep");
        cluster.post(&boats, &boat("a", LEVELS, true, "1")).await.expect(201);
        cluster.delete("/api/v1/namespaces/deep", json!({})).await.expect(200);
        cluster.settle().await;
        cluster.get("/api/v1/namespaces/deep", JSON).await.expect(404);
        cluster.handle.shutdown().await;
    });
}

#[test]
fn deep_raw_extension_round_trips_in_json_and_protobuf() {
    run(async || {
        let cluster = Cluster::start().await;
        let revisions = "/apis/apps/v1/namespaces/default/controllerrevisions";
        let deep = nested(LEVELS - 1, true, "1");
        let body = format!(r#"{{"metadata":{{"name":"a"}},"revision":1,"data":{deep}}}"#);
        cluster.post(revisions, &body).await.expect(201).contains(&deep);
        let one = format!("{revisions}/a");
        let message = cluster.get(&one, PROTOBUF).await.expect(200);
        message.contains(&deep);
        cluster.get(revisions, PROTOBUF).await.expect(200).contains(&deep);
        let labels = r#"{"metadata":{"labels":{"a":"b"}}}"#;
        cluster
            .patch(&one, "application/strategic-merge-patch+json", labels)
            .await
            .expect(200)
            .contains(&deep);
        cluster.send("PUT", &one, (PROTOBUF, PROTOBUF), message.body).await.expect(409);
        let message = cluster.get(&one, PROTOBUF).await.expect(200);
        cluster.send("PUT", &one, (PROTOBUF, JSON), message.body).await.expect(200).contains(&deep);
        cluster.get(revisions, TABLE).await.expect(200);
        cluster.settle().await;
        cluster.delete(&one, json!({})).await.expect(200);
        cluster.handle.shutdown().await;
    });
}

#[test]
fn policy_evaluates_deep_object() {
    run(async || {
        let cluster = Cluster::start().await;
        let rules = json!([{"apiGroups": ["example.com"], "apiVersions": ["*"], "resources": ["boats"], "operations": ["UPDATE"]}]);
        let validations =
            json!([{"expression": "object.spec.free == oldObject.spec.free", "message": "free is fixed"}]);
        let policy = json!({"metadata": {"name": "fixed"}, "spec": {"matchConstraints": {"resourceRules": rules}, "validations": validations}});
        let group = "/apis/admissionregistration.k8s.io/v1";
        cluster.post(&format!("{group}/validatingadmissionpolicies"), &policy.to_string()).await.expect(201);
        let binding = json!({"metadata": {"name": "fixed"}, "spec": {"policyName": "fixed", "validationActions": ["Deny"]}});
        cluster
            .post(&format!("{group}/validatingadmissionpolicybindings"), &binding.to_string())
            .await
            .expect(201);
        cluster.settle().await;
        cluster.post(BOATS, &boat("a", LEVELS, true, "1")).await.expect(201);
        let one = format!("{BOATS}/a");
        cluster.patch(&one, MERGE, r#"{"spec":{"size":"l"}}"#).await.expect(200);
        let changed = boat("a", LEVELS, true, "2");
        cluster.put(&one, JSON, &changed).await.expect(422).contains("free is fixed");
        cluster.handle.shutdown().await;
    });
}

#[test]
fn object_one_level_above_limit_is_rejected() {
    run(async || {
        let cluster = Cluster::start().await;
        let deepest = boat("a", MAX_LEVELS, true, "1");
        cluster.post(BOATS, &deepest).await.expect(201);
        for is_object in [true, false] {
            let deeper = boat("b", MAX_LEVELS + 1, is_object, "1");
            cluster.post(BOATS, &deeper).await.expect(400).contains("exceeded max depth");
            let yaml = cluster.send("POST", BOATS, (YAML, JSON), &*deeper).await;
            yaml.expect(400).contains("exceeded max depth of 10000");
            let apply = cluster.patch(&format!("{BOATS}/b?fieldManager=m"), APPLY, &deeper).await;
            apply.expect(400).contains("exceeded max depth of 10000");
        }
        let deeper = nested(MAX_LEVELS, true, "1");
        let merge = cluster.patch(&format!("{BOATS}/a"), MERGE, &format!(r#"{{"spec":{deeper}}}"#)).await;
        merge.expect(400).contains("exceeded max depth");
        // The patch is within the limit, but its result is not.
        let half = nested(MAX_LEVELS / 2, true, "{}");
        let into = "/a".repeat(MAX_LEVELS / 2 - 3);
        let operations = format!(
            r#"[{{"op":"add","path":"/spec/free/deep","value":{half}}},{{"op":"copy","from":"/spec/free/deep","path":"/spec/free/deep{into}/b"}},{{"op":"copy","from":"/spec/free/deep","path":"/spec/free/deep{into}/b"}}]"#
        );
        cluster.post(BOATS, &boat("c", 10, true, "1")).await.expect(201);
        let patched = cluster.patch(&format!("{BOATS}/c"), JSON_PATCH, &operations).await;
        patched.expect(422);
        cluster.handle.shutdown().await;
    });
}

#[test]
fn body_of_brackets_only_is_rejected() {
    run(async || {
        let cluster = Cluster::start().await;
        cluster.post(BOATS, &boat("a", 5, true, "1")).await.expect(201);
        for text in ["[", r#"{"a":"#] {
            let body = text.repeat(3 * 1024 * 1024 / text.len());
            for media in [JSON, YAML, APPLY, MERGE, JSON_PATCH] {
                let (method, path) = match media {
                    JSON | YAML => ("POST", BOATS.to_owned()),
                    _ => ("PATCH", format!("{BOATS}/a?fieldManager=m")),
                };
                let response = cluster.send(method, &path, (media, JSON), &*body).await;
                assert!(matches!(response.code, 400 | 413), "{media} {}", response.summary());
            }
        }
        cluster.handle.shutdown().await;
    });
}
