//! Validators that run after type checking, like cel-go's: malformed constants, lists and maps of
//! mixed types, and `format` calls.

use crate::ast::{Expr, ExprId, Literal};
use crate::library::{Clause, Part, compile_pattern, next_part};
use crate::source::{Issues, Offset};
use crate::types::Type;
use crate::value::{Value, convert};

use super::Typed;

pub(super) fn validate(typed: &Typed, issues: &mut Issues) {
    let exempt = within_format(typed);
    let mut found: Vec<(Offset, String)> = Vec::new();
    typed.tree.walk(typed.root, &mut |id, expr| {
        let mut report = |at: ExprId, message: String| found.push((typed.tree.offset(at), message));
        match expr {
            Expr::Call { function, target, args } => {
                constant(typed, function, args, &mut report);
                format_call(typed, id, function, *target, args, &mut report);
            }
            Expr::List(_) | Expr::Map(_) if !exempt[id.index()] => mixed(typed, expr, &mut report),
            _ => {}
        }
    });
    for (offset, message) in found {
        issues.report(offset, message);
    }
}

/// Marks expressions that are arguments of `format`, at any depth: lists in them may be mixed.
fn within_format(typed: &Typed) -> Vec<bool> {
    let mut exempt = vec![false; typed.tree.len()];
    let mut roots = Vec::new();
    typed.tree.walk(typed.root, &mut |id, expr| {
        if matches!(expr, Expr::Call { function, .. } if &**function == "format") && !exempt[id.index()] {
            roots.push(id);
        }
    });
    for root in roots {
        if !exempt[root.index()] {
            typed.tree.walk(root, &mut |id, _| exempt[id.index()] = true);
        }
    }
    exempt
}

fn literal(typed: &Typed, id: ExprId) -> Option<&Literal> {
    match typed.tree.expr(id) {
        Expr::Literal(literal) => Some(literal),
        _ => None,
    }
}

/// Rejects invalid literals in `duration('x')`, `timestamp('x')` and `matches('[')`.
fn constant(typed: &Typed, function: &str, args: &[ExprId], report: &mut impl FnMut(ExprId, String)) {
    let Some(first) = args.first() else { return };
    let Some(literal) = literal(typed, *first) else { return };
    let valid = match (function, literal) {
        ("duration", Literal::String(text)) => converts(text, &Type::Duration),
        ("timestamp", Literal::String(text)) => converts(text, &Type::Timestamp),
        // The overload is declared but always fails.
        ("duration", Literal::Int(_)) => false,
        ("timestamp", Literal::Int(seconds)) => {
            convert(&Value::Int(*seconds), &Type::Timestamp).is_some_and(|converted| converted.is_ok())
        }
        ("matches", Literal::String(pattern)) => compile_pattern(pattern).is_ok(),
        _ => true,
    };
    if !valid {
        report(*first, format!("invalid {function} argument"));
    }
}

fn converts(text: &str, target: &Type) -> bool {
    convert(&Value::text(text), target).is_some_and(|converted| converted.is_ok())
}

/// Rejects lists and maps whose elements have different types.
fn mixed(typed: &Typed, expr: &Expr, report: &mut impl FnMut(ExprId, String)) {
    let type_of = |id: ExprId, optional: bool| {
        let found = typed.type_of(id);
        if optional { found.as_optional().unwrap_or(found) } else { found }
    };
    let mut report_mismatch = |id: ExprId, expected: &Type, found: &Type| {
        report(id, format!("expected type '{expected}' but found '{found}'"));
    };
    match expr {
        Expr::List(elements) => {
            let Some(first) = elements.first() else { return };
            let expected = type_of(first.value, first.optional);
            let mismatched = elements.iter().find(|one| expected != type_of(one.value, one.optional));
            if let Some(mismatched) = mismatched {
                report_mismatch(mismatched.value, expected, type_of(mismatched.value, mismatched.optional));
            }
        }
        Expr::Map(entries) => {
            let Some(first) = entries.first() else { return };
            let (key, value) = (typed.type_of(first.key), type_of(first.value, first.optional));
            for entry in &entries[1..] {
                let found = typed.type_of(entry.key);
                if key != found {
                    report_mismatch(entry.key, key, found);
                }
                let found = type_of(entry.value, entry.optional);
                if value != found {
                    report_mismatch(entry.value, value, found);
                }
            }
        }
        _ => {}
    }
}

/// Checks a constant format string against its arguments.
fn format_call(
    typed: &Typed,
    id: ExprId,
    function: &str,
    target: Option<ExprId>,
    args: &[ExprId],
    report: &mut impl FnMut(ExprId, String),
) {
    let ("format", Some(target), [values]) = (function, target, args) else { return };
    let (Some(Literal::String(format)), Expr::List(values)) =
        (literal(typed, target), typed.tree.expr(*values))
    else {
        return;
    };
    let mut rest: &str = format;
    let mut count = 0;
    while let Some(part) = next_part(rest) {
        // cel-go checks for the argument first, and for the end of the format string afterwards.
        let clause = rest.starts_with('%') && !rest.starts_with("%%") && rest.len() > 1;
        if clause && count >= values.len() {
            return report(id, format!("index {count} out of range"));
        }
        let (part, after) = match part {
            Ok(found) => found,
            Err(message) => return report(id, message),
        };
        if let Part::Clause(clause) = part {
            if let Err((at, message)) = fits(typed, clause, values[count].value) {
                return report(at, message);
            }
            count += 1;
        }
        rest = after;
    }
    if values.len() > count {
        let message =
            format!("too many arguments supplied to string.format (expected {count}, got {})", values.len());
        report(id, message);
    }
}

fn fits(typed: &Typed, clause: Clause, value: ExprId) -> Result<(), (ExprId, String)> {
    let found = typed.type_of(value);
    if !clause.accepts(found) {
        return Err((value, clause.type_error(found.name())));
    }
    if clause != Clause::Text {
        return Ok(());
    }
    match typed.tree.expr(value) {
        Expr::List(elements) => elements.iter().try_for_each(|element| fits(typed, clause, element.value)),
        Expr::Map(entries) => entries.iter().try_for_each(|entry| {
            fits(typed, clause, entry.key)?;
            fits(typed, clause, entry.value)
        }),
        _ => Ok(()),
    }
}
