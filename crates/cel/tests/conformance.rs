//! Conformance with cel-go as kube-apiserver 1.36 configures it: errors, types, values, estimated
//! and actual costs. `fixtures/conformance/*.txt` was recorded from Kubernetes' code, for the
//! objects and variables below.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::fmt::Write as _;
use std::sync::LazyLock;

use base64::Engine as _;
use coracle_cel::{
    Authorizer, Bindings, Budget, Check, Decision, Decl, Env, FieldDecl, ListKind, ResourceCheck, Shape,
    Subject, Timestamp, Type, Value,
};
use serde_json::{Value as Json, json};

fn field(name: &str, decl: Decl) -> FieldDecl {
    FieldDecl::new(name, decl, matches!(name, "name" | "items")).unwrap()
}

fn optional(name: &str, decl: Decl) -> FieldDecl {
    FieldDecl::new(name, decl, false).unwrap()
}

fn scalar(shape: Shape) -> Decl {
    Decl::scalar(shape)
}

fn text(max_length: u64) -> Decl {
    scalar(Shape::String).with_max_length(max_length)
}

static SELF: LazyLock<Decl> = LazyLock::new(|| {
    let item = Decl::object([optional("name", text(30)), optional("value", scalar(Shape::Int))]);
    let row = Decl::object([FieldDecl::new("k", text(8), true).unwrap(), optional("v", scalar(Shape::Int))]);
    let deep = Decl::object([optional("x", scalar(Shape::Int))]);
    Decl::object([
        field("name", text(64)),
        field("replicas", scalar(Shape::Int)),
        field("maxReplicas", scalar(Shape::Int)),
        field("ratio", scalar(Shape::Double)),
        field("enabled", scalar(Shape::Bool)),
        field("created", scalar(Shape::DateTime)),
        field("ttl", scalar(Shape::Duration)),
        field("payload", scalar(Shape::Bytes).with_max_length(100)),
        field("day", scalar(Shape::Date)),
        field("port", scalar(Shape::IntOrString)),
        field("phase", scalar(Shape::String).with_enum(["Ready", "Pending"])),
        field("labels", Decl::map(text(10), Some(10))),
        field("counts", Decl::map(scalar(Shape::Int), None)),
        field("items", Decl::list(item, ListKind::Atomic, Some(20))),
        field("tags", Decl::list(text(16), ListKind::Set, Some(10))),
        field("rows", Decl::list(row, ListKind::Map(["k".into()].into()), None)),
        field("nested", Decl::object([optional("deep", deep), optional("opt", scalar(Shape::String))])),
        field("namespace", scalar(Shape::String)),
        field("a-b", scalar(Shape::String)),
        field("maybe", scalar(Shape::String).nullable()),
        field("unbounded", Decl::list(scalar(Shape::String), ListKind::Atomic, None)),
        field(
            "matrix",
            Decl::list(Decl::list(scalar(Shape::Int), ListKind::Atomic, Some(4)), ListKind::Atomic, Some(4)),
        ),
    ])
});

fn self_object() -> Json {
    json!({
        "name": "web", "replicas": 3, "maxReplicas": 5, "ratio": 0.5, "enabled": true,
        "created": "2024-02-29T12:34:56.789Z", "ttl": "1h30m", "payload": "aGVsbG8=", "day": "2024-02-29",
        "port": 8080, "phase": "Ready", "labels": {"app": "web", "tier": "front"},
        "counts": {"one": 1, "two": 2},
        "items": [{"name": "a", "value": 1}, {"name": "b", "value": 2}, {"name": "c"}],
        "tags": ["x", "y", "z"], "rows": [{"k": "one", "v": 1}, {"k": "two", "v": 2}],
        "nested": {"deep": {"x": 7}}, "namespace": "prod", "a-b": "dash", "maybe": null,
        "unbounded": ["p", "q"], "matrix": [[1, 2], [3]],
    })
}

fn old_object() -> Json {
    json!({
        "name": "web", "replicas": 2, "items": [], "tags": ["z", "y", "x"],
        "rows": [{"k": "two", "v": 2}, {"k": "one", "v": 1}], "port": "http",
    })
}

