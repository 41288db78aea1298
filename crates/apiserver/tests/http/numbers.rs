//! Numbers of any size and spelling, through every codec, every patch and the store.
//!
//! The expected text follows the rule of `sigs.k8s.io/json` and Go's `encoding/json`, worked out here from exact
//! decimals: an integer that an int64 holds stays, anything else becomes a float64 and is printed with as few digits
//! as identify it.

use bytes::Bytes;
use coracle_api::codec::protobuf;
use coracle_api::schema::types;
use coracle_base::Rng;
use http::Method;
use serde_json::{Value, json};

use crate::client::{Client, PROTOBUF, bytes};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const GAUGES: &str = "/apis/example.com/v1/namespaces/default/gauges";
const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const APPLY: &str = "application/apply-patch+yaml";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";

/// Numbers of one object. Their texts stay far below the limit of a body.
const COUNT: usize = 4_000;

/// The digits of a float64 and its decimal exponent: as few digits as read as the same number, and of those the
/// nearest. `precision` digits after the first are rounded from the exact value.
fn digits(value: f64) -> (String, i32) {
    for precision in 0..=17 {
        let text = format!("{:.precision$e}", value.abs());
        if text.parse::<f64>().unwrap() == value.abs() {
            let (digits, exponent) = text.split_once('e').unwrap();
            return (digits.replace('.', ""), exponent.parse().unwrap());
        }
    }
    unreachable!("17 digits identify every float64")
}

/// The text of a float64, with an exponent outside of `plain`, which has two digits unless `is_json` allows one.
fn go_text(value: f64, plain: std::ops::Range<i32>, is_json: bool) -> String {
    let sign = if value.is_sign_negative() { "-" } else { "" };
    if value == 0.0 {
        return format!("{sign}0");
    }
    let (digits, exponent) = digits(value);
    if plain.contains(&exponent) {
        let text = if exponent < 0 {
            format!("0.{}{digits}", "0".repeat(usize::try_from(-exponent - 1).unwrap()))
        } else {
            let whole = usize::try_from(exponent + 1).unwrap();
            match digits.get(whole..).filter(|rest| !rest.is_empty()) {
                Some(rest) => format!("{}.{rest}", &digits[..whole]),
                None => format!("{digits}{}", "0".repeat(whole - digits.len())),
            }
        };
        return format!("{sign}{text}");
    }
    let point = if digits.len() > 1 { "." } else { "" };
    let (first, rest) = digits.split_at(1);
    let size = exponent.abs();
    match (exponent < 0, is_json) {
        (true, true) => format!("{sign}{first}{point}{rest}e-{size}"),
        (true, false) => format!("{sign}{first}{point}{rest}e-{size:02}"),
        (false, _) => format!("{sign}{first}{point}{rest}e+{size:02}"),
    }
}

fn is_int64(text: &str) -> bool {
    !text.contains(['.', 'e', 'E']) && text.parse::<i64>().is_ok()
}

/// The text that kube-apiserver returns for a number of a custom resource.
fn expected(sent: &str) -> String {
    if is_int64(sent) {
        return sent.parse::<i64>().unwrap().to_string();
    }
    match go_text(sent.parse().unwrap(), -6..21, true) {
        // A number that is stored as `-0` is read as an integer.
        zero if zero == "-0" => "0".to_owned(),
        text => text,
    }
}

/// The same in YAML, where integers are told from the text of the JSON.
fn expected_in_yaml(sent: &str) -> String {
    let text = expected(sent);
    let is_integer = text.parse::<i64>().is_ok() || text.parse::<u64>().is_ok();
    if is_integer { text } else { go_text(text.parse().unwrap(), -4..6, false) }
}

