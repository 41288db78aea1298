//! Bodies, and their trees and errors in kube-apiserver.

use serde_json::json;

use super::*;
use crate::codec::{Problem, on_large_stack, settle};
use crate::schema::types;

fn read(group: &str, version: &str, kind: &str, body: &str) -> Result<Decoded, DecodeError> {
    let id = types().kind(group, version, kind).expect("a kind we have");
    decode(body.as_bytes(), Target::Type(id))
}

fn object(kind: &str, body: &str) -> Value {
    read("", "v1", kind, body).expect("it can be read").object
}

fn problems(kind: &str, body: &str) -> Vec<String> {
    read("", "v1", kind, body).expect("it can be read").problems.iter().map(ToString::to_string).collect()
}

fn fault(kind: &str, body: &str) -> String {
    read("", "v1", kind, body).expect_err("it cannot be read").to_string()
}

#[test]
fn always_written_fields_are_added() {
    let pod = object("Pod", r#"{"spec":{"containers":[{"name":"a","ports":[]}]}}"#);
    let expected = json!({
        "metadata": {},
        "spec": { "containers": [{ "name": "a", "resources": {} }] },
        "status": {},
    });
    assert_eq!(pod, expected);
    let service = object("Service", r#"{"spec":{"ports":[{"port":80}]}}"#);
    let expected = json!({
        "metadata": {},
        "spec": { "ports": [{ "port": 80, "targetPort": 0 }] },
        "status": { "loadBalancer": {} },
    });
    assert_eq!(service, expected);
}

#[test]
fn empty_values_are_omitted_or_null() {
    let map = object(
        "ConfigMap",
        r#"{"metadata":{"name":"","labels":{},"generation":0},"data":{},"immutable":false}"#,
    );
    assert_eq!(map, json!({ "metadata": {}, "immutable": false }), "a pointer keeps false");
    let role = |body| read("rbac.authorization.k8s.io", "v1", "Role", body).unwrap().object;
    assert_eq!(role(r#"{"rules":null}"#), json!({ "metadata": {}, "rules": null }));
    let mut explicit = role(r#"{"rules":[]}"#);
    assert_eq!(
        explicit,
        json!({ "metadata": {}, "rules": [] }),
        "explicitly empty, so the field has a manager"
    );
    settle(&mut explicit, types().kind("rbac.authorization.k8s.io", "v1", "Role").unwrap());
    assert_eq!(explicit, json!({ "metadata": {}, "rules": null }));
    let pod = object(
        "Pod",
        r#"{"metadata":{"creationTimestamp":null},"spec":{"containers":null,"nodeSelector":null}}"#,
    );
    assert_eq!(pod, json!({ "metadata": {}, "spec": { "containers": null }, "status": {} }));
}

#[test]
fn values_become_canonical() {
    let claim =
        object("PersistentVolumeClaim", r#"{"spec":{"resources":{"requests":{"storage":"1024Mi","n":2}}}}"#);
    assert_eq!(claim["spec"]["resources"]["requests"], json!({ "storage": "1Gi", "n": "2" }));
    let secret = object("Secret", r#"{"data":{"a":"aGk=","b":"aG\nk=","c":null,"d":[104,105]}}"#);
    assert_eq!(secret["data"], json!({ "a": "aGk=", "b": "aGk=", "c": "", "d": "aGk=" }));
    let lease = read(
        "coordination.k8s.io",
        "v1",
        "Lease",
        r#"{"spec":{"renewTime":"2020-01-01T01:00:00.000000+01:00"}}"#,
    );
    assert_eq!(lease.unwrap().object["spec"]["renewTime"], "2020-01-01T00:00:00.000000Z");
}

#[test]
fn problems_are_reported_in_order_with_their_paths() {
    let body = r#"{"spec":{"x":{"y":1,"y":2},"containers":[{"name":"a","name":"b","zz":1},{"q":1}],
        "nodeSelector":{"k":"1","k":"2"}},"unknown":1,"unknown":2}"#;
    let expected = [
        r#"unknown field "spec.x""#,
        r#"duplicate field "spec.containers[0].name""#,
        r#"unknown field "spec.containers[0].zz""#,
        r#"unknown field "spec.containers[1].q""#,
        r#"duplicate field "spec.nodeSelector.k""#,
        r#"unknown field "unknown""#,
    ];
    assert_eq!(problems("Pod", body), expected);
    let pod = object("Pod", body);
    assert_eq!(pod["spec"]["containers"][0]["name"], "b", "the last one counts");
    assert_eq!(pod["spec"]["nodeSelector"]["k"], "2");
    assert_eq!(problems("Pod", r#"{"Spec":{}}"#), [r#"unknown field "Spec""#], "case matters");
}

#[test]
fn duplicate_structs_and_maps_are_merged_and_other_fields_replaced() {
    let body = r#"{"metadata":{"name":"a","labels":{"a":"1","b":"1"},"finalizers":["x/y"]},
        "metadata":{"labels":{"b":"2","c":"3"},"finalizers":["z/z"]},
        "spec":{"nodeName":"n","containers":[{"name":"a"},{"name":"b"}],"containers":[{"image":"i"}]}}"#;
    let pod = object("Pod", body);
    assert_eq!(pod["metadata"]["name"], "a");
    assert_eq!(pod["metadata"]["labels"], json!({"a": "1", "b": "2", "c": "3"}));
    assert_eq!(pod["metadata"]["finalizers"], json!(["z/z"]));
    let containers = pod["spec"]["containers"].as_array().unwrap();
    assert_eq!(
        (containers.len(), &containers[0]["name"], &containers[0]["image"]),
        (1, &json!("a"), &json!("i"))
    );
    let expected = [r#"duplicate field "metadata""#, r#"duplicate field "spec.containers""#];
    assert_eq!(problems("Pod", body), expected);
    let none = object("Pod", r#"{"metadata":{"labels":{"a":"1"},"labels":null}}"#);
    assert_eq!(none["metadata"].get("labels"), None);
}

#[test]
fn untyped_objects_report_duplicates_only() {
    let decoded = decode(br#"{"a":{"b":[{"c":1,"c":2.0}]},"n":12345678901,"f":1.5}"#, Target::Any).unwrap();
    assert_eq!(decoded.object, json!({ "a": { "b": [{ "c": 2 }] }, "n": 12_345_678_901_i64, "f": 1.5 }));
    assert_eq!(decoded.problems, [Problem::Duplicate("a.b[0].c".into())]);
}

#[test]
fn type_errors_have_the_messages_of_kube_apiserver() {
    for (body, message) in [
        (
            r#"{"spec":{"priority":"1"}}"#,
            "json: cannot unmarshal string into Go struct field PodSpec.spec.priority of type int32",
        ),
        (
            r#"{"spec":{"priority":1.5}}"#,
            "json: cannot unmarshal number 1.5 into Go struct field PodSpec.spec.priority of type int32",
        ),
        (
            r#"{"spec":{"priority":3000000000}}"#,
            "json: cannot unmarshal number 3000000000 into Go struct field PodSpec.spec.priority of type int32",
        ),
        (
            r#"{"spec":{"containers":{}}}"#,
            "json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container",
        ),
        (
            r#"{"spec":{"containers":[1]}}"#,
            "json: cannot unmarshal number into Go struct field PodSpec.spec.containers of type v1.Container",
        ),
        (
            r#"{"spec":{"restartPolicy":true}}"#,
            "json: cannot unmarshal bool into Go struct field PodSpec.spec.restartPolicy of type v1.RestartPolicy",
        ),
        (
            r#"{"metadata":{"labels":{"a":1}}}"#,
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string",
        ),
        (
            r#"{"spec":{"volumes":[{"hostPath":[]}]}}"#,
            "json: cannot unmarshal array into Go struct field Volume.spec.volumes.VolumeSource.hostPath of type v1.HostPathVolumeSource",
        ),
        ("[]", "json: cannot unmarshal array into Go value of type v1.Pod"),
        (
            r#"{"spec":{"overhead":{"cpu":"1x"}}}"#,
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        (
            r#"{"metadata":{"creationTimestamp":"x"}}"#,
            r#"parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006""#,
        ),
    ] {
        assert_eq!(fault("Pod", body), message, "{body}");
    }
}

#[test]
fn syntax_errors_come_first() {
    for (body, message) in [
        ("", "unexpected end of JSON input"),
        ("{", "unexpected end of JSON input"),
        ("{]", "invalid character ']' looking for beginning of object key string"),
        (r#"{"a" 1}"#, "invalid character '1' after object key"),
        (r#"{"spec":1 "a"}"#, "invalid character '\"' after object key:value pair"),
        ("{} x", "invalid character 'x' after top-level value"),
        (r#"{"a":[1 2]}"#, "invalid character '2' after array element"),
        (r#"{"a":tru}"#, "invalid character '}' in literal true (expecting 'e')"),
        (r#"{"a":01}"#, "invalid character '1' after object key:value pair"),
        (r#"{"a":-}"#, "invalid character '}' in numeric literal"),
        (r#"{"a":1.}"#, "invalid character '}' after decimal point in numeric literal"),
        (r#"{"a":1e}"#, "invalid character '}' in exponent of numeric literal"),
        ("{\"a\":\"\n\"}", "invalid character '\\n' in string literal"),
        (r#"{"a":"\q"}"#, "invalid character 'q' in string escape code"),
        (r#"{"a":"\u12x4"}"#, "invalid character 'x' in \\u hexadecimal character escape"),
        ("'", "invalid character '\\'' looking for beginning of value"),
    ] {
        assert_eq!(fault("Pod", body), message, "{body}");
    }
}

#[test]
fn invalid_utf8_is_replaced() {
    let read = |body: &[u8]| decode(body, Target::Any).unwrap().object;
    assert_eq!(read(br#""\ud83d\ude00\u00e9\/""#), "\u{1f600}é/");
    assert_eq!(read(br#""\ud83dx\ud83d\u0041""#), "\u{fffd}x\u{fffd}A");
    assert_eq!(read(b"\"a\xffb\""), "a\u{fffd}b");
}

#[test]
fn depth_is_limited() {
    on_large_stack(check_depth);
}

fn check_depth() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(decode(nested(MAX_DEPTH).as_bytes(), Target::Any).is_ok());
    assert!(decode(nested(MAX_DEPTH + 1).as_bytes(), Target::Any).is_err());
    let error = decode(nested(100_000).as_bytes(), Target::Any).unwrap_err();
    assert_eq!(error.to_string(), "exceeded max depth");
    let id = types().kind("", "v1", "Pod").unwrap();
    let schema =
        types().named("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps").unwrap();
    let deep = format!("{}{{}}{}", r#"{"not":"#.repeat(MAX_DEPTH - 1), "}".repeat(MAX_DEPTH - 1));
    assert!(decode(deep.as_bytes(), Target::Type(schema)).is_ok(), "the deepest one does not overflow");
    let body = format!(r#"{{"unknown":{}"#, "{\"a\":".repeat(100_000));
    assert_eq!(decode(body.as_bytes(), Target::Type(id)).unwrap_err().to_string(), "exceeded max depth");
}

#[test]
fn type_meta_is_decoded_alone() {
    let meta = type_meta(br#"{"spec":{"kind":"no"},"kind":"Deployment","apiVersion":"apps/v1"}"#).unwrap();
    assert_eq!((meta.group(), meta.version(), &*meta.kind), ("apps", "v1", "Deployment"));
    let meta = type_meta(br#"{"apiVersion":"v1","kind":null}"#).unwrap();
    assert_eq!((meta.group(), meta.version(), &*meta.kind), ("", "v1", ""));
    let fault = |body: &[u8]| type_meta(body).unwrap_err().to_string();
    let start = "couldn't get version/kind; json parse error: ";
    let misfit = "json: cannot unmarshal number into Go struct field .kind of type string";
    assert_eq!(fault(br#"{"kind":1}"#), format!("{start}{misfit}"));
    assert_eq!(fault(b"{"), format!("{start}unexpected end of JSON input"));
    assert!(fault(b"[]").starts_with(start));
}

#[test]
fn problems_in_json_schemas_are_not_reported() {
    let group = "apiextensions.k8s.io";
    let body = r#"{"spec":{"versions":[{"name":"v1","schema":{"openAPIV3Schema":{"additionalProperties":{"type":"object","x":1},
        "minimum":1.0,"default":{"a":1,"a":2},"items":[{"type":"string"}]}}}]}}"#;
    let decoded = read(group, "v1", "CustomResourceDefinition", body).unwrap();
    assert_eq!(decoded.problems, []);
    let schema = &decoded.object["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    assert_eq!(schema["additionalProperties"], json!({ "type": "object" }));
    assert_eq!(schema["minimum"], json!(1));
    assert_eq!(schema["items"], json!([{ "type": "string" }]));
}

#[test]
fn many_small_values_are_limited_by_their_memory() {
    for item in [r#"{"a":0},"#, "[0],", "0,", r#""","#] {
        let body = format!("[{}0]", item.repeat(3_000_000 / item.len()));
        assert!(decode(body.as_bytes(), Target::Any).unwrap_err().is_too_large(), "{item}");
        let body = format!("[{}0]", item.repeat(10_000 / item.len()));
        assert!(decode(body.as_bytes(), Target::Any).is_ok(), "{item}");
    }
}

#[test]
fn problems_below_a_long_key_are_limited_by_their_memory() {
    let twice: String = (0..100).map(|at| format!(r#""k{at}":1,"k{at}":1,"#)).collect();
    let body = |key: &str| format!(r#"{{"{key}":{{{twice}"z":0}}}}"#);
    assert_eq!(decode(body("a").as_bytes(), Target::Any).unwrap().problems.len(), 100);
    let long = body(&"a".repeat(1_000_000));
    assert!(decode(long.as_bytes(), Target::Any).unwrap_err().is_too_large());
}

#[test]
fn stopped_budget_ends_decoding() {
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
    let mut budget = DecodeBudget::default().stopped_by(stop);
    let body = format!("[{}0]", "0,".repeat(1_000));
    let error = decode_within(body.as_bytes(), Target::Any, &mut budget).unwrap_err();
    assert_eq!(error.to_string(), "the request was cancelled");
}
