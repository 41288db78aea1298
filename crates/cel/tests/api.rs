//! Tests of the API besides values: budgets, lazy variables, objects created by expressions,
//! sharing.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::cell::Cell;
use std::sync::Arc;

use coracle_cel::{
    Activation, Bindings, Budget, Decl, Env, EvalError, FieldDecl, MutationTypes, Program, Shape, Type,
    Value, Variables,
};
use serde_json::json;

fn env() -> Env {
    Env::kubernetes().variable("x", Type::Int).variable("object", Type::Dyn)
}

#[test]
fn program_is_send_sync_and_clone() {
    fn assert_shared<T: Send + Sync + Clone>(_: &T) {}
    let program = env().compile("x > 1").unwrap();
    assert_shared(&program);
    assert_shared(&env());
    assert!(program.uses("x"));
    assert!(!program.uses("object"));
    assert!(env().check("[1].all(x, x > 0)").unwrap().output_type() == &Type::Bool);
    // The variable of the comprehension shadows it.
    assert!(!env().check("[1].all(x, x > 0)").unwrap().uses("object"));
}

#[test]
fn budget_is_shared_across_programs() {
    let program = env().compile("[1, 2, 3].all(e, e < x)").unwrap();
    let bindings = Bindings::new().with("x", Value::Int(5));
    let mut budget = Budget::new(30);
    assert_eq!(program.evaluate(&bindings, &mut budget).unwrap().as_bool(), Some(true));
    let cost = budget.spent();
    assert_eq!(budget.remaining(), 30 - cost);
    assert!(!budget.is_exhausted());
    // A call is not aborted because of earlier costs, but the budget reports that it is exhausted.
    program.evaluate(&bindings, &mut budget).unwrap();
    assert!(budget.is_exhausted());
    assert_eq!((budget.remaining(), budget.spent()), (0, 2 * cost));
}

#[test]
fn call_beyond_its_limit_is_cancelled() {
    let program = env().compile("lists.range(100).all(e, e < x || true)").unwrap();
    let bindings = Bindings::new().with("x", Value::Int(5));
    let mut budget = Budget::with_call_limit(10_000, 300);
    let error = program.evaluate(&bindings, &mut budget).unwrap_err();
    assert_eq!(error, EvalError::CostLimitExceeded);
    assert_eq!(error.to_string(), "operation cancelled: actual cost limit exceeded");
    assert!(budget.spent() > 300 && budget.spent() < 310, "{}", budget.spent());
}

/// An activation that is interrupted after a number of iterations.
struct InterruptAfter(Cell<u32>);

impl<'d> Activation<'d> for InterruptAfter {
    fn variable(&self, _: &str) -> Option<Value<'d>> {
        Some(Value::Int(1))
    }

    fn is_interrupted(&self) -> bool {
        self.0.set(self.0.get() + 1);
        self.0.get() > 10
    }
}

#[test]
fn interrupted_evaluation_returns_error() {
    let program = env().compile("lists.range(1000).all(e, e >= 0) || true").unwrap();
    let error = program.evaluate(&InterruptAfter(Cell::new(0)), &mut Budget::new(1_000_000)).unwrap_err();
    assert_eq!(error, EvalError::Interrupted);
    assert_eq!(error.to_string(), "operation interrupted");
}

fn variable_types() -> Decl {
    let fields = ["a", "b", "broken", "unused"];
    let fields = fields.iter().map(|name| FieldDecl::new(name, Decl::scalar(Shape::Dyn), false).unwrap());
    Decl::named_object("kubernetes.variables", fields)
}

#[test]
fn lazy_variable_is_evaluated_once_on_first_read() {
    let env = env().declared_variable("variables", "kubernetes.variables", &variable_types());
    let compile = |text: &str| env.compile(text).unwrap();
    let programs: Vec<(&str, Program)> = vec![
        ("a", compile("lists.range(50).map(e, e + x).sum()")),
        ("b", compile("variables.a + 1")),
        ("broken", compile("1 / (x - x)")),
        ("unused", compile("lists.range(100000).map(e, e).sum()")),
    ];
    let once = compile("variables.a > 0");
    let twice = compile("variables.b > 0 && variables.b > variables.a && variables.a > 0");
    let evaluate = |program: &Program| {
        let mut variables = Variables::new(Bindings::new().with("x", Value::Int(1)), "variables");
        for (name, program) in &programs {
            variables.field(name, program);
        }
        let mut budget = Budget::new(1_000_000);
        let value = program.evaluate(&variables, &mut budget).map(|value| value.as_bool());
        (value, budget.spent())
    };
    let (value, cost) = evaluate(&once);
    assert_eq!(value, Ok(Some(true)));
    let (value, more) = evaluate(&twice);
    assert_eq!(value, Ok(Some(true)));
    assert!(more < cost + 30, "{cost} {more}");
    assert_eq!(evaluate(&compile("variables.broken > 0 || true")).0, Ok(Some(true)));
    assert_eq!(evaluate(&compile("variables.broken > 0")).0, Err(EvalError::failed("division by zero")));
    // A variable can only access those before it.
    let own = env.compile("variables.broken").unwrap();
    let mut variables = Variables::new(Bindings::new(), "variables");
    variables.field("broken", &own);
    let value = own.evaluate(&variables, &mut Budget::new(1000)).map(drop);
    assert_eq!(value, Err(EvalError::failed("no such key: broken")));
}

