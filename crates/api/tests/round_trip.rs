//! Random objects of every kind through every codec, and random bytes.

use coracle_api::codec::{Target, json, protobuf, yaml};
use coracle_api::schema::{Item, Shape, Single, TypeId, types};
use fastrand::Rng;
use serde_json::{Map, Value};

/// Number of objects of each kind in one run.
const ROUNDS: u64 = 12;
/// Number of mutated bodies of each kind in one run.
const MUTATIONS: usize = 40;

fn structure(rng: &mut Rng, id: TypeId, depth: usize) -> Value {
    let mut object = Map::new();
    let share = [100, 40, 30, 20, 15, 10, 4].get(depth).copied().unwrap_or(1);
    for field in &types().get(id).fields {
        let is_type_meta =
            matches!(field.name, "apiVersion" | "kind") && field.attributes.embedded().is_some();
        if is_type_meta || rng.u32(0..100) >= share {
            continue;
        }
        let count = rng.usize(1..3);
        let value = match field.shape {
            Shape::One(item) => self::item(rng, item, depth + 1),
            Shape::List(item) => Value::Array((0..count).map(|_| self::item(rng, item, depth + 1)).collect()),
            Shape::Map(item) => {
                Value::Object((0..count).map(|_| (word(rng), self::item(rng, item, depth + 1))).collect())
            }
        };
        object.insert(field.name.to_owned(), value);
    }
    Value::Object(object)
}

fn word(rng: &mut Rng) -> String {
    const WORDS: [&str; 8] = ["a", "kubernetes.io/name", "é", "x y", "\"\\", "no", "0755", "😀\n"];
    WORDS[rng.usize(..WORDS.len())].to_owned()
}

fn item(rng: &mut Rng, item: Item, depth: usize) -> Value {
    let single = match item {
        Item::Struct(id) => return structure(rng, id, depth),
        Item::Single(single) => single,
    };
    match single {
        Single::String => word(rng).into(),
        Single::Bytes => ["AA==", "aGVsbG8=", "/+8="][rng.usize(..3)].into(),
        Single::Int32 => rng.i32(..).into(),
        Single::Int64 => rng.i64(..).into(),
        Single::Double => (f64::from(rng.i32(..)) / 8.0).into(),
        Single::Boolean => rng.bool().into(),
        Single::IntOrString if rng.bool() => rng.i32(..).into(),
        Single::IntOrString => word(rng).into(),
        Single::Quantity => ["0.5", "1024Ki", "3", "1e3", "100m", "-2Gi"][rng.usize(..6)].into(),
        Single::Time => "2024-02-29T12:00:00+01:00".into(),
        Single::MicroTime => "2024-02-29T12:00:00.123456Z".into(),
        Single::Strings => Value::Array(vec![word(rng).into()]),
        Single::SchemaOrStringArray => Value::Array(vec![word(rng).into(), word(rng).into()]),
        Single::SchemaOrBool => rng.bool().into(),
        Single::SchemaOrArray => Value::Array(vec![serde_json::json!({ "type": "string" })]),
        Single::RawExtension | Single::FieldsV1 | Single::Json | Single::Patch => {
            serde_json::json!({ "f:a": [1, 2.5, null, "x"], word(rng): { "b": true } })
        }
    }
}

/// Every kind with its type, in a fixed order.
fn kinds() -> Vec<(String, &'static str, TypeId)> {
    let mut kinds: Vec<_> = types()
        .kinds()
        .map(|(group, version, kind, id)| {
            let api_version = if group.is_empty() { version.into() } else { format!("{group}/{version}") };
            (api_version, kind, id)
        })
        .collect();
    kinds.sort();
    kinds
}

fn object(seed: u64, api_version: &str, kind: &str, id: TypeId) -> Value {
    let mut object = structure(&mut Rng::with_seed(seed), id, 0);
    object["apiVersion"] = api_version.into();
    object["kind"] = kind.into();
    object
}

#[test]
fn json_protobuf_and_yaml_hold_the_same_object() {
    for (api_version, kind, id) in kinds() {
        for seed in 0..ROUNDS {
            let context = format!("{api_version} {kind} seed {seed}");
            let decoded = json::conform(object(seed, &api_version, kind, id), id).expect(&context);
            assert_eq!(decoded.problems, [], "{context}");
            let text = serde_json::to_vec(&decoded.object).unwrap();
            let again = json::decode(&text, Target::Type(id)).expect(&context);
            assert_eq!(again, decoded, "{context}: reading twice is reading once");
            let bytes = protobuf::encode(&decoded.object, id);
            let from_protobuf = protobuf::decode(&bytes, None).expect(&context);
            assert_eq!(from_protobuf.object, decoded.object, "{context}");
            let text = serde_json::to_string_pretty(&decoded.object).unwrap();
            let from_yaml = yaml::decode(text.as_bytes(), Target::Type(id)).expect(&context);
            assert_eq!(from_yaml, decoded, "{context}: JSON is YAML");
        }
    }
}

