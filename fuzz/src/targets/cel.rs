//! CEL expressions, which clients send in policies and CustomResourceDefinitions.

use std::sync::LazyLock;

use coracle_cel::{Bindings, Budget, Decl, Env, EvalError, FieldDecl, ListKind, Shape, Type, Value};
use serde_json::{Value as Json, json};

/// Cost limit of an evaluation: high enough for every kind of error, low enough to be fast.
const CALL_LIMIT: u64 = 20_000;

static DECL: LazyLock<Decl> = LazyLock::new(|| {
    let item = Decl::object(field("name", Shape::String).into_iter().chain(field("value", Shape::Int)));
    let fields = [
        field("name", Shape::String),
        field("replicas", Shape::Int),
        field("ratio", Shape::Double),
        field("created", Shape::DateTime),
        field("port", Shape::IntOrString),
        FieldDecl::new("labels", Decl::map(Decl::scalar(Shape::String), Some(10)), false),
        FieldDecl::new("items", Decl::list(item, ListKind::Map(["name".into()].into()), Some(20)), false),
        FieldDecl::new("tags", Decl::list(Decl::scalar(Shape::String), ListKind::Set, None), false),
    ];
    Decl::object(fields.into_iter().flatten())
});

static OBJECT: LazyLock<Json> = LazyLock::new(|| {
    json!({
        "name": "web", "replicas": 3, "ratio": 0.5, "created": "2024-02-29T12:34:56Z", "port": "http",
        "labels": {"a": "1"}, "items": [{"name": "x", "value": 1}, {"name": "y"}], "tags": ["p", "q"],
    })
});

static ENV: LazyLock<Env> = LazyLock::new(|| {
    let env = Env::kubernetes().declared_variable("self", "selfType", &DECL);
    env.variable("object", Type::Dyn).variable("x", Type::Int).bindings().json_patch()
});

fn field(name: &str, shape: Shape) -> Option<FieldDecl> {
    FieldDecl::new(name, Decl::scalar(shape), false)
}

/// Parses, checks, estimates and evaluates, twice: both results must be equal and within the limit.
pub(super) fn evaluate(input: &[u8]) -> String {
    let Ok(text) = std::str::from_utf8(input) else { return "no text".into() };
    let checked = match ENV.check(text) {
        Ok(checked) => checked,
        Err(error) => {
            let formatted = error.to_string();
            assert!(formatted.starts_with("ERROR: <input>:"), "{formatted}");
            let message = error.issues().first().map(|issue| issue.message.clone()).unwrap_or_default();
            return format!("refused: {}", super::outline(&message));
        }
    };
    let estimate = checked.estimate(&*DECL);
    assert!(estimate.min <= estimate.max, "{text:?}: {estimate:?}");
    let program = match checked.program() {
        Ok(program) => program,
        Err(error) => return format!("no program: {}", super::outline(&error.to_string())),
    };
    let (first, cost) = run(&program);
    assert_eq!(run(&program), (first.clone(), cost), "{text:?}");
    format!("{} {first}", program.output_type())
}

fn run(program: &coracle_cel::Program) -> (String, u64) {
    let bindings = Bindings::new()
        .with("x", Value::Int(1))
        .with("self", Value::from_json(&OBJECT, &DECL).expect("it is what is declared"))
        .with("object", Value::from_json(&OBJECT, Decl::anything()).expect("anything is"));
    let mut budget = Budget::with_call_limit(u64::MAX, CALL_LIMIT);
    let outcome = match program.evaluate(&bindings, &mut budget) {
        Ok(value) => {
            let actual = value.type_of();
            let declared = program.output_type();
            let agrees = matches!(declared, Type::Dyn)
                || matches!(actual, Type::Null)
                || actual.name() == declared.name();
            // In CEL's type function, objects of the API are maps.
            assert!(agrees || matches!(declared, Type::Struct(_)), "{declared} is {actual}");
            format!("is {}", actual.name())
        }
        Err(EvalError::Failed(message)) => format!("fails: {}", super::outline(&message)),
        Err(cancelled) => cancelled.to_string(),
    };
    (outcome, budget.spent())
}

pub(super) const SEEDS: &[&[u8]] = &[
    b"self.replicas <= 5 && self.name.startsWith('w') || self.items.all(i, has(i.value) && i.value > 0)",
    b"self.items.map(i, i.name).filter(n, n.matches('^[a-z]+$')).join('-') + string(self.created)",
    b"object.?spec.?x[?0].orValue(1) + {'a': [1, 2u, 3.5]}['a'].size() + (x == 1 ? x : -x)",
    b"[1, 2].transformMap(i, v, v * i).exists(k, v, k == v) && cel.bind(y, self.tags + ['z'], y.isSorted())",
    b"'%s %d %.2f'.format([self.labels, x, self.ratio]) in ['a'] || b'\\xff' == bytes(\"\\u00e4\") || r'''a''' == ''",
    b"timestamp('2024-01-01T00:00:00Z') + duration('1h') > self.created && quantity('1Gi').isGreaterThan(quantity('1'))",
    b"ip('::1').family() == 6 && cidr('10.0.0.0/8').containsIP('10.1.1.1') && semver('1.2.3').major() == 1",
    b"url('https://a/b?c=d').getQuery() == {} || sets.contains([1], [x]) || lists.range(9).distinct().sort()[0] == 0",
];