/// Texts of JSON numbers: full precision, subnormal, huge, around the limits of integers, in every spelling.
fn samples(rng: &mut Rng) -> Vec<String> {
    let mut samples: Vec<String> = [
        "0",
        "-0",
        "-0.0",
        "0e5",
        "1.0",
        "1e2",
        "1E+2",
        "-1e-2",
        "31.245270191439438",
        "9223372036854775000",
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775808",
        "-9223372036854775809",
        "18446744073709551615",
        "18446744073709551616",
        "9007199254740991",
        "9007199254740992",
        "9007199254740993",
        "9007199254740993.0",
        "-9007199254740993",
        "123456789012345678901234567890",
        "1e20",
        "1e21",
        "1e22",
        "0.000001",
        "0.0000001",
        "0.00001",
        "5e-324",
        "2.2250738585072014e-308",
        "1.7976931348623157e308",
        "0.1",
        "0.30000000000000004",
        "100000.5",
        "1000000.5",
        "123456789.125",
        "1.50",
    ]
    .map(str::to_owned)
    .to_vec();
    while samples.len() < COUNT {
        let float = f64::from_bits(rng.u64());
        let small = (rng.u64() >> 11) as f64 / (1_u64 << 53) as f64;
        let near = |power: u32, rng: &mut Rng| (1_i128 << power) + i128::from(rng.u64() % 4_097) - 2_048;
        let sample = match rng.u64() % 8 {
            0 | 1 if float.is_finite() => format!("{float:e}"),
            2 if float.is_finite() => format!("{float:.19e}"),
            3 => format!("{}", small * 1_000.0),
            4 => format!("{:.20}", small / 1_000.0),
            5 => format!("{}", near([53, 63, 64][rng.u64() as usize % 3], rng)),
            6 => format!("-{}.0", near([53, 63, 64][rng.u64() as usize % 3], rng)),
            _ => format!("{}", rng.u64().cast_signed()),
        };
        samples.push(sample);
    }
    samples
}

/// The texts in the list `numbers` of a body.
fn numbers_in(body: &str) -> Vec<&str> {
    let list = body.split_once("\"numbers\":[").expect("a list of numbers").1;
    list.split_once(']').unwrap().0.split(',').collect()
}

fn assert_numbers(found: &[&str], sent: &[String], expected: fn(&str) -> String, path: &str) {
    assert_eq!(found.len(), sent.len(), "{path}");
    for (found, sent) in found.iter().zip(sent) {
        assert_eq!(*found, expected(sent), "{path}: {sent}");
    }
}

struct Gauge {
    client: Client,
    sent: Vec<String>,
}

impl Gauge {
    /// Sends a body and checks the numbers of the answer and those of the stored object. Returns the answer.
    async fn send(&self, method: Method, path: &str, media_type: &str, body: String) -> Value {
        let response = self.client.send(method, path, &[("content-type", media_type)], body).await;
        let code = response.status().as_u16();
        let answer = String::from_utf8(bytes(response).await.to_vec()).unwrap();
        assert!(code < 300, "{media_type}: {answer}");
        assert_numbers(&numbers_in(&answer), &self.sent, expected, media_type);
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let stored = format!("{GAUGES}/{}", answer["metadata"]["name"].as_str().unwrap());
        let stored = bytes(self.client.accept(&stored, JSON).await).await;
        assert_numbers(&numbers_in(str::from_utf8(&stored).unwrap()), &self.sent, expected, media_type);
        answer
    }

    fn object(&self, name: &str) -> String {
        format!(
            r#"{{"apiVersion":"example.com/v1","kind":"GAUGES","metadata":{{"name":"{name}"}},"spec":{{"numbers":[{}]}}}}"#,
            self.sent.join(",")
        )
    }

    /// Changes another field. Returns the object.
    async fn touch(&self, name: &str, label: &str) -> Value {
        let patch = json!({"metadata": {"labels": {"touched": label}}}).to_string();
        self.send(Method::PATCH, &format!("{GAUGES}/{name}"), MERGE, patch).await
    }
}

