//! Calls that are rewritten before anything is checked.

use std::sync::Arc;

use crate::ast::{Expr, ExprId, Fold, Literal};
use crate::names::{
    ACCUMULATOR, ADD, AND, CONDITIONAL, EQUALS, NOT, NOT_STRICTLY_FALSE, OLD_ACCUMULATOR, OR, SORT_BY_KEYS,
};

use super::builder::{Builder, Misuse};
use super::comprehensions;
use super::grammar::Dialect;

/// What became of a call: not a macro, or its expansion.
pub(super) type Expansion = Result<Option<ExprId>, Misuse>;

/// Expands a call if it is one of a macro.
pub(super) fn expand(
    build: &mut Builder<'_>,
    dialect: Dialect,
    function: &str,
    target: Option<ExprId>,
    args: &[ExprId],
) -> Expansion {
    let Some(target) = target else {
        return match (function, args) {
            ("has", [operand]) => has(build, *operand).map(Some),
            _ => Ok(None),
        };
    };
    let expanded = match (function, args) {
        ("all" | "exists" | "exists_one", [variable, predicate]) => {
            quantifier(build, function, target, *variable, *predicate)
        }
        ("map", [variable, transform]) => map(build, target, *variable, None, *transform),
        ("map", [variable, filter, transform]) => map(build, target, *variable, Some(*filter), *transform),
        ("filter", [variable, predicate]) => filter(build, target, *variable, *predicate),
        ("optMap" | "optFlatMap", [variable, value]) => {
            optional_map(build, function, target, *variable, *value)
        }
        ("sortBy", [variable, key]) => sort_by(build, target, *variable, *key),
        ("bind", [variable, value, result]) if dialect.bindings && is_cel(build, target) => {
            bind(build, *variable, *value, *result)
        }
        _ => return comprehensions::expand(build, function, target, args),
    };
    expanded.map(Some)
}

fn has(build: &mut Builder<'_>, operand: ExprId) -> Result<ExprId, Misuse> {
    match build.tree.expr(operand).clone() {
        Expr::Select { operand, field, .. } => {
            Ok(build.add(Expr::Select { operand, field, test_only: true }))
        }
        _ => Err(build.misuse(operand, "invalid argument to has() macro")),
    }
}

pub(super) fn name(build: &Builder<'_>, id: ExprId, refusal: &str) -> Result<Arc<str>, Misuse> {
    match build.tree.expr(id) {
        Expr::Ident(name) => Ok(name.clone()),
        _ => Err(build.misuse(id, refusal)),
    }
}

fn variable(build: &Builder<'_>, id: ExprId, refusal: &str) -> Result<Arc<str>, Misuse> {
    let found = name(build, id, refusal)?;
    not_accumulator(build, id, &found)?;
    Ok(found)
}

pub(super) fn not_accumulator(build: &Builder<'_>, id: ExprId, name: &str) -> Result<(), Misuse> {
    if name == ACCUMULATOR || name == OLD_ACCUMULATOR {
        return Err(build.misuse(id, "iteration variable overwrites accumulator variable"));
    }
    Ok(())
}

fn quantifier(
    build: &mut Builder<'_>,
    function: &str,
    range: ExprId,
    named: ExprId,
    predicate: ExprId,
) -> Result<ExprId, Misuse> {
    let variable = variable(build, named, "argument must be a simple name")?;
    Ok(quantify(build, function, range, variable, None, predicate))
}

/// `all`, `exists` or `existsOne`, with one variable or two.
pub(super) fn quantify(
    build: &mut Builder<'_>,
    function: &str,
    range: ExprId,
    variable: Arc<str>,
    second_variable: Option<Arc<str>>,
    predicate: ExprId,
) -> ExprId {
    let accumulator: Arc<str> = ACCUMULATOR.into();
    let (init, condition, step, result);
    match function {
        "all" => {
            init = build.literal(Literal::Bool(true));
            let so_far = build.accumulator();
            condition = build.call(NOT_STRICTLY_FALSE, vec![so_far]);
            let so_far = build.accumulator();
            step = build.call(AND, vec![so_far, predicate]);
            result = build.accumulator();
        }
        "exists" => {
            init = build.literal(Literal::Bool(false));
            let so_far = build.accumulator();
            let none_yet = build.call(NOT, vec![so_far]);
            condition = build.call(NOT_STRICTLY_FALSE, vec![none_yet]);
            let so_far = build.accumulator();
            step = build.call(OR, vec![so_far, predicate]);
            result = build.accumulator();
        }
        _ => {
            init = build.literal(Literal::Int(0));
            condition = build.literal(Literal::Bool(true));
            let so_far = build.accumulator();
            let one = build.literal(Literal::Int(1));
            let more = build.call(ADD, vec![so_far, one]);
            let same = build.accumulator();
            step = build.call(CONDITIONAL, vec![predicate, more, same]);
            let count = build.accumulator();
            let one = build.literal(Literal::Int(1));
            result = build.call(EQUALS, vec![count, one]);
        }
    }
    build.fold(Fold { range, variable, second_variable, accumulator, init, condition, step, result })
}

