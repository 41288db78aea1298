//! Hostile expressions that try to exceed limits of depth, size or time. They are rejected or
//! cancelled, on the stack of an ordinary thread.

use coracle_cel::{Bindings, Budget, Env, EvalError, PER_CALL_LIMIT, Type, Value};

fn env() -> Env {
    Env::kubernetes().variable("x", Type::Int).variable("d", Type::Dyn).variable("s", Type::String).bindings()
}

fn bindings() -> Bindings<'static> {
    Bindings::new().with("x", Value::Int(1)).with("d", Value::Int(1)).with("s", Value::text("abc"))
}

/// Runs an expression; the result does not matter.
fn run(expression: &str) -> Result<(), String> {
    let program = env().compile(expression).map_err(|error| error.to_string())?;
    let mut budget = Budget::new(PER_CALL_LIMIT);
    program.evaluate(&bindings(), &mut budget).map(drop).map_err(|error| error.to_string())
}

fn repeated(prefix: &str, middle: &str, suffix: &str, times: usize) -> String {
    format!("{}{middle}{}", prefix.repeat(times), suffix.repeat(times))
}

#[test]
fn too_deep_expression_is_rejected_and_deepest_allowed_runs() {
    let shapes: &[(&str, &str, &str)] = &[
        ("(", "1", ")"),
        ("[", "1", "]"),
        ("{1: ", "1", "}"),
        ("f(", "1", ")"),
        ("-", "x", ""),
        ("!", "true", ""),
        ("1 + ", "1", ""),
        ("", "1", " + 1"),
        ("", "d", ".a"),
        ("", "d", ".?a"),
        ("", "d", "[0]"),
        ("", "s", ".trim()"),
        ("true ? 1 : ", "1", ""),
        ("(true ? ", "1", " : 1)"),
        ("true && ", "true", ""),
        ("true || ", "true", ""),
        ("1 == ", "1", ""),
        ("[1].all(x, ", "true", ")"),
        ("[1].map(x, ", "x", ")"),
        ("optional.of(", "1", ")"),
        ("", "optional.of(1)", ".optMap(v, v)"),
        ("cel.bind(y, 1, ", "y", ")"),
        ("has({'a': ", "1", "}.a)"),
        ("Object{a: ", "1", "}"),
    ];
    for (prefix, middle, suffix) in shapes {
        for times in [1, 10, 60, 100, 240, 250, 1000, 30_000] {
            let outcome = run(&repeated(prefix, middle, suffix, times));
            if times >= 30_000 {
                let deep = !matches!(*prefix, "true && " | "true || " | "-" | "!");
                assert!(!deep || outcome.is_err(), "{prefix}{middle}{suffix}");
            }
        }
    }
    assert_eq!(
        run(&repeated("(", "1", ")", 300)).unwrap_err(),
        "ERROR: <input>:-1:0: expression recursion limit exceeded: 250"
    );
}

#[test]
fn too_large_expression_is_rejected() {
    let long = format!("'{}'", "a".repeat(100_000));
    assert_eq!(
        run(&long).unwrap_err(),
        "ERROR: <input>:-1:0: expression code point size exceeds limit: size: 100002, limit 100000"
    );
    let many = vec!["x"; 20_000].join(" || x == ");
    assert!(run(&many).is_err());
    let list = format!("[{}].size() == 1", vec!["1"; 40_000].join(","));
    assert_eq!(run(&list), Ok(()));
    let errors = vec!["y"; 200].join(" + ");
    assert!(run(&errors).unwrap_err().ends_with("100 more errors were truncated"));
}

#[test]
fn nested_macros_beyond_node_limit_are_rejected() {
    // Each `optMap` copies its target.
    let nested = repeated("", "optional.of(1)", ".optMap(v, v)", 30);
    assert!(run(&nested).is_err());
}

#[test]
fn exponentially_growing_value_is_cancelled() {
    let limit = EvalError::CostLimitExceeded.to_string();
    let lists = format!("{}{}", "[[1, 2]]", ".map(a, a + a)".repeat(60));
    assert_eq!(run(&format!("{lists}.size() > 0")).unwrap_err(), limit);
    assert_eq!(run(&format!("{lists}[0].all(e, e > 0)")).unwrap_err(), limit);
    let texts = format!("{}{}", "'ab'", ".replace('', s + s + s)".repeat(20));
    assert_eq!(run(&format!("{texts}.size() > 0")).unwrap_err(), limit);
    let joined = format!("lists.range(1000000).map(e, 'abcdefghijklmnop'){}", ".join(',')");
    assert_eq!(run(&joined).unwrap_err(), limit);
    assert_eq!(run("lists.range(9223372036854775807).size()").unwrap_err(), limit);
    assert_eq!(run("lists.range(900000).distinct().size()").unwrap_err(), limit);
    assert_eq!(run("lists.range(900000).sort().size()").unwrap_err(), limit);
    assert_eq!(run("sets.contains(lists.range(400000), lists.range(400000))").unwrap_err(), limit);
    let nested = format!("[[1]]{}", ".map(a, [a])".repeat(40));
    assert_eq!(run(&nested), Ok(()));
    assert!(run("'%.1000000000f'.format([1.0])").is_err());
}

#[test]
fn too_large_pattern_is_rejected() {
    assert!(env().compile("s.matches('(a{1000}){1000}')").is_err());
    assert!(run("s.matches('((((a{100}){100}){100}){100})' + s)").is_err());
    assert_eq!(run("s.matches('(a*)*b')"), Ok(()));
}

#[test]
fn malformed_expression_is_rejected_without_panic() {
    for expression in [
        "",
        " ",
        "\u{0}",
        "\u{feff}1",
        "'\u{1F600}",
        "ä",
        "1ä",
        "\"",
        "'''",
        "\"\"\"",
        "b",
        "r",
        "br'",
        "`",
        "``",
        "`a",
        "0x",
        "1e",
        "1.",
        ".",
        "..",
        "?",
        ":",
        "@",
        "'\\",
        "'\\x",
        "'\\u{1}'",
        "has",
        "has(",
        "a.b.c.{",
        "{{{{",
        "[[[[",
        "((((",
        "}}}}",
        "]]]]",
        "))))",
        "a{b:{c:{d:",
        "//",
        "/*",
        "1//",
        "\n\n\n",
        "\r",
        "\t",
        "a\u{2028}b",
        "x.",
        "x.?",
        "x[",
        "x[?",
        "x?",
        "x?1",
        "x?1:",
        "[?]",
        "{?}",
        "{?1}",
        "A{?}",
        "A{?b}",
        "A{?b:}",
        "-",
        "--",
        "!-1",
        "-!x",
        "!-x",
        "x in",
        "in",
        "in in in",
        "true.false",
        "null.null",
        ".x.y",
        ".",
        ".f()",
        "..f()",
        "x.f(",
        "x.f(,",
    ] {
        if let Err(error) = env().compile(expression) {
            assert!(error.to_string().starts_with("ERROR: <input>:"), "{expression:?}: {error}");
        }
    }
}