fn dynamic_object() -> Json {
    json!({
        "metadata": {"name": "n", "labels": {"a": "1", "b": "2"}, "generation": 3},
        "spec": {
            "replicas": 3, "ratio": 1.5, "on": true, "none": null, "list": [1, 2, 3], "strs": ["a", "b"],
            "created": "2024-01-01T00:00:00Z", "mixed": [1, "a", null, 2.5],
            "containers": [{"name": "c1", "image": "nginx:1"}, {"name": "c2", "image": "redis"}],
        },
    })
}

fn env() -> Env {
    let base = Env::kubernetes()
        .declared_variable("self", "selfType", &SELF)
        .declared_variable("oldSelf", "selfType", &SELF);
    [
        ("i", Type::Int),
        ("u", Type::Uint),
        ("d", Type::Double),
        ("s", Type::String),
        ("b", Type::Bool),
        ("by", Type::Bytes),
        ("ts", Type::Timestamp),
        ("dur", Type::Duration),
        ("ls", Type::list(Type::String)),
        ("li", Type::list(Type::Int)),
        ("m", Type::map(Type::String, Type::Int)),
        ("mi", Type::map(Type::Int, Type::String)),
        ("object", Type::Dyn),
        ("missing", Type::Dyn),
        ("os", Type::optional(Type::String)),
        ("authorizer", Type::object("kubernetes.authorization.Authorizer")),
        ("requestResource", Type::object("kubernetes.authorization.ResourceCheck")),
    ]
    .into_iter()
    .fold(base, |env, (name, of)| env.variable(name, of))
}

/// An authorizer that allows everything but `delete`, and fails for `broken`.
struct ScriptedAuthorizer;

impl Authorizer for ScriptedAuthorizer {
    fn authorize(&self, subject: &Subject, check: Check<'_>, verb: &str) -> Decision {
        if verb == "broken" {
            return Decision { error: Some("authorizer broke".to_owned()), ..Decision::default() };
        }
        let user = match subject {
            Subject::RequestUser => "alice".to_owned(),
            Subject::ServiceAccount { namespace, name } => {
                format!("system:serviceaccount:{namespace}:{name}")
            }
        };
        let nothing = ResourceCheck::default();
        let (path, version, resource) = match check {
            Check::Path(path) => (path, "", &nothing),
            Check::Resource(resource) => ("", "*", resource),
        };
        let reason = format!(
            "user={user} verb={verb} path={path} group={} version={version} resource={} sub={} ns={} name={}",
            resource.group, resource.resource, resource.subresource, resource.namespace, resource.name
        );
        Decision { allowed: verb != "delete", reason, error: None }
    }
}

fn bindings<'d>(own: &'d Json, old: &'d Json, object: &'d Json) -> Bindings<'d> {
    let texts = |texts: &[&'static str]| Value::list(texts.iter().map(|text| Value::text(text)).collect());
    let request = ResourceCheck {
        group: "rg".into(),
        resource: "rr".into(),
        subresource: "rs".into(),
        namespace: "rns".into(),
        name: "rname".into(),
        ..ResourceCheck::default()
    };
    Bindings::new()
        .with_json("self", own, &SELF)
        .unwrap()
        .with_json("oldSelf", old, &SELF)
        .unwrap()
        .with_json("object", object, Decl::anything())
        .unwrap()
        .with("i", Value::Int(5))
        .with("u", Value::Uint(7))
        .with("d", Value::Double(2.5))
        .with("s", Value::text("hello"))
        .with("b", Value::Bool(true))
        .with("by", Value::Bytes(b"bytes".as_slice().into()))
        .with("ts", Value::Timestamp(Timestamp::new(1_704_067_198, 123_000_000).unwrap()))
        .with("dur", Value::Duration(coracle_cel::Duration(90_500_000_000)))
        .with("ls", texts(&["a", "b", "c"]))
        .with("li", Value::list(vec![Value::Int(3), Value::Int(1), Value::Int(2)]))
        .with("m", Value::map([(Value::text("one"), Value::Int(1)), (Value::text("two"), Value::Int(2))]))
        .with("mi", Value::map([(Value::Int(1), Value::text("one")), (Value::Int(2), Value::text("two"))]))
        .with("os", Value::some(Value::text("opt")))
        .with("authorizer", Value::authorizer(&ScriptedAuthorizer))
        .with("requestResource", Value::request_resource(&ScriptedAuthorizer, request))
}