fn map(
    build: &mut Builder<'_>,
    range: ExprId,
    named: ExprId,
    filter: Option<ExprId>,
    transform: ExprId,
) -> Result<ExprId, Misuse> {
    let variable = variable(build, named, "argument is not an identifier")?;
    Ok(gather(build, range, variable, None, filter, transform))
}

fn filter(
    build: &mut Builder<'_>,
    range: ExprId,
    named: ExprId,
    predicate: ExprId,
) -> Result<ExprId, Misuse> {
    let variable = variable(build, named, "argument is not an identifier")?;
    Ok(gather(build, range, variable, None, Some(predicate), named))
}

/// A fold that makes a list.
pub(super) fn gather(
    build: &mut Builder<'_>,
    range: ExprId,
    variable: Arc<str>,
    second_variable: Option<Arc<str>>,
    filter: Option<ExprId>,
    transform: ExprId,
) -> ExprId {
    let init = build.list(&[]);
    let condition = build.literal(Literal::Bool(true));
    let so_far = build.accumulator();
    let one = build.list(&[transform]);
    let step = build.call(ADD, vec![so_far, one]);
    let step = when(build, filter, step);
    let result = build.accumulator();
    let accumulator = ACCUMULATOR.into();
    build.fold(Fold { range, variable, second_variable, accumulator, init, condition, step, result })
}

/// A step that is taken only if a filter holds.
pub(super) fn when(build: &mut Builder<'_>, filter: Option<ExprId>, step: ExprId) -> ExprId {
    let Some(filter) = filter else { return step };
    let same = build.accumulator();
    build.call(CONDITIONAL, vec![filter, step, same])
}

fn optional_map(
    build: &mut Builder<'_>,
    function: &str,
    target: ExprId,
    named: ExprId,
    value: ExprId,
) -> Result<ExprId, Misuse> {
    let refusal = format!("{function}() variable name must be a simple identifier");
    let variable = name(build, named, &refusal)?;
    let has_value = build.member_call("hasValue", target, Vec::new());
    let copy = build.copy(target);
    let inner = build.member_call("value", copy, Vec::new());
    let bound = build.bind(&variable, inner, value);
    let some = if function == "optMap" { build.call("optional.of", vec![bound]) } else { bound };
    let none = build.call("optional.none", Vec::new());
    Ok(build.call(CONDITIONAL, vec![has_value, some, none]))
}

fn sort_by(build: &mut Builder<'_>, target: ExprId, named: ExprId, key: ExprId) -> Result<ExprId, Misuse> {
    if matches!(
        build.tree.expr(target),
        Expr::Literal(_) | Expr::Map(_) | Expr::Struct { .. } | Expr::Unspecified
    ) {
        let refusal =
            "sortBy can only be applied to a list, identifier, comprehension, call or select expression";
        return Err(build.misuse(target, refusal));
    }
    let input: Arc<str> = "@__sortBy_input__".into();
    let range = build.ident(&input);
    let keys = map(build, range, named, None, key)?;
    let list = build.ident(&input);
    let sorted = build.member_call(SORT_BY_KEYS, list, vec![keys]);
    Ok(build.bind(&input, target, sorted))
}

fn is_cel(build: &Builder<'_>, target: ExprId) -> bool {
    matches!(build.tree.expr(target), Expr::Ident(name) if &**name == "cel")
}

fn bind(build: &mut Builder<'_>, named: ExprId, value: ExprId, result: ExprId) -> Result<ExprId, Misuse> {
    let variable = name(build, named, "cel.bind() variable names must be simple identifiers")?;
    Ok(build.bind(&variable, value, result))
}
