//! Documents and their trees.

use coracle_meta::budget::MAX_JSON_TEXT_BYTES;
use serde_json::json;

use super::*;
use crate::codec::json::MAX_DEPTH;
use crate::codec::{Problem, on_large_stack};
use crate::schema::types;

fn tree(text: &str) -> Value {
    decode(text.as_bytes(), Target::Any).unwrap_or_else(|error| panic!("{text}: {error}")).object
}

fn fault(text: &str) -> String {
    decode(text.as_bytes(), Target::Any).expect_err("it cannot be read").to_string()
}

#[test]
fn scalars_are_resolved_as_by_kubectl() {
    for (text, value) in [
        ("yes", json!(true)),
        ("Off", json!(false)),
        ("y", json!(true)),
        ("\"yes\"", json!("yes")),
        ("!!str yes", json!("yes")),
        ("0755", json!(493)),
        ("0o755", json!(493)),
        ("0x1F", json!(31)),
        ("0b101", json!(5)),
        ("-0b101", json!(-5)),
        ("089", json!(89)),
        ("1_000", json!(1000)),
        ("1.5", json!(1.5)),
        ("1.0", json!(1)),
        (".5", json!(0.5)),
        ("1e3", json!(1000)),
        ("18446744073709551615", json!(1.8446744073709552e19)),
        ("~", json!(null)),
        ("", json!(null)),
        ("null", json!(null)),
        ("2020-01-01", json!("2020-01-01")),
        ("1:30", json!("1:30")),
        ("1.2.3", json!("1.2.3")),
        ("+", json!("+")),
        ("!!float 3", json!(3)),
        ("!custom 5", json!("5")),
        ("!!binary aGk=", json!("hi")),
        ("|\n  a\n  b\n", json!("a\nb\n")),
        (">-\n  a\n  b\n", json!("a b")),
    ] {
        assert_eq!(tree(text), value, "{text}");
    }
}

#[test]
fn maps_lists_and_aliases_are_built() {
    let text = "base: &b\n  a: 1\n  l: [x, {w: z}]\nother:\n  <<: *b\n  c: 2\nsame: *b\n1: int\ntrue: bool\n";
    let expected = json!({
        "base": { "a": 1, "l": ["x", { "w": "z" }] },
        "other": { "a": 1, "l": ["x", { "w": "z" }], "c": 2 },
        "same": { "a": 1, "l": ["x", { "w": "z" }] },
        "1": "int",
        "true": "bool",
    });
    assert_eq!(tree(text), expected);
    assert_eq!(tree("# only a comment\n"), Value::Null);
    assert_eq!(tree("---\na: 1\n...\n"), json!({ "a": 1 }));
}

#[test]
fn duplicate_keys_are_reported_with_their_lines() {
    let pod = types().kind("", "v1", "Pod").unwrap();
    let text = "kind: Pod\nspec:\n  nodeName: a\n  nodeName: b\n  zz: 1\nkind: Pod\n";
    let decoded = decode(text.as_bytes(), Target::Type(pod)).unwrap();
    let problems: Vec<String> = decoded.problems.iter().map(ToString::to_string).collect();
    let duplicates = "yaml: unmarshal errors:\n  line 4: key \"nodeName\" already set in map\n  line 6: key \"kind\" already set in map";
    assert_eq!(problems, [duplicates, "unknown field \"spec.zz\""]);
    assert_eq!(decoded.object["spec"]["nodeName"], "b");
    let many = decode("a: b\n".repeat(100_000).as_bytes(), Target::Any).unwrap();
    assert!(matches!(&*many.problems, [Problem::YamlDuplicates(keys)] if keys.len() == 99_999));
}

#[test]
fn unsupported_documents_are_rejected() {
    assert!(fault("a: 1\n---\nb: 2\n").contains("one document"));

    assert!(fault("a: &x [*x]").contains("contains itself"));
    assert!(fault("a: .inf").contains("unsupported value: +Inf"));
    assert!(fault("? [a]\n: b").contains("invalid map key"));
    assert!(fault("<<: 5").contains("map merge requires map"));
    assert!(decode(b"\xff\xfe", Target::Any).is_err());
}

