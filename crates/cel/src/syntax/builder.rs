//! Construction of nodes for macro expansion; all nodes get the position of the macro call.

use std::sync::Arc;

use crate::ast::{Element, Entry, Expr, ExprId, Field, Fold, Literal, Tree};
use crate::names::ACCUMULATOR;
use crate::source::Offset;

/// Builds the nodes of one expansion.
pub(super) struct Builder<'t> {
    pub(super) tree: &'t mut Tree,
    pub(super) offset: Offset,
}

/// An error in the arguments of a macro: position and message.
pub(super) type MacroError = (Offset, String);

impl Builder<'_> {
    pub(super) fn add(&mut self, expr: Expr) -> ExprId {
        self.tree.add(self.offset, expr)
    }

    pub(super) fn literal(&mut self, literal: Literal) -> ExprId {
        self.add(Expr::Literal(literal))
    }

    pub(super) fn ident(&mut self, name: &str) -> ExprId {
        self.add(Expr::Ident(name.into()))
    }

    pub(super) fn accumulator(&mut self) -> ExprId {
        self.ident(ACCUMULATOR)
    }

    pub(super) fn call(&mut self, function: &str, args: Vec<ExprId>) -> ExprId {
        self.add(Expr::Call { function: function.into(), target: None, args })
    }

    pub(super) fn member_call(&mut self, function: &str, target: ExprId, args: Vec<ExprId>) -> ExprId {
        self.add(Expr::Call { function: function.into(), target: Some(target), args })
    }

    pub(super) fn list(&mut self, elements: &[ExprId]) -> ExprId {
        self.add(Expr::List(
            elements.iter().map(|value| Element { value: *value, optional: false }).collect(),
        ))
    }

    pub(super) fn fold(&mut self, fold: Fold) -> ExprId {
        self.add(Expr::Fold(Box::new(fold)))
    }

    /// Builds a fold without iterations, whose accumulator is the name bound to a value.
    pub(super) fn bind(&mut self, name: &Arc<str>, value: ExprId, result: ExprId) -> ExprId {
        let range = self.list(&[]);
        let condition = self.literal(Literal::Bool(false));
        let step = self.ident(name);
        self.fold(Fold {
            range,
            variable: crate::names::UNUSED.into(),
            second_variable: None,
            accumulator: name.clone(),
            init: value,
            condition,
            step,
            result,
        })
    }

    /// Copies an expression with new nodes. Does not copy further if the tree has grown too large;
    /// it is rejected anyway.
    pub(super) fn copy(&mut self, id: ExprId) -> ExprId {
        if self.tree.is_too_large() {
            return self.add(Expr::Unspecified);
        }
        let copied = match self.tree.expr(id).clone() {
            plain @ (Expr::Unspecified | Expr::Literal(_) | Expr::Ident(_)) => plain,
            Expr::Select { operand, field, test_only } => {
                Expr::Select { operand: self.copy(operand), field, test_only }
            }
            Expr::Call { function, target, args } => {
                let target = target.map(|target| self.copy(target));
                Expr::Call { function, target, args: args.into_iter().map(|arg| self.copy(arg)).collect() }
            }
            Expr::List(elements) => Expr::List(
                elements.into_iter().map(|one| Element { value: self.copy(one.value), ..one }).collect(),
            ),
            Expr::Map(entries) => Expr::Map(
                entries
                    .into_iter()
                    .map(|one| Entry { key: self.copy(one.key), value: self.copy(one.value), ..one })
                    .collect(),
            ),
            Expr::Struct { name, fields } => {
                let fields = fields.into_iter().map(|one| Field { value: self.copy(one.value), ..one });
                Expr::Struct { name, fields: fields.collect() }
            }
            Expr::Fold(fold) => Expr::Fold(Box::new(Fold {
                range: self.copy(fold.range),
                init: self.copy(fold.init),
                condition: self.copy(fold.condition),
                step: self.copy(fold.step),
                result: self.copy(fold.result),
                ..*fold
            })),
        };
        self.add(copied)
    }

    pub(super) fn macro_error(&self, at: ExprId, message: impl Into<String>) -> MacroError {
        (self.tree.offset(at), message.into())
    }
}
