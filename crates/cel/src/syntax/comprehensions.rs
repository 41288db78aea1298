//! Macros with two variables: index or key, and value.

use std::sync::Arc;

use crate::ast::{Expr, ExprId, Fold, Literal};
use crate::names::{ACCUMULATOR, MAP_INSERT};

use super::builder::{Builder, MacroError};
use super::macros::{Expansion, build_list, conditional_step, name, not_accumulator, quantify};

/// Expands a call if it is one of these macros.
pub(super) fn expand(build: &mut Builder<'_>, function: &str, range: ExprId, args: &[ExprId]) -> Expansion {
    let (first, second, filter, transform) = match (function, args) {
        ("all" | "exists" | "exists_one" | "existsOne", [first, second, predicate]) => {
            let (first, second) = variables(build, *first, *second)?;
            return Ok(Some(quantify(build, function, range, first, Some(second), *predicate)));
        }
        ("transformList" | "transformMap" | "transformMapEntry", [first, second, transform]) => {
            (first, second, None, *transform)
        }
        ("transformList" | "transformMap" | "transformMapEntry", [first, second, filter, transform]) => {
            (first, second, Some(*filter), *transform)
        }
        _ => return Ok(None),
    };
    let (variable, second) = variables(build, *first, *second)?;
    if function == "transformList" {
        return Ok(Some(build_list(build, range, variable, Some(second), filter, transform)));
    }
    let so_far = build.accumulator();
    let mut insert = vec![so_far];
    if function == "transformMap" {
        insert.push(build.ident(&variable));
    }
    insert.push(transform);
    let step = build.call(MAP_INSERT, insert);
    let step = conditional_step(build, filter, step);
    let init = build.add(Expr::Map(Vec::new()));
    let condition = build.literal(Literal::Bool(true));
    let result = build.accumulator();
    let accumulator = ACCUMULATOR.into();
    let second_variable = Some(second);
    let fold = Fold { range, variable, second_variable, accumulator, init, condition, step, result };
    Ok(Some(build.fold(fold)))
}

fn variables(build: &Builder<'_>, first: ExprId, second: ExprId) -> Result<(Arc<str>, Arc<str>), MacroError> {
    let message = "argument must be a simple name";
    let (one, two) = (name(build, first, message)?, name(build, second, message)?);
    if one == two {
        return Err(build.macro_error(second, format!("duplicate variable name: {one}")));
    }
    not_accumulator(build, first, &one)?;
    not_accumulator(build, second, &two)?;
    Ok((one, two))
}