/// A random value inside a tree.
fn somewhere<'a>(rng: &mut Rng, value: &'a mut Value) -> &'a mut Value {
    let children = match value {
        Value::Array(items) => items.len(),
        Value::Object(fields) => fields.len(),
        _ => 0,
    };
    if children == 0 || rng.u8(0..5) == 0 {
        return value;
    }
    let at = rng.usize(..children);
    let child = match value {
        Value::Array(items) => &mut items[at],
        Value::Object(fields) => fields.values_mut().nth(at).expect("there are as many"),
        _ => unreachable!("it has children"),
    };
    somewhere(rng, child)
}

#[test]
fn conforming_in_place_equals_encoding_and_decoding() {
    let others = serde_json::json!([
        null, "", "x", "1000m", "AA=", "2024-02-29T12:00:00Z", "2024-02-29T12:00:00.1Z", "2024-02-30T12:00:00Z",
        "2024-02-29t12:00:00z", "2024-02-29T12:00:00.123456Z", "2024-02-29T1:00:00.1Z", "0001-01-01T00:00:00Z", 0, 1, 1.0, 0.5, -0.0, u64::MAX,
        i64::MAX, false, true, [], [null], [1], {}, {"": null}, {"x": 1}
    ]);
    let others = others.as_array().unwrap();
    let (mut conformed_in_place, mut tried) = (0, 0);
    for (api_version, kind, id) in kinds() {
        for seed in 0..MUTATIONS {
            let mut rng = Rng::with_seed(seed as u64);
            let made = object(rng.u64(..), &api_version, kind, id);
            let mut tree = json::conform(made, id).unwrap().object;
            for _ in 0..rng.usize(0..3) {
                *somewhere(&mut rng, &mut tree) = others[rng.usize(..others.len())].clone();
            }
            tried += 1;
            let text = serde_json::to_vec(&tree).unwrap();
            match json::conform_soon(tree.clone(), id) {
                Ok(settled) => {
                    conformed_in_place += 1;
                    let read = json::decode(&text, Target::Type(id)).unwrap();
                    assert_eq!(read.object, settled, "{api_version} {kind} seed {seed}");
                    assert_eq!(read.problems, [], "{api_version} {kind} seed {seed}");
                }
                Err(same) => assert_eq!(same, tree, "{api_version} {kind} seed {seed}"),
            }
        }
    }
    assert!(conformed_in_place * 3 > tried, "a third has not been changed: {conformed_in_place} of {tried}");
}

#[test]
fn mutated_bytes_do_not_panic() {
    for (api_version, kind, id) in kinds() {
        let object = json::conform(object(1, &api_version, kind, id), id).unwrap().object;
        let bodies = [protobuf::encode(&object, id), serde_json::to_vec(&object).unwrap()];
        for seed in 0..MUTATIONS {
            let mut rng = Rng::with_seed(seed as u64);
            let mut body = bodies[seed % 2].clone();
            for _ in 0..rng.usize(1..4) {
                let at = rng.usize(..body.len());
                match rng.u8(0..3) {
                    0 => body[at] = rng.u8(..),
                    1 => body.truncate(at.max(4)),
                    _ => body.insert(at, rng.u8(..)),
                }
            }
            // No decoder may panic; everything decoded must be encoded and decoded to the same object.
            if let Ok(decoded) = protobuf::decode(&body, Some(id)) {
                protobuf::encode(&decoded.object, id);
            }
            if let Ok(decoded) = json::decode(&body, Target::Type(id)) {
                protobuf::encode(&decoded.object, id);
            }
            drop(yaml::decode(&body, Target::Type(id)));
        }
    }
}

#[test]
fn random_bytes_do_not_panic() {
    let pod = types().kind("", "v1", "Pod").unwrap();
    let schema = types().kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition").unwrap();
    for seed in 0..20_000 {
        let mut rng = Rng::with_seed(seed);
        let bytes: Vec<u8> = (0..rng.usize(0..60)).map(|_| rng.u8(..)).collect();
        drop(protobuf::decode(&bytes, Some(pod)));
        drop(protobuf::decode_message(&bytes, pod));
        drop(protobuf::decode_message(&bytes, schema));
        drop(json::decode(&bytes, Target::Any));
        drop(yaml::decode(&bytes, Target::Any));
    }
}
