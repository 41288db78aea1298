//! In which form answers come: JSON, YAML, protobuf, tables and metadata, compressed or indented.

use crate::client::{CONFIG_MAPS, Client, PROTOBUF, bytes, content_type};
use coracle_api::codec::{Target, protobuf, yaml};
use coracle_api::schema::types;
use http::Method;
use serde_json::{Value, json};

const METADATA: &str = "as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const METADATA_LIST: &str = "as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

fn from_protobuf(body: &[u8]) -> Value {
    protobuf::decode(body, None).unwrap().object
}

#[tokio::test]
async fn every_format_has_the_same_object() {
    let client = Client::new().await;
    client.create("a", "x").await;
    let path = format!("{CONFIG_MAPS}/a");
    let (_, object) = client.get(&path).await;

    let response = client.accept(&path, PROTOBUF).await;
    assert_eq!(content_type(&response), PROTOBUF);
    assert_eq!(from_protobuf(&bytes(response).await), object);
    let response = client.accept(&path, "application/yaml").await;
    assert_eq!(content_type(&response), "application/yaml");
    assert_eq!(yaml::decode(&bytes(response).await, Target::Any).unwrap().object, object);

    let expected = json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]});
    for form in ["application/json", PROTOBUF] {
        let response = client.accept(&path, &format!("{form};{METADATA}")).await;
        assert_eq!(content_type(&response), form);
        let body = bytes(response).await;
        let found =
            if form == PROTOBUF { from_protobuf(&body) } else { serde_json::from_slice(&body).unwrap() };
        assert_eq!(found, expected, "{form}");
    }
}

#[tokio::test]
async fn every_format_has_the_same_list() {
    let client = Client::new().await;
    for name in ["a", "b", "c"] {
        client.create(name, "x").await;
    }
    let (_, mut list) = client.get(&format!("{CONFIG_MAPS}?limit=2")).await;
    // A token begins with its revision, which is the same for all of these.
    let body = bytes(client.accept(&format!("{CONFIG_MAPS}?limit=2"), PROTOBUF).await).await;
    let id = types().kind("", "v1", "ConfigMapList").unwrap();
    let found = protobuf::decode(&body, Some(id)).unwrap().object;
    assert_eq!(found, list);
    let body = bytes(client.accept(&format!("{CONFIG_MAPS}?limit=2"), "application/yaml").await).await;
    assert_eq!(yaml::decode(&body, Target::Any).unwrap().object, list);

    for item in list["items"].as_array_mut().unwrap() {
        *item = json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": item["metadata"]});
    }
    list["kind"] = json!("PartialObjectMetadataList");
    list["apiVersion"] = json!("meta.k8s.io/v1");
    let json_form = format!("application/json;{METADATA_LIST}");
    let body = bytes(client.accept(&format!("{CONFIG_MAPS}?limit=2"), &json_form).await).await;
    assert_eq!(serde_json::from_slice::<Value>(&body).unwrap(), list);
    let form = format!("{PROTOBUF};{METADATA_LIST}");
    let found = from_protobuf(&bytes(client.accept(&format!("{CONFIG_MAPS}?limit=2"), &form).await).await);
    assert_eq!(found["items"][1]["metadata"], list["items"][1]["metadata"]);

    let (_, empty) = client.get("/api/v1/secrets").await;
    assert_eq!(empty["items"], json!([]), "and not null");
    let wrong = client.accept(CONFIG_MAPS, &format!("application/json;{METADATA}")).await;
    assert_eq!(wrong.status(), 406);
}

