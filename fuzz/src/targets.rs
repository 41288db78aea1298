//! The fuzz targets.

use coracle_api::codec::{DecodeBudget, DecodeError, Decoded, Target as DecodeTarget, json, protobuf, yaml};
use coracle_api::schema::{TypeId, graph, types};
use coracle_meta::apply::typed::Type;
use coracle_meta::apply::{FieldManager, OneVersion, ResetFields, Writer};
use coracle_meta::budget::heap_bytes;
use coracle_meta::patch::json::JsonPatch;
use coracle_meta::patch::{merge, strategic};
use coracle_meta::quantity::Quantity;
use coracle_meta::selector::{fields, labels};
use coracle_meta::time::Time;
use serde_json::{Value, json};

mod cel;
mod custom;

/// A parser of client input.
pub struct Target {
    /// Name, also of the corpus directory.
    pub name: &'static str,
    /// Processes an input and returns the outcome; panics if an invariant is violated.
    pub run: fn(&[u8]) -> String,
    /// Initial inputs.
    pub seeds: &'static [&'static [u8]],
}

/// All targets; each has a corpus and runs with the tests.
pub const TARGETS: &[Target] = &[
    Target { name: "json", run: read_json, seeds: &[POD, br#"{"a":[1,2.5e3,"\u00e9",null,true]}"#] },
    Target { name: "yaml", run: read_yaml, seeds: &[POD, b"a: &x [1, *x]\n", b"a: &a [&b xxxxxxxx, *b, *b]\nb: &c [*a, *a, *a]\nc: {<<: {d: *c}, e: *c}\n", b"--- \nyes: 0755\n? {}\n: ~\n"] },
    Target { name: "protobuf", run: read_protobuf, seeds: &[b"k8s\0\n\t\n\x02v1\x12\x03Pod\x12\x0b\n\t\n\x01p\x12\0\x1a\x02ns"] },
    Target { name: "label-selector", run: read_labels, seeds: &[b"a in (b,c),!d,e notin (f), g=h,i!=j,k>1"] },
    Target { name: "field-selector", run: read_fields, seeds: &[b"metadata.name=a,spec.nodeName!=b\\,c"] },
    Target { name: "quantity", run: read_quantity, seeds: &[b"1.5Gi", b"-12e-3", b"100m", b"9223372036854775807"] },
    Target { name: "cel", run: cel::evaluate, seeds: cel::SEEDS },
    Target { name: "time", run: read_time, seeds: &[b"2024-02-29T23:59:59.123456789+01:30"] },
    Target {
        name: "json-patch",
        run: json_patch,
        seeds: &[br#"[{"op":"test","path":"/metadata/name","value":"p"},{"op":"move","from":"/spec/containers/0","path":"/spec/containers/-"},{"op":"copy","from":"/a~1b","path":"/c~0"}]"#],
    },
    Target { name: "merge-patch", run: merge_patch, seeds: &[br#"{"spec":{"containers":null,"nodeName":"n"}}"#] },
    Target {
        name: "strategic-patch",
        run: strategic_patch,
        seeds: &[
            br#"{"spec":{"$setElementOrder/containers":[{"name":"b"},{"name":"a"}],"containers":[{"name":"a","$patch":"delete"},{"name":"b","$retainKeys":["name"]}]}}"#,
            br#"{"metadata":{"$deleteFromPrimitiveList/finalizers":["x"],"labels":{"$patch":"replace","a":"b"}}}"#,
        ],
    },
    Target {
        name: "apply",
        run: apply,
        seeds: &[
            br#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","labels":{"a":"b"}},"spec":{"containers":[{"name":"a","image":"x","ports":[{"containerPort":1}]}]}}"#,
        ],
    },
    Target {
        name: "managed-fields",
        run: managed_fields,
        seeds: &[br#"{"f:metadata":{"f:labels":{".":{},"f:a":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"a\"}":{"f:image":{}}}}}"#],
    },
    Target { name: "custom-object", run: custom::run, seeds: custom::SEEDS },
    Target { name: "custom-rules", run: custom::run, seeds: custom::WITH_RULES },
];

const POD: &[u8] = br#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","labels":{"a":"b"},"creationTimestamp":"2024-01-02T03:04:05Z"},"spec":{"containers":[{"name":"a","image":"i","resources":{"limits":{"cpu":"100m"}},"ports":[{"containerPort":80}]}],"terminationGracePeriodSeconds":30},"status":{"phase":"Pending"}}"#;

fn pod_type() -> TypeId {
    types().kind("", "v1", "Pod").expect("pods are built in")
}

fn pod() -> Value {
    json::decode(POD, DecodeTarget::Type(pod_type())).expect("it is a pod").object
}

/// The words of a text that are not names or numbers from the input, which identify the outcome.
fn outline(text: &str) -> String {
    let words = text.split(|c: char| !c.is_ascii_alphabetic()).filter(|word| word.len() > 2);
    words.take(3).collect::<Vec<_>>().join(" ")
}

fn outcome<E: std::fmt::Display>(result: Result<String, E>) -> String {
    result.unwrap_or_else(|error| format!("refused: {}", outline(&error.to_string())))
}

/// Asserts that a decoded object takes no more memory than the budget of its body.
fn within_budget(input: &[u8], object: &Value) {
    let (bytes, limit) = (heap_bytes(object), DecodeBudget::for_body(input.len()).limit());
    assert!(bytes <= limit, "{} bytes of input take {bytes} bytes", input.len());
}

/// Asserts that decoding an encoded object returns the same object.
fn settled(input: &[u8], decoded: Result<Decoded, DecodeError>) -> String {
    outcome(decoded.map(|Decoded { object, problems }| {
        within_budget(input, &object);
        let text = object.to_string();
        let again =
            json::decode(text.as_bytes(), DecodeTarget::Type(pod_type())).expect("encoded object decodes");
        assert_eq!(again.object, object, "decoding is idempotent");
        let through = protobuf::decode_message(&protobuf::encode_message(&object, pod_type()), pod_type());
        assert_eq!(through.expect("encoded object decodes")["spec"], object["spec"]);
        let problem = problems.first().map(|problem| outline(&problem.to_string()));
        format!("read, {}", problem.unwrap_or_default())
    }))
}

fn read_json(input: &[u8]) -> String {
    let any = outcome(json::decode(input, DecodeTarget::Any).map(|decoded| {
        within_budget(input, &decoded.object);
        "read".to_owned()
    }));
    format!("{any}; {}", settled(input, json::decode(input, DecodeTarget::Type(pod_type()))))
}

fn read_yaml(input: &[u8]) -> String {
    let any = outcome(yaml::decode(input, DecodeTarget::Any).map(|decoded| {
        within_budget(input, &decoded.object);
        let text = yaml::encode(&decoded.object);
        let again = yaml::decode(text.as_bytes(), DecodeTarget::Any).expect("encoded object decodes");
        assert_eq!(again.object, decoded.object, "written as {text:?}");
        "read".to_owned()
    }));
    format!("{any}; {}", settled(input, yaml::decode(input, DecodeTarget::Type(pod_type()))))
}

fn read_protobuf(input: &[u8]) -> String {
    settled(input, protobuf::decode(input, Some(pod_type())))
}

fn read_labels(input: &[u8]) -> String {
    let Ok(text) = std::str::from_utf8(input) else { return "no text".into() };
    outcome(text.parse::<labels::Selector>().map(|selector| {
        let formatted = selector.to_string();
        let again: labels::Selector =
            formatted.parse().unwrap_or_else(|error| panic!("{formatted:?}: {error}"));
        assert_eq!(again.to_string(), formatted);
        let pod = pod();
        let found = selector.matches(&pod["metadata"]["labels"].as_object());
        format!("read, {found}, {}", formatted.matches(',').count().min(4))
    }))
}

fn read_fields(input: &[u8]) -> String {
    let Ok(text) = std::str::from_utf8(input) else { return "no text".into() };
    outcome(text.parse::<fields::Selector>().map(|selector| {
        let formatted = selector.to_string();
        let again: fields::Selector =
            formatted.parse().unwrap_or_else(|error| panic!("{formatted:?}: {error}"));
        assert_eq!(again.to_string(), formatted);
        format!("read, {}", selector.requirements().len().min(4))
    }))
}

fn read_quantity(input: &[u8]) -> String {
    let Ok(text) = std::str::from_utf8(input) else { return "no text".into() };
    outcome(text.parse::<Quantity>().map(|quantity| {
        let formatted = quantity.to_string();
        let again: Quantity = formatted.parse().unwrap_or_else(|error| panic!("{formatted:?}: {error}"));
        assert_eq!(again.to_string(), formatted, "canonical form is unique");
        let suffix: String = formatted.chars().filter(|c| !c.is_ascii_digit()).collect();
        format!("read as {suffix}")
    }))
}

fn read_time(input: &[u8]) -> String {
    let Ok(text) = std::str::from_utf8(input) else { return "no text".into() };
    outcome(text.parse::<Time>().map(|time| {
        let formatted = time.to_string();
        assert_eq!(formatted.parse::<Time>().expect("formatted time parses").to_string(), formatted);
        "read".to_owned()
    }))
}

/// Asserts that the result of a patch can be normalized or rejected, with the same result in place and after
/// encoding.
fn patched<E: std::fmt::Display>(result: Result<Value, E>) -> String {
    outcome(result.map(|object| {
        let read = json::decode(object.to_string().as_bytes(), DecodeTarget::Type(pod_type()));
        let formed = json::conform(object, pod_type());
        assert_eq!(read.ok(), formed.as_ref().ok().cloned(), "normalizing in place equals decoding");
        let formed = formed.map(|_| "a pod".to_owned());
        format!("patched: {}", outcome(formed))
    }))
}

fn json_patch(input: &[u8]) -> String {
    outcome(JsonPatch::from_slice(input).map(|patch| patched(patch.apply(pod()))))
}

fn merge_patch(input: &[u8]) -> String {
    let Ok(decoded) = json::decode(input, DecodeTarget::Any) else { return "no JSON".into() };
    patched(merge::apply(pod(), decoded.object))
}

fn strategic_patch(input: &[u8]) -> String {
    let Ok(decoded) = json::decode(input, DecodeTarget::Any) else { return "no JSON".into() };
    let graph = graph();
    let meta = strategic::PatchMeta::new(graph.schema(), graph.node(pod_type()));
    patched(strategic::apply(meta, pod(), decoded.object))
}

fn manager<T>(work: impl FnOnce(&FieldManager<'_>) -> T) -> T {
    let graph = graph();
    let node = graph.node(pod_type());
    let versions = OneVersion { schema: graph.schema(), node, api_version: "v1" };
    let initial = Type::new(graph.schema(), node).initial();
    work(&FieldManager {
        versions: &versions,
        api_version: "v1",
        kind: "Pod",
        subresource: "",
        reset_fields: ResetFields::NONE,
        initial: Some(&initial),
    })
}

const WRITER: Writer<'static> = Writer { manager: "fuzz", now: "2024-01-02T03:04:05Z" };

fn apply(input: &[u8]) -> String {
    let Ok(decoded) = yaml::decode(input, DecodeTarget::Any) else { return "no YAML".into() };
    let config = decoded.object;
    manager(|manager| {
        outcome(manager.apply(Some(&pod()), &config, &WRITER, true).map(|applied| {
            let again = manager.apply(Some(&applied.object), &config, &WRITER, false);
            let again = again.unwrap_or_else(|error| panic!("first apply succeeded, second failed: {error}"));
            assert_eq!(again.object, applied.object, "apply is idempotent");
            patched(Ok::<_, DecodeError>(applied.object))
        }))
    })
}

/// Clients may send managed fields of their own; whatever these contain, writes must work.
fn managed_fields(input: &[u8]) -> String {
    let Ok(decoded) = json::decode(input, DecodeTarget::Any) else { return "no JSON".into() };
    let mut live = pod();
    live["metadata"]["managedFields"] = json!([{"manager": "other", "operation": "Apply", "apiVersion": "v1", "time": "2024-01-02T03:04:05Z", "fieldsType": "FieldsV1", "fieldsV1": decoded.object}]);
    let mut new = live.clone();
    new["metadata"]["labels"]["a"] = "changed".into();
    manager(|manager| {
        let tracked = manager.update_no_errors(Some(&live), new, &WRITER);
        let entries = tracked["metadata"]["managedFields"].as_array().map_or(0, Vec::len);
        format!("{entries} entries")
    })
}