/// Formats a value as the recording program did.
fn format_value(value: &Value<'_>) -> String {
    match value {
        Value::Uint(number) => format!("{number}u"),
        Value::Double(number) if number.is_finite() => format!("d{:x}", number.to_bits()),
        Value::String(text) => Json::from(text.as_str()).to_string(),
        Value::Bytes(bytes) => format!("b:{}", base64::engine::general_purpose::STANDARD.encode(bytes)),
        Value::Timestamp(point) => format!("ts:{}", Timestamp::new(point.seconds, point.nanos).unwrap()),
        Value::Duration(span) => format!("dur:{}", span.0),
        Value::Optional(None) => "optional.none".to_owned(),
        Value::Optional(Some(inner)) => format!("optional({})", format_value(inner)),
        Value::Type(found) => format!("type:{}", found.name()),
        Value::Extension(_) => format!("{}:{value}", value.type_of().name()),
        Value::List(_) => {
            let elements: Vec<String> =
                value.elements().unwrap().map(|element| format_value(&element.unwrap())).collect();
            format!("[{}]", elements.join(", "))
        }
        Value::Map(_) => {
            let mut entries: Vec<String> = value
                .entries()
                .unwrap()
                .map(|entry| entry.unwrap())
                .map(|(key, value)| format!("{}: {}", format_value(&key), format_value(&value)))
                .collect();
            entries.sort();
            format!("{{{}}}", entries.join(", "))
        }
        other => other.to_string(),
    }
}

/// Returns the result of an expression in the format of the recordings.
fn record(env: &Env, bindings: &Bindings<'_>, line: &str) -> String {
    let expression = line.replace("\\n", "\n");
    let escaped = |text: String| text.replace('\n', "\\n");
    let mut output = format!("expr: {line}\n");
    let checked = match env.check(&expression) {
        Ok(checked) => checked,
        Err(error) => {
            writeln!(output, "issue: {}", escaped(error.to_string())).unwrap();
            return output;
        }
    };
    writeln!(output, "type: {}", checked.output_type()).unwrap();
    let estimate = checked.estimate(&*SELF);
    writeln!(output, "estimate: {} {}", estimate.min, estimate.max).unwrap();
    let program = match checked.program() {
        Ok(program) => program,
        Err(error) => {
            writeln!(output, "program: {}", escaped(error.to_string())).unwrap();
            return output;
        }
    };
    let mut budget = Budget::new(u64::MAX);
    match program.evaluate(bindings, &mut budget) {
        Ok(value) => writeln!(output, "value: {}", format_value(&value)).unwrap(),
        Err(error) => writeln!(output, "error: {}", escaped(error.to_string())).unwrap(),
    }
    writeln!(output, "cost: {}", budget.spent()).unwrap();
    output
}

fn check(recorded: &str) {
    let (own, old, object) = (self_object(), old_object(), dynamic_object());
    let (env, bindings) = (env(), bindings(&own, &old, &object));
    let mut wrong = String::new();
    let mut count = 0;
    for block in recorded.split("\n\n").map(str::trim_end).filter(|block| !block.is_empty()) {
        let line = block.lines().find_map(|line| line.strip_prefix("expr: ")).unwrap();
        let expected: String =
            block.lines().filter(|line| !line.starts_with('#')).map(|line| format!("{line}\n")).collect();
        let found = record(&env, &bindings, line);
        count += 1;
        if found != expected {
            writeln!(wrong, "expected:\n{expected}found:\n{found}").unwrap();
        }
    }
    let failures = wrong.matches("expected:\n").count();
    assert!(wrong.is_empty(), "{failures} of {count} differ:\n{wrong}");
}

#[test]
fn language_expressions_match_recording() {
    check(include_str!("fixtures/conformance/language.txt"));
}

#[test]
fn object_expressions_match_recording() {
    check(include_str!("fixtures/conformance/objects.txt"));
}

#[test]
fn library_expressions_match_recording() {
    check(include_str!("fixtures/conformance/libraries.txt"));
}

#[test]
fn syntax_errors_match_recording() {
    check(include_str!("fixtures/conformance/syntax.txt"));
}

#[test]
fn rules_match_recording() {
    check(include_str!("fixtures/conformance/rules.txt"));
}

/// Random combinations of the other expressions.
#[test]
fn random_expressions_match_recording() {
    check(include_str!("fixtures/conformance/random.txt"));
}