async fn gauge() -> Gauge {
    let client = Client::new().await;
    let numbers = json!({"type": "array", "items": {"type": "number"}});
    let (code, definition) =
        client.json(Method::POST, DEFINITIONS, definition("gauges", &json!({"numbers": numbers}))).await;
    assert_eq!(code, 201, "{definition}");
    Gauge { client: establish(client, definition).await, sent: samples(&mut Rng::seeded(38)) }
}

/// Accepts the names of the definition of gauges, as the controller that does not run here would.
async fn establish(client: Client, mut definition: Value) -> Client {
    definition["status"]["acceptedNames"] = definition["spec"]["names"].clone();
    definition["status"]["conditions"] = json!([
        {"type": "NamesAccepted", "status": "True", "reason": "NoConflicts", "message": ""},
        {"type": "Established", "status": "True", "reason": "InitialNamesAccepted", "message": ""},
    ]);
    let path = format!("{DEFINITIONS}/gauges.example.com/status");
    let (code, answer) = client.json(Method::PUT, &path, definition).await;
    assert_eq!(code, 200, "{answer}");
    client
}

/// A definition whose spec has these properties.
fn definition(plural: &str, properties: &Value) -> Value {
    let spec = json!({"type": "object", "properties": properties});
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    let kind = plural.to_uppercase();
    let names =
        json!({"plural": plural, "singular": plural, "kind": kind, "listKind": format!("{kind}List")});
    let version =
        json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]},
    })
}

#[tokio::test]
async fn numbers_survive_every_codec() {
    let gauge = gauge().await;
    gauge.send(Method::POST, GAUGES, JSON, gauge.object("json")).await;
    // JSON is YAML.
    gauge.send(Method::POST, GAUGES, YAML, gauge.object("yaml")).await;
    let yaml = bytes(gauge.client.accept(&format!("{GAUGES}/json"), YAML).await).await;
    let yaml = str::from_utf8(&yaml).unwrap();
    let list = yaml.split_once("  numbers:\n").unwrap().1.lines();
    let listed: Vec<&str> = list.map_while(|line| line.strip_prefix("  - ")).collect();
    assert_numbers(&listed, &gauge.sent, expected_in_yaml, "answer in YAML");
    let list = bytes(gauge.client.accept(GAUGES, JSON).await).await;
    assert_numbers(&numbers_in(str::from_utf8(&list).unwrap()), &gauge.sent, expected, "list");
}

#[tokio::test]
async fn numbers_survive_updates_and_patches_that_do_not_touch_them() {
    let gauge = gauge().await;
    let created = gauge.send(Method::POST, GAUGES, JSON, gauge.object("a")).await;
    for label in ["1", "2", "3"] {
        assert_eq!(gauge.touch("a", label).await["metadata"]["generation"], 1);
    }
    let touched = gauge.touch("a", "3").await;
    let mut sent = touched.clone();
    sent["spec"]["numbers"] = json!([]);
    let sent = sent.to_string().replace("\"numbers\":[]", &format!("\"numbers\":[{}]", gauge.sent.join(",")));
    let updated = gauge.send(Method::PUT, &format!("{GAUGES}/a"), JSON, sent).await;
    assert_eq!(updated, touched, "nothing changed");
    assert_ne!(updated["metadata"]["resourceVersion"], created["metadata"]["resourceVersion"]);
}

