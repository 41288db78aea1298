//! Hand-made message bytes, and hostile ones.

use serde_json::json;

use super::*;
use crate::codec::json::MAX_DEPTH;
use crate::codec::on_large_stack;
use crate::codec::{Target, json as json_codec};

fn id(group: &str, version: &str, kind: &str) -> TypeId {
    types().kind(group, version, kind).expect("a kind we have")
}

/// The object as kube-apiserver stores and returns it.
fn conformed(object: &Value, id: TypeId) -> Value {
    json_codec::conform(object.clone(), id).expect("it fits its type").object
}

/// The metadata message of an object with only a name: all fields that are not pointers are written, and times as
/// empty messages.
fn metadata(name: &[u8]) -> Vec<u8> {
    let name_length = u8::try_from(name.len()).unwrap();
    let mut fields = vec![0x0a, name_length];
    fields.extend_from_slice(name);
    fields.extend_from_slice(b"\x12\x00\x1a\x00\x22\x00\x2a\x00\x32\x00\x38\x00\x42\x00");
    let mut message = vec![0x0a, u8::try_from(fields.len()).unwrap()];
    message.extend(fields);
    message
}

#[test]
fn config_map_has_the_expected_bytes() {
    let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "m" }, "data": { "b": "2", "a": "1" }, "immutable": false });
    let mut expected = b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap".to_vec();
    let mut object = metadata(b"m");
    object.extend_from_slice(b"\x12\x06\x0a\x01a\x12\x011\x12\x06\x0a\x01b\x12\x012\x20\x00");
    expected.extend_from_slice(&[0x12, u8::try_from(object.len()).unwrap()]);
    expected.extend(object);
    expected.extend_from_slice(b"\x1a\x00\x22\x00");
    assert_eq!(encode(&map, id("", "v1", "ConfigMap")), expected);
    assert_eq!(decode(&expected, None).unwrap().object, map);
}

#[test]
fn message_values_round_trip() {
    let port = types().named("io.k8s.api.core.v1.ServicePort").unwrap();
    let bytes = encode_message(&json!({ "port": 80, "targetPort": "http" }), port);
    assert_eq!(bytes, b"\x0a\x00\x12\x00\x18\x50\x22\x0a\x08\x01\x10\x00\x1a\x04http\x28\x00");
    assert_eq!(decode_message(&bytes, port).unwrap(), json!({ "port": 80, "targetPort": "http" }));

    let bytes = encode_message(&json!({ "port": -1, "targetPort": 8080 }), port);
    let minus_one = b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";
    let mut expected = b"\x0a\x00\x12\x00\x18".to_vec();
    expected.extend_from_slice(minus_one);
    expected.extend_from_slice(b"\x22\x07\x08\x00\x10\x90\x3f\x1a\x00\x28\x00");
    assert_eq!(bytes, expected);

    let lease = types().named("io.k8s.api.coordination.v1.LeaseSpec").unwrap();
    let spec = json!({ "holderIdentity": "n", "renewTime": "1970-01-01T00:00:01.000002Z" });
    let bytes = encode_message(&spec, lease);
    assert_eq!(bytes, b"\x0a\x01n\x22\x05\x08\x01\x10\xd0\x0f");
    assert_eq!(decode_message(&bytes, lease).unwrap(), spec);

    let source = types().named("io.k8s.api.core.v1.EmptyDirVolumeSource").unwrap();
    let bytes = encode_message(&json!({ "sizeLimit": "1Gi" }), source);
    assert_eq!(bytes, b"\x0a\x00\x12\x05\x0a\x031Gi");
    assert_eq!(decode_message(b"\x12\x08\x0a\x061024Mi", source).unwrap(), json!({ "sizeLimit": "1Gi" }));
}

#[test]
fn embedded_messages_are_flat_in_json() {
    let volume = types().named("io.k8s.api.core.v1.Volume").unwrap();
    let object = json!({ "name": "v", "emptyDir": { "medium": "Memory" } });
    let bytes = encode_message(&object, volume);
    assert_eq!(bytes, b"\x0a\x01v\x12\x0a\x12\x08\x0a\x06Memory");
    assert_eq!(decode_message(&bytes, volume).unwrap(), object);
}

#[test]
fn numbers_may_be_packed() {
    let context = types().named("io.k8s.api.core.v1.PodSecurityContext").unwrap();
    let expected = json!({ "supplementalGroups": [1, 300] });
    assert_eq!(decode_message(b"\x20\x01\x20\xac\x02", context).unwrap(), expected);
    assert_eq!(decode_message(b"\x22\x03\x01\xac\x02", context).unwrap(), expected);
    assert_eq!(encode_message(&expected, context), b"\x20\x01\x20\xac\x02");
}

