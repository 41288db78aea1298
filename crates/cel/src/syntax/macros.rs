//! Macros, which are expanded during parsing.

use std::sync::Arc;

use crate::ast::{Expr, ExprId, Fold, Literal};
use crate::names::{
    ACCUMULATOR, ADD, AND, CONDITIONAL, EQUALS, NOT, NOT_STRICTLY_FALSE, OLD_ACCUMULATOR, OR, SORT_BY_KEYS,
};

use super::builder::{Builder, MacroError};
use super::comprehensions;
use super::grammar::Dialect;

/// The result of an expansion: `None` if the call is not a macro.
pub(super) type Expansion = Result<Option<ExprId>, MacroError>;

/// Expands a call if it is a macro.
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

fn has(build: &mut Builder<'_>, operand: ExprId) -> Result<ExprId, MacroError> {
    match build.tree.expr(operand).clone() {
        Expr::Select { operand, field, .. } => {
            Ok(build.add(Expr::Select { operand, field, test_only: true }))
        }
        _ => Err(build.macro_error(operand, "invalid argument to has() macro")),
    }
}

pub(super) fn name(build: &Builder<'_>, id: ExprId, message: &str) -> Result<Arc<str>, MacroError> {
    match build.tree.expr(id) {
        Expr::Ident(name) => Ok(name.clone()),
        _ => Err(build.macro_error(id, message)),
    }
}

fn variable(build: &Builder<'_>, id: ExprId, message: &str) -> Result<Arc<str>, MacroError> {
    let found = name(build, id, message)?;
    not_accumulator(build, id, &found)?;
    Ok(found)
}

pub(super) fn not_accumulator(build: &Builder<'_>, id: ExprId, name: &str) -> Result<(), MacroError> {
    if name == ACCUMULATOR || name == OLD_ACCUMULATOR {
        return Err(build.macro_error(id, "iteration variable overwrites accumulator variable"));
    }
    Ok(())
}

fn quantifier(
    build: &mut Builder<'_>,
    function: &str,
    range: ExprId,
    name_arg: ExprId,
    predicate: ExprId,
) -> Result<ExprId, MacroError> {
    let variable = variable(build, name_arg, "argument must be a simple name")?;
    Ok(quantify(build, function, range, variable, None, predicate))
}

/// Expands `all`, `exists` or `existsOne`, with one or two variables.
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
    name_arg: ExprId,
    filter: Option<ExprId>,
    transform: ExprId,
) -> Result<ExprId, MacroError> {
    let variable = variable(build, name_arg, "argument is not an identifier")?;
    Ok(build_list(build, range, variable, None, filter, transform))
}

fn filter(
    build: &mut Builder<'_>,
    range: ExprId,
    name_arg: ExprId,
    predicate: ExprId,
) -> Result<ExprId, MacroError> {
    let variable = variable(build, name_arg, "argument is not an identifier")?;
    Ok(build_list(build, range, variable, None, Some(predicate), name_arg))
}

/// Builds a fold that creates a list.
pub(super) fn build_list(
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
    let step = conditional_step(build, filter, step);
    let result = build.accumulator();
    let accumulator = ACCUMULATOR.into();
    build.fold(Fold { range, variable, second_variable, accumulator, init, condition, step, result })
}

/// Makes a step conditional on a filter.
pub(super) fn conditional_step(build: &mut Builder<'_>, filter: Option<ExprId>, step: ExprId) -> ExprId {
    let Some(filter) = filter else { return step };
    let same = build.accumulator();
    build.call(CONDITIONAL, vec![filter, step, same])
}

fn optional_map(
    build: &mut Builder<'_>,
    function: &str,
    target: ExprId,
    name_arg: ExprId,
    value: ExprId,
) -> Result<ExprId, MacroError> {
    let message = format!("{function}() variable name must be a simple identifier");
    let variable = name(build, name_arg, &message)?;
    let has_value = build.member_call("hasValue", target, Vec::new());
    let copy = build.copy(target);
    let inner = build.member_call("value", copy, Vec::new());
    let bound = build.bind(&variable, inner, value);
    let some = if function == "optMap" { build.call("optional.of", vec![bound]) } else { bound };
    let none = build.call("optional.none", Vec::new());
    Ok(build.call(CONDITIONAL, vec![has_value, some, none]))
}

fn sort_by(
    build: &mut Builder<'_>,
    target: ExprId,
    name_arg: ExprId,
    key: ExprId,
) -> Result<ExprId, MacroError> {
    if matches!(
        build.tree.expr(target),
        Expr::Literal(_) | Expr::Map(_) | Expr::Struct { .. } | Expr::Unspecified
    ) {
        let message =
            "sortBy can only be applied to a list, identifier, comprehension, call or select expression";
        return Err(build.macro_error(target, message));
    }
    let input: Arc<str> = "@__sortBy_input__".into();
    let range = build.ident(&input);
    let keys = map(build, range, name_arg, None, key)?;
    let list = build.ident(&input);
    let sorted = build.member_call(SORT_BY_KEYS, list, vec![keys]);
    Ok(build.bind(&input, target, sorted))
}

fn is_cel(build: &Builder<'_>, target: ExprId) -> bool {
    matches!(build.tree.expr(target), Expr::Ident(name) if &**name == "cel")
}

fn bind(
    build: &mut Builder<'_>,
    name_arg: ExprId,
    value: ExprId,
    result: ExprId,
) -> Result<ExprId, MacroError> {
    let variable = name(build, name_arg, "cel.bind() variable names must be simple identifiers")?;
    Ok(build.bind(&variable, value, result))
}