#[test]
fn expression_creates_typed_object() {
    let env = env().types(Arc::new(MutationTypes)).json_patch();
    let bindings = Bindings::new().with("x", Value::Int(3));
    let value = |text: &str| {
        let program = env.compile(text).unwrap();
        program.evaluate(&bindings, &mut Budget::new(1_000_000)).unwrap().to_json().unwrap()
    };
    assert_eq!(
        value("Object{metadata: Object.metadata{labels: {'a': 'b'}}, spec: Object.spec{replicas: x}}"),
        json!({"metadata": {"labels": {"a": "b"}}, "spec": {"replicas": 3}})
    );
    assert_eq!(
        value("[JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('a/b~c'), value: x}]"),
        json!([{"op": "add", "path": "/metadata/labels/a~1b~0c", "value": 3}])
    );
    assert_eq!(value("Object{?spec: optional.none(), ?x: optional.of(1)}"), json!({"x": 1}));
    assert_eq!(value("has(Object{a: 1}.a) && !has(Object{a: 1}.b)"), json!(true));
    assert_eq!(value("Object{a: 1}.b == null"), json!(true));
    assert_eq!(env.compile("Object{}").unwrap().output_type(), &Type::object("Object"));
    assert_eq!(
        env.compile("JSONPatch{op: 1}").unwrap_err().to_string(),
        "ERROR: <input>:1:13: expected type of field 'op' is 'string' but provided type is 'int'\n | \
         JSONPatch{op: 1}\n | ............^"
    );
    assert_eq!(env.compile("JSONPatch{nope: 1}").unwrap_err().issues()[0].message, "undefined field 'nope'");
}

#[test]
fn result_converts_to_json() {
    let bindings = Bindings::new().with("x", Value::Int(3));
    let value = |text: &str| {
        let program = env().compile(text).unwrap();
        program.evaluate(&bindings, &mut Budget::new(1000)).unwrap().to_json()
    };
    for (text, expected) in [
        ("{'a': [1, x], 'b': []}", json!({"a": [1, 3], "b": []})),
        ("[1.5, 2.0]", json!([1.5, 2])),
        ("[b'hi']", json!(["aGk="])),
        ("[null]", json!([null])),
        ("timestamp('2024-01-01T00:00:00Z') + duration('1.5s')", json!("2024-01-01T00:00:01.5Z")),
        ("duration('90m')", json!("5400s")),
        ("optional.of(x)", json!(3)),
        ("{1: 'a'}", json!({"1": "a"})),
    ] {
        assert_eq!(value(text), Ok(expected), "{text}");
    }
    let message = "cannot convert 'kubernetes.Quantity' to JSON";
    assert_eq!(value("quantity('1')"), Err(EvalError::failed(message)));
}

#[test]
fn data_that_mismatches_declaration_is_rejected_on_read() {
    let decl = Decl::object([
        FieldDecl::new("n", Decl::scalar(Shape::Int), false).unwrap(),
        FieldDecl::new("t", Decl::scalar(Shape::DateTime), false).unwrap(),
        FieldDecl::new("s", Decl::scalar(Shape::String), false).unwrap(),
    ]);
    let env = Env::kubernetes().declared_variable("self", "selfType", &decl);
    let evaluate = |text: &str, object: &serde_json::Value| {
        let program = env.compile(text).unwrap();
        let bindings = Bindings::new().with_json("self", object, &decl).unwrap();
        program.evaluate(&bindings, &mut Budget::new(1000)).map(|value| value.to_string())
    };
    let object = json!({"n": "1", "t": "yesterday", "s": null, "unknown": 1});
    assert_eq!(evaluate("self.n", &object), Err(EvalError::failed("invalid data, expected int, got string")));
    assert!(evaluate("self.t", &object).is_err());
    assert_eq!(evaluate("has(self.s)", &object), Ok("false".to_owned()));
    assert_eq!(evaluate("self == self", &json!({"n": 1, "unknown": [1]})), Ok("true".to_owned()));
    assert!(Bindings::new().with_json("self", &json!([1]), &decl).is_err());
}

#[test]
fn environment_options_enable_functions() {
    let plain = Env::kubernetes();
    assert!(plain.compile("cel.bind(a, 1, a + a) == 2").is_err());
    assert!(plain.clone().bindings().compile("cel.bind(a, 1, a + a) == 2").is_ok());
    assert!(plain.compile("jsonpatch.escapeKey('a')").is_err());
    assert!(plain.clone().json_patch().compile("jsonpatch.escapeKey('a')").is_ok());
    let decl = Decl::map(Decl::scalar(Shape::Int), None);
    let dashed = plain.escaped_identifiers().declared_variable("m", "mType", &decl);
    assert!(dashed.compile("m.`a-b` > 1").is_ok());
    let error = dashed.compile("int('x')").unwrap_err();
    assert!(error.is_program());
    assert_eq!(error.to_string(), "type conversion error from 'string' to 'int'");
}