#[test]
fn options_are_decoded_in_any_api_version() {
    let mut body = b"k8s\0\x0a\x18\x0a\x07apps/v1\x12\x0dDeleteOptions\x12\x02\x08\x1e".to_vec();
    let decoded = decode(&body, None).unwrap().object;
    assert_eq!(
        decoded,
        json!({ "apiVersion": "apps/v1", "kind": "DeleteOptions", "gracePeriodSeconds": 30 })
    );
    body[4] = 0x7a; // the envelope's first field with an unknown number
    assert!(matches!(decode(&body, None), Err(DecodeError::UnknownKind { .. })));
    let default = id("", "v1", "DeleteOptions");
    assert_eq!(decode(&body, Some(default)).unwrap().object, json!({ "gracePeriodSeconds": 30 }));
}

#[test]
fn unknown_fields_are_skipped() {
    let map = id("", "v1", "ConfigMap");
    let object = conformed(&json!({ "data": { "a": "1" } }), map);
    let mut bytes = encode_message(&object, map);
    // A varint, a fixed64, bytes, a nested group, a fixed32; all with number 1000.
    bytes.extend_from_slice(
        b"\xc0\x3e\x05\xc1\x3e12345678\xc2\x3e\x03abc\xc3\x3e\x0b\x08\x01\x0c\xc4\x3e\xc5\x3e1234",
    );
    assert_eq!(decode_message(&bytes, map).unwrap(), object);
}

#[test]
fn lists_are_put_together_from_items() {
    let map = id("", "v1", "ConfigMap");
    let list = id("", "v1", "ConfigMapList");
    let items = [
        json!({ "metadata": { "name": "a" } }),
        json!({ "metadata": { "name": "b" }, "data": { "k": "v" } }),
    ];
    let encoded: Vec<Vec<u8>> = items.iter().map(|item| encode_message(item, map)).collect();
    let meta = TypeMeta { api_version: "v1".into(), kind: "ConfigMapList".into() };
    let metadata = json!({ "resourceVersion": "7" });
    let items_bytes = encoded.iter().map(|item| item_bytes(item.len())).sum();
    let mut bytes = begin_list(&meta, &metadata, items_bytes);
    for item in &encoded {
        begin_item(&mut bytes, item.len());
        bytes.extend_from_slice(item);
    }
    bytes.extend_from_slice(END_OF_ENVELOPE);
    let whole = json!({ "apiVersion": "v1", "kind": "ConfigMapList", "metadata": metadata, "items": items });
    assert_eq!(bytes, encode(&whole, list));
    assert_eq!(decode(&bytes, None).unwrap().object, whole);
}

/// The message from a text, verified to equal that from the tree of the text.
fn message_of_text(text: &str, id: TypeId) -> Option<Vec<u8>> {
    let mut out = b"before".to_vec();
    let is_written = TextEncoder::default().encode(text.as_bytes(), id, &mut out);
    let message = out.strip_prefix(b"before").unwrap().to_vec();
    if !is_written {
        assert_eq!(message, b"");
        return None;
    }
    assert_eq!(message, encode_message(&serde_json::from_str(text).unwrap(), id), "{text}");
    Some(message)
}