#[test]
fn alias_bombs_are_rejected() {
    let mut bomb = String::from("a: &a [x, x, x, x, x, x, x, x, x, x]\n");
    for (before, name) in ('a'..'i').zip('b'..='i') {
        bomb.push_str(&format!("{name}: &{name} [{}]\n", [format!("*{before}").as_str(); 10].join(", ")));
    }
    assert!(fault(&bomb).contains("excessive aliasing"));
}

/// The attack: a body of 1.6 MB that expands to 200 GB.
#[test]
fn aliases_of_a_long_scalar_are_limited_by_their_bytes() {
    let body = format!("a: &a {}\nb: [{}]\n", "x".repeat(1_000_000), "*a,".repeat(200_000));
    assert_eq!(fault(&body), "yaml: document contains excessive aliasing");
    // Rejected when the text is too long, before the rest of the memory is allocated.
    let mut budget = DecodeBudget::for_body(body.len());
    assert!(build::document(body.as_bytes(), &mut budget).is_err());
    assert!(budget.spent() < 2 * MAX_JSON_TEXT_BYTES, "{}", budget.spent());
    let few = format!("a: &a {}\nb: [*a, *a]\n", "x".repeat(1_000_000));
    assert_eq!(tree(&few)["b"][1].as_str().map(str::len), Some(1_000_000));
}

#[test]
fn aliases_in_keys_and_merges_are_limited_by_their_bytes() {
    let scalar = "x".repeat(100_000);
    let keys: String = (0..5_000).map(|_| "- {*a : 1}\n").collect();
    assert!(fault(&format!("- &a {scalar}\n{keys}")).contains("excessive aliasing"));
    let merges: String = (0..5_000).map(|_| "- {<<: *a}\n").collect();
    assert!(fault(&format!("- &a {{k: {scalar}}}\n{merges}")).contains("excessive aliasing"));
}

#[test]
fn document_whose_json_would_be_too_long_is_rejected() {
    // Each character is one byte of the tree, and six of JSON.
    let body = format!("a: &a \"{}\"\nb: [*a, *a, *a, *a]\n", "\\x01".repeat(500_000));
    assert!(decode(body.as_bytes(), Target::Any).unwrap_err().is_too_large());
}

#[test]
fn document_nested_deeper_than_json_is_rejected_without_recursion() {
    on_large_stack(check_depth);
}

fn check_depth() {
    assert!(fault(&"[".repeat(MAX_DEPTH)).starts_with("yaml: "));
    for text in ["[".repeat(3_000_000), "{a: ".repeat(700_000), "- ".repeat(1_000_000)] {
        assert!(fault(&text).starts_with("yaml: "), "{}", &text[..8]);
    }
    let nested = |levels: usize| format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
    assert!(decode(nested(MAX_DEPTH).as_bytes(), Target::Any).is_ok());
    let error = fault(&nested(MAX_DEPTH + 1));
    assert!(error.ends_with("exceeded max depth of 10000"), "{error}");
}

#[test]
fn deep_value_round_trips_with_bounded_indentation() {
    on_large_stack(|| {
        let mut value = json!([vec![1; 5_000], {"a": "- b", "c": [], "d": {}}]);
        for level in 0..5_000 {
            // The macro would copy the value at each level.
            value = match level % 2 {
                0 => Value::Object([("a".into(), value), ("b".into(), json!(1))].into_iter().collect()),
                _ => Value::Array(vec![value, json!("x")]),
            };
        }
        let text = encode(&value);
        assert!(text.len() < 1 << 20, "{}", text.len());
        assert!(tree(&text) == value);
    });
}

#[test]
fn encoded_documents_are_decoded_to_the_same_tree() {
    let value = json!({
        "apiVersion": "v1",
        "empty": {},
        "items": [[], {}, null, [1, [2]], { "a": { "b": [true] }, "c": "x" }],
        "texts": ["", "yes", "0755", "1e3", "a b", "a: b", "- x", "#", "\n\t", "é", "2020-01-01", "null", "ok", "-"],
        "number": 1.5,
    });
    let text = encode(&value);
    assert_eq!(tree(&text), value, "{text}");
    assert!(text.starts_with("apiVersion: v1\nempty: {}\nitems:\n- []\n"), "{text}");
    assert_eq!(encode(&json!({})), "{}\n");
}