#[tokio::test]
async fn rows_hold_what_is_asked_for() {
    let client = Client::new().await;
    client.create("a", "x").await;
    let form = "application/json;as=Table;g=meta.k8s.io;v=v1";
    let table = |query: &'static str| {
        let client = client.clone();
        async move {
            let body = bytes(client.accept(&format!("{CONFIG_MAPS}{query}"), form).await).await;
            serde_json::from_slice::<Value>(&body).unwrap()
        }
    };
    assert_eq!(table("").await["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    assert_eq!(table("?includeObject=None").await["rows"][0]["object"], Value::Null);
    let whole = table("?includeObject=Object").await;
    assert_eq!(whole["rows"][0]["object"]["data"]["key"], "value");
    assert_eq!(whole["rows"][0]["cells"][0], "a");
    let refused = client.accept(&format!("{CONFIG_MAPS}?includeObject=x"), form).await;
    assert_eq!(refused.status(), 400);
}

#[tokio::test]
async fn errors_have_the_accepted_format() {
    let client = Client::new().await;
    let path = format!("{CONFIG_MAPS}/missing");
    let (_, expected) = client.get(&path).await;
    let response = client.accept(&path, PROTOBUF).await;
    assert_eq!((response.status().as_u16(), content_type(&response)), (404, PROTOBUF));
    assert_eq!(from_protobuf(&bytes(response).await), expected);
    let response = client.accept(&path, "application/yaml").await;
    assert_eq!(content_type(&response), "application/yaml");
    assert_eq!(yaml::decode(&bytes(response).await, Target::Any).unwrap().object, expected);
    // Tables are not offered for refusals: they come in JSON for people.
    let response = client.accept(&path, "application/json;as=Table;g=meta.k8s.io;v=v1").await;
    let text = bytes(response).await;
    assert!(text.starts_with(b"{\n  \"kind\": \"Status\""), "{text:?}");
    let response = client.accept("/nowhere", "application/json").await;
    assert_eq!(bytes(response).await, "404 page not found\n");
}

#[tokio::test]
async fn pretty_json_has_line_breaks() {
    let client = Client::new().await;
    client.create("a", "x").await;
    let path = format!("{CONFIG_MAPS}/a");
    let plain = bytes(client.accept(&path, "application/json").await).await;
    assert!(plain.starts_with(b"{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"a\""));
    assert!(plain.ends_with(b"}\n"), "an answer ends its line");
    let by_agent = client.send(Method::GET, &path, &[("user-agent", "curl/8.0")], "").await;
    let by_query = client.accept(&format!("{path}?pretty=true"), "application/json").await;
    let by_form = client.accept(&path, "application/json;pretty=1").await;
    for response in [by_agent, by_query, by_form] {
        let text = bytes(response).await;
        assert!(text.starts_with(b"{\n  \"kind\": \"ConfigMap\",\n") && text.ends_with(b"\n}"), "{text:?}");
        let parsed: Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(parsed, serde_json::from_slice::<Value>(&plain).unwrap());
    }
    let refused =
        client.send(Method::GET, &format!("{path}?pretty=0"), &[("user-agent", "curl/8.0")], "").await;
    assert_eq!(bytes(refused).await, plain);
}

#[tokio::test]
async fn large_answers_are_compressed() {
    let client = Client::new().await;
    for index in 0..40 {
        let data = format!("{index}").repeat(5_000);
        let object = json!({"metadata": {"name": format!("a{index}")}, "data": {"key": data}});
        client.json(Method::POST, CONFIG_MAPS, object).await;
    }
    let plain = bytes(client.accept(CONFIG_MAPS, "application/json").await).await;
    assert!(plain.len() > 128 * 1024);
    for form in ["application/json", PROTOBUF, "application/yaml"] {
        let plain = bytes(client.accept(CONFIG_MAPS, form).await).await;
        let headers = [("accept", form), ("accept-encoding", "br, gzip")];
        let response = client.send(Method::GET, CONFIG_MAPS, &headers, "").await;
        assert_eq!(response.headers()["content-encoding"], "gzip");
        assert_eq!(response.headers()["vary"], "Accept-Encoding");
        let packed = bytes(response).await;
        assert!(packed.len() < plain.len() / 4);
        let inflated = miniz_oxide::inflate::decompress_to_vec(&packed[10..packed.len() - 8]).unwrap();
        assert_eq!(inflated, plain, "{form}");
    }
    let headers = [("accept-encoding", "gzip")];
    let small = client.send(Method::GET, &format!("{CONFIG_MAPS}/a1"), &headers, "").await;
    assert!(!small.headers().contains_key("content-encoding"));
}

#[tokio::test]
async fn options_of_deletions_come_in_every_form() {
    let client = Client::new().await;
    client.create("a", "x").await;
    let path = format!("{CONFIG_MAPS}/a");
    let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": "wrong"}});
    let id = types().kind("", "v1", "DeleteOptions").unwrap();
    let yaml_body = yaml::encode(&options).into_bytes();
    for (form, body) in [
        (PROTOBUF, protobuf::encode(&options, id)),
        ("application/yaml", yaml_body),
        ("application/json", serde_json::to_vec(&options).unwrap()),
    ] {
        let response = client.send(Method::DELETE, &path, &[("content-type", form)], body).await;
        assert_eq!(response.status(), 409, "{form}");
    }
    let response = client.send(Method::DELETE, &path, &[("content-type", "text/plain")], "{}").await;
    assert_eq!(response.status(), 415);
    let (code, refused) = client.json(Method::DELETE, &path, json!({"dryRun": ["x"]})).await;
    assert_eq!((code, &refused["reason"]), (422, &json!("Invalid")));
    let response = client.send(Method::DELETE, &path, &[("accept", PROTOBUF)], "").await;
    let status = from_protobuf(&bytes(response).await);
    assert_eq!((&status["kind"], &status["status"]), (&json!("Status"), &json!("Success")));
}

#[tokio::test]
async fn invalid_options_are_rejected_as_in_kube_apiserver() {
    let client = Client::new().await;
    for (query, code, message) in [
        (
            "resourceVersion=x",
            400,
            "invalid resource version: resourceVersion: Invalid value: \"x\": strconv.ParseUint: parsing \"x\": invalid syntax",
        ),
        ("limit=x", 400, "strconv.ParseInt: parsing \"x\": invalid syntax"),
        (
            "limit=99999999999999999999",
            400,
            "strconv.ParseInt: parsing \"99999999999999999999\": value out of range",
        ),
        (
            "timeout=1",
            400,
            "invalid timeout specified in the request URL - time: missing unit in duration \"1\"",
        ),
        (
            "continue=x!",
            400,
            "invalid continue token: continue key is not valid: illegal base64 data at input byte 1",
        ),
        (
            "continue=garbage",
            400,
            "invalid continue token: continue key is not valid: invalid character '\\u0081' looking for beginning of value",
        ),
        (
            "continue=eyI",
            400,
            "invalid continue token: continue key is not valid: unexpected end of JSON input",
        ),
        (
            "continue=e30",
            400,
            "invalid continue token: continue key is not valid: server does not recognize this encoded version ",
        ),
        ("labelSelector=!!", 400, "unable to parse requirement: found '!', expected: identifier"),
        ("fieldSelector=a", 400, "invalid selector: 'a'; can't understand 'a'"),
        (
            "resourceVersionMatch=Exact",
            422,
            "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided",
        ),
        (
            "resourceVersionMatch=x&resourceVersion=1",
            422,
            "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Unsupported value: \"x\": supported values: \"Exact\", \"NotOlderThan\", \"\"",
        ),
        (
            "sendInitialEvents=false",
            422,
            "ListOptions.meta.k8s.io \"\" is invalid: sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list",
        ),
        (
            "watch=1&resourceVersionMatch=NotOlderThan",
            422,
            "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        ),
        (
            "watch=1&resourceVersion=x",
            500,
            "resourceVersion: Invalid value: \"x\": strconv.ParseUint: parsing \"x\": invalid syntax",
        ),
    ] {
        let (found, status) = client.get(&format!("{CONFIG_MAPS}?{query}")).await;
        assert_eq!((found, status["message"].as_str().unwrap()), (code, message), "{query}");
    }
    let long = "x".repeat(129);
    for (query, message) in [
        ("dryRun=x", "dryRun: Unsupported value: [\"x\"]: supported values: \"All\""),
        (
            "fieldValidation=x",
            "fieldValidation: Unsupported value: \"x\": supported values: \"\", \"Ignore\", \"Strict\", \"Warn\"",
        ),
        (&*format!("fieldManager={long}"), "fieldManager: Too long: may not be more than 128 bytes"),
        (
            "fieldManager=%01",
            "fieldManager: Invalid value: \"\\x01\": invalid character U+0001 (at position 0)",
        ),
    ] {
        let (code, status) = client.json(Method::POST, &format!("{CONFIG_MAPS}?{query}"), json!({})).await;
        let expected = format!("CreateOptions.meta.k8s.io \"\" is invalid: {message}");
        assert_eq!((code, status["message"].as_str().unwrap()), (422, &*expected), "{query}");
    }
}

#[tokio::test]
async fn discovery_of_the_core_group_has_protobuf() {
    let client = Client::new().await;
    for (path, kind) in [("/api", "APIVersions"), ("/api/v1", "APIResourceList")] {
        let response = client.accept(path, PROTOBUF).await;
        assert_eq!(content_type(&response), PROTOBUF, "{path}");
        // The envelope names a kind without a version, which only clients of discovery decode.
        let body = bytes(response).await;
        assert!(body.starts_with(b"k8s\0"), "{path}");
        assert!(String::from_utf8_lossy(&body).contains(kind), "{path}");
    }
}

#[tokio::test]
async fn aggregated_discovery_is_at_three_paths() {
    let client = Client::new().await;
    let aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    for path in ["/api", "/api/", "/apis"] {
        let response = client.accept(path, aggregated).await;
        let found: Value = serde_json::from_slice(&bytes(response).await).unwrap();
        assert_eq!(found["kind"], "APIGroupDiscoveryList", "{path}");
    }
    for path in ["/apis/", "/api/v1", "/apis/apps", "/apis/apps/v1"] {
        assert_eq!(client.accept(path, aggregated).await.status(), 406, "{path}");
    }
}

#[tokio::test]
async fn metadata_of_a_daemon_set_lacks_the_annotation_of_its_spec() {
    const ANNOTATION: &str = "deprecated.daemonset.template.generation";
    const DAEMON_SETS: &str = "/apis/apps/v1/namespaces/default/daemonsets";
    let client = Client::new().await;
    let template =
        json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec = json!({"selector": {"matchLabels": {"a": "b"}}, "template": template});
    for (name, annotations) in [("a", json!(null)), ("b", json!({"x": "y"}))] {
        let metadata = json!({"name": name, "annotations": annotations});
        let (code, created) =
            client.json(Method::POST, DAEMON_SETS, json!({"metadata": metadata, "spec": spec})).await;
        assert_eq!(code, 201, "{created}");
        assert_eq!(created["metadata"]["annotations"][ANNOTATION], "1");
        let response =
            client.accept(&format!("{DAEMON_SETS}/{name}"), &format!("application/json;{METADATA}")).await;
        let found: Value = serde_json::from_slice(&bytes(response).await).unwrap();
        assert_eq!(found["metadata"].get("annotations").unwrap_or(&Value::Null), &annotations);
    }
    let table = "application/json;as=Table;g=meta.k8s.io;v=v1";
    for accept in [table, &format!("application/json;{METADATA_LIST}")] {
        let list = bytes(client.accept(DAEMON_SETS, accept).await).await;
        let shown = format!("\"{ANNOTATION}\":\"1\"");
        assert!(!String::from_utf8_lossy(&list).contains(&shown), "{accept}");
    }
}