#[tokio::test]
async fn numbers_survive_json_patches_and_merge_patches_that_set_them() {
    let gauge = gauge().await;
    let list = gauge.sent.join(",");
    let empty = |name: &str| {
        let metadata = json!({"name": name});
        json!({"apiVersion": "example.com/v1", "kind": "GAUGES", "metadata": metadata, "spec": {}})
    };
    for (name, media_type, patch) in [
        ("a", JSON_PATCH, format!(r#"[{{"op":"add","path":"/spec/numbers","value":[{list}]}}]"#)),
        ("b", MERGE, format!(r#"{{"spec":{{"numbers":[{list}]}}}}"#)),
    ] {
        let (code, answer) = gauge.client.json(Method::POST, GAUGES, empty(name)).await;
        assert_eq!(code, 201, "{answer}");
        let one = format!("{GAUGES}/{name}");
        let first = gauge.send(Method::PATCH, &one, media_type, patch.clone()).await;
        assert_eq!(first["metadata"]["generation"], 2);
        let again = gauge.send(Method::PATCH, &one, media_type, patch).await;
        assert_eq!(again, first, "{media_type}: nothing changed");
    }
}

#[tokio::test]
async fn applying_the_same_numbers_again_changes_nothing() {
    let gauge = gauge().await;
    let one = format!("{GAUGES}/a?fieldManager=test");
    let first = gauge.send(Method::PATCH, &one, APPLY, gauge.object("a")).await;
    assert_eq!(first["metadata"]["generation"], 1);
    for _ in 0..2 {
        assert_eq!(gauge.send(Method::PATCH, &one, APPLY, gauge.object("a")).await, first);
    }
}

/// Numbers in the fields of a schema: `maximum` is a float64, `default` and `enum` are JSON.
struct Limits {
    client: Client,
    sent: Vec<String>,
}

impl Limits {
    /// A definition with a property for each number. The texts are put in where the tree has `number`.
    fn body(&self, plural: &str) -> String {
        let property = |(index, _): (usize, &String)| {
            let number = format!("number {index}");
            let limit = json!({"type": "number", "maximum": number});
            let default = json!({"type": "number", "default": number, "enum": [number]});
            [(format!("limit{index}"), limit), (format!("default{index}"), default)]
        };
        let properties: serde_json::Map<_, _> = self.sent.iter().enumerate().flat_map(property).collect();
        let mut body = definition(plural, &Value::Object(properties)).to_string();
        for (index, sent) in self.sent.iter().enumerate() {
            body = body.replace(&format!("\"number {index}\""), sent);
        }
        body
    }

    fn check(&self, body: &str, path: &str) {
        for (index, sent) in self.sent.iter().enumerate() {
            let float = go_text(sent.parse().unwrap(), -6..21, true);
            let limit = format!(r#""limit{index}":{{"maximum":{float},"type":"number"}}"#);
            assert!(body.contains(&limit), "{path}: {sent}: {limit}");
            let number = expected(sent);
            let default =
                format!(r#""default{index}":{{"default":{number},"enum":[{number}],"type":"number"}}"#);
            assert!(body.contains(&default), "{path}: {sent}: {default}");
        }
    }

    /// Sends a body and checks the numbers of the answer.
    async fn send(&self, method: Method, path: &str, media_type: &str, body: impl Into<Bytes>) -> Value {
        let response = self.client.send(method, path, &[("content-type", media_type)], body).await;
        let code = response.status().as_u16();
        let answer = String::from_utf8(bytes(response).await.to_vec()).unwrap();
        assert!(code < 300, "{media_type}: {answer}");
        self.check(&answer, media_type);
        serde_json::from_str(&answer).unwrap()
    }
}

#[tokio::test]
async fn numbers_of_schemas_survive_every_codec_and_patch() {
    // The sign of zero depends on the codec: in YAML, `-0` is an integer.
    let all = samples(&mut Rng::seeded(83)).into_iter().filter(|sent| !matches!(&**sent, "-0" | "-0.0"));
    let limits = Limits { client: Client::new().await, sent: all.take(300).collect() };
    let created = limits.send(Method::POST, DEFINITIONS, JSON, limits.body("gauges")).await;
    limits.send(Method::POST, DEFINITIONS, YAML, limits.body("meters")).await;
    let one = format!("{DEFINITIONS}/gauges.example.com");
    for (media_type, patch) in [
        (MERGE, r#"{"metadata":{"labels":{"a":"1"}}}"#),
        (STRATEGIC, r#"{"metadata":{"labels":{"a":"2"}}}"#),
        (JSON_PATCH, r#"[{"op":"replace","path":"/metadata/labels/a","value":"3"}]"#),
    ] {
        assert_eq!(limits.send(Method::PATCH, &one, media_type, patch).await["metadata"]["generation"], 1);
    }
    assert_eq!(created["metadata"]["generation"], 1);
    let merged = limits.body("gauges");
    assert_eq!(limits.send(Method::PATCH, &one, MERGE, merged.clone()).await["metadata"]["generation"], 1);
    assert_eq!(limits.send(Method::PATCH, &one, STRATEGIC, merged).await["metadata"]["generation"], 1);

    let scales = format!("{DEFINITIONS}/scales.example.com?fieldManager=test");
    let applied = limits.send(Method::PATCH, &scales, APPLY, limits.body("scales")).await;
    for _ in 0..2 {
        assert_eq!(limits.send(Method::PATCH, &scales, APPLY, limits.body("scales")).await, applied);
    }

    let message = bytes(limits.client.accept(&one, PROTOBUF).await).await;
    assert!(message.starts_with(b"k8s\0"));
    let mut read = protobuf::decode(&message, None).unwrap().object;
    read["metadata"]["labels"]["a"] = "4".into();
    let definition = types().kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition").unwrap();
    let headers = [("content-type", PROTOBUF), ("accept", JSON)];
    let message = protobuf::encode(&read, definition);
    let answer = bytes(limits.client.send(Method::PUT, &one, &headers, message).await).await;
    let answer = str::from_utf8(&answer).unwrap();
    assert!(answer.contains("\"a\":\"4\"") && answer.contains("\"generation\":1,"), "{answer}");
    limits.check(answer, PROTOBUF);
}

#[tokio::test]
async fn limit_of_nineteen_digits_is_kept_and_enforced() {
    let client = Client::new().await;
    let limit = json!({"level": {"type": "integer", "maximum": 9_223_372_036_854_775_000_i64}});
    let (code, created) = client.json(Method::POST, DEFINITIONS, definition("gauges", &limit)).await;
    assert_eq!(code, 201, "{created}");
    let gauge = establish(client, created).await;
    for (level, expected) in
        [("9223372036854774784", 201), ("9223372036854775000", 422), ("9223372036854775807", 422)]
    {
        let body = format!(
            r#"{{"apiVersion":"example.com/v1","kind":"GAUGES","metadata":{{"generateName":"a"}},"spec":{{"level":{level}}}}}"#
        );
        let response = gauge.send(Method::POST, GAUGES, &[("content-type", JSON)], body).await;
        assert_eq!(response.status().as_u16(), expected, "{level}");
    }
}

/// Raw bytes of a built-in kind keep integers that an int64 cannot hold.
#[tokio::test]
async fn raw_integers_of_sixty_four_bits_survive() {
    let client = Client::new().await;
    let revision = json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {"name": "a"}, "revision": 1,
        "data": {"largest": u64::MAX, "precise": 31.245_270_191_439_438},
    });
    let revisions = "/apis/apps/v1/namespaces/default/controllerrevisions";
    let (code, created) = client.json(Method::POST, revisions, revision.clone()).await;
    assert_eq!((code, &created["data"]), (201, &revision["data"]));
    let one = format!("{revisions}/a");
    for (media_type, body) in
        [(MERGE, r#"{"metadata":{"labels":{"a":"b"}}}"#), (STRATEGIC, r#"{"metadata":{"labels":{"a":"c"}}}"#)]
    {
        let response = client.send(Method::PATCH, &one, &[("content-type", media_type)], body).await;
        let patched: Value = serde_json::from_slice(&bytes(response).await).unwrap();
        assert_eq!(patched["data"], revision["data"], "{media_type}");
    }
}