#[test]
fn message_of_text_equals_message_of_tree() {
    let pod = id("", "v1", "Pod");
    for text in [
        r#"{}"#,
        "{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"a\"}}\n",
        r#"{"metadata":{"name":"a\"b\\\u00e9\ud83d\ude00é","labels":{"\u0001":"x","b":null}}}"#,
        r#"{"metadata":null,"spec":{"containers":[{"name":"c","ports":[{"containerPort":80}]},null]}}"#,
        r#"{"spec":{"containers":[],"hostNetwork":true,"volumes":[{"name":"v","emptyDir":{}}],"priority":-5}}"#,
        r#"{"spec":{"tolerations":[{"tolerationSeconds":1}],"nodeSelector":{"a":"b"},"unknown":[[],{},"x"]}}"#,
        r#"{"metadata":{"managedFields":[{"fieldsV1":{"f:a":{".":{}}},"time":"2020-01-01T00:00:00Z"}]}}"#,
        r#"{"metadata":"text","spec":[1],"status":{"phase":7,"podIPs":{"a":1},"startTime":"today"}}"#,
        "[]",
        "7",
        "null",
    ] {
        assert!(message_of_text(text, pod).is_some(), "{text}");
    }
    let service = id("", "v1", "Service");
    let text =
        r#"{"spec":{"ports":[{"port":1,"targetPort":"x"},{"port":2,"targetPort":3}],"clusterIPs":null}}"#;
    assert!(message_of_text(text, service).is_some());
    let secret = id("", "v1", "Secret");
    assert!(message_of_text(r#"{"data":{"a":"AAEC","b":"","c":null}}"#, secret).is_some());
    let schema =
        types().named("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps").unwrap();
    let text = r#"{"items":{"type":"a"},"additionalProperties":false,"enum":["a",1.5,{"b":null}],"maximum":1.5e+30,"dependencies":{"a":["b"],"c":{"type":"d"}},"default":"x\ny"}"#;
    assert!(message_of_text(text, schema).is_some());
}

#[test]
fn text_in_another_form_is_left_to_a_parser() {
    let pod = id("", "v1", "Pod");
    for text in [
        "",
        "\n",
        "{",
        "}",
        "{\"a\"",
        "{\"a\":",
        "{\"a\":}",
        "{\"a\":1",
        "{\"a\":1,",
        "{\"a\":1,}",
        "{1:2}",
        "[1",
        "[1,",
        "[1,]",
        "[}",
        "{]",
        "\"a",
        "\"a\\",
        "\"\\\"",
        "tru",
        "nul",
        "x",
        "{} ",
        "{}\n\n",
        "{ }",
        "{}{}",
        "[1]]",
    ] {
        assert_eq!(message_of_text(text, pod), None, "{text:?}");
    }
}

#[test]
fn every_type_fits_into_the_places_of_a_text() {
    for (_, one) in types().iter() {
        assert!(one.fields.len() <= text::MAX_FIELDS, "{} has {} fields", one.name, one.fields.len());
    }
}

#[test]
fn watch_events_are_framed() {
    let frame = watch_frame("ADDED", b"k8s\0...");
    assert_eq!(frame, b"\x00\x00\x00\x12\x0a\x05ADDED\x12\x09\x0a\x07k8s\0...");
    let type_meta = TypeMeta { api_version: "v1".into(), kind: "ConfigMap".into() };
    for length in [0, 1, 90, 100, 127, 128, 16_383, 16_384, 100_000] {
        let message = vec![7; length];
        let mut event = Vec::new();
        begin_event(&mut event, "MODIFIED", &type_meta, length);
        event.extend_from_slice(&message);
        event.extend_from_slice(END_OF_ENVELOPE);
        assert_eq!(event, watch_frame("MODIFIED", &envelop(&type_meta, &message)), "{length}");
    }
}

#[test]
fn malformed_bodies_are_rejected() {
    for body in [
        &b""[..],
        b"k8s",
        b"{}",
        b"k8s\0\x0a",
        b"k8s\0\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        b"k8s\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        b"k8s\0\x00\x01",
        b"k8s\0\x0f",
        b"k8s\0\x0b\x0b\x0b",
    ] {
        assert!(decode(body, None).is_err(), "{body:?}");
    }
    let map = id("", "v1", "ConfigMap");
    assert!(decode_message(b"\x08\x01", map).is_err(), "metadata is no number");
    let lease = types().named("io.k8s.api.coordination.v1.LeaseSpec").unwrap();
    let far = b"\x22\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x10\x00";
    assert!(decode_message(far, lease).is_err(), "no year has so many digits");
}

#[test]
fn depth_and_size_are_limited() {
    on_large_stack(check_depth_and_size);
}

fn check_depth_and_size() {
    let schema =
        types().named("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps").unwrap();
    let nested = |depth: usize| {
        // An unknown field is skipped, but increases the memory budget, which depends on the size of the body.
        let mut innermost = Vec::new();
        wire::write_bytes(&mut innermost, 1000, &[0; 100_000]);
        (0..depth).fold(innermost, |inner, _| {
            let mut outer = Vec::new();
            wire::write_bytes(&mut outer, 28, &inner); // "not"
            outer
        })
    };
    assert!(decode_message(&nested(MAX_DEPTH - 1), schema).is_ok());
    assert!(decode_message(&nested(MAX_DEPTH), schema).is_err());
    let pods = id("", "v1", "PodList");
    let many = b"\x12\x00".repeat(1_000_000);
    assert!(decode_message(&many, pods).unwrap_err().is_too_large());
    let body = format!(r#"{{"items":[{}{{}}]}}"#, "{},".repeat(1_000_000));
    assert!(json_codec::decode(body.as_bytes(), Target::Type(pods)).unwrap_err().is_too_large());
}

#[test]
fn json_inside_of_messages_shares_the_budget_of_the_message() {
    let revision = id("apps", "v1", "ControllerRevision");
    let with_data = |items: usize| {
        let data = format!("[{}0]", r#"{"a":0},"#.repeat(items));
        let mut message = Vec::new();
        wire::write_message(&mut message, 2, |out| wire::write_bytes(out, 1, data.as_bytes()));
        message
    };
    assert!(decode_message(&with_data(1_000), revision).is_ok());
    assert!(decode_message(&with_data(300_000), revision).unwrap_err().is_too_large());
}
