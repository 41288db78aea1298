//! The abstract syntax tree; all nodes are in one vector.

use std::sync::Arc;

use crate::limits::{MAX_TREE_DEPTH, MAX_TREE_NODES};
use crate::source::Offset;

/// Index of a node in a [`Tree`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ExprId(pub(crate) u32);

impl ExprId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// A literal.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Arc<str>),
    Bytes(Arc<[u8]>),
}

#[derive(Clone, Debug)]
pub(crate) enum Expr {
    /// Placeholder for a syntax error, which has been reported.
    Unspecified,
    Literal(Literal),
    Ident(Arc<str>),
    Select {
        operand: ExprId,
        field: Arc<str>,
        test_only: bool,
    },
    Call {
        function: Arc<str>,
        target: Option<ExprId>,
        args: Vec<ExprId>,
    },
    List(Vec<Element>),
    Map(Vec<Entry>),
    Struct {
        name: Arc<str>,
        fields: Vec<Field>,
    },
    Fold(Box<Fold>),
}

/// An element of a list literal; an optional one without value is omitted from the list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Element {
    pub(crate) value: ExprId,
    pub(crate) optional: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) key: ExprId,
    pub(crate) value: ExprId,
    pub(crate) optional: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) offset: Offset,
    pub(crate) name: Arc<str>,
    pub(crate) value: ExprId,
    pub(crate) optional: bool,
}

/// A comprehension; all iterating macros expand to it.
#[derive(Clone, Debug)]
pub(crate) struct Fold {
    pub(crate) range: ExprId,
    pub(crate) variable: Arc<str>,
    pub(crate) second_variable: Option<Arc<str>>,
    pub(crate) accumulator: Arc<str>,
    pub(crate) init: ExprId,
    pub(crate) condition: ExprId,
    pub(crate) step: ExprId,
    pub(crate) result: ExprId,
}

#[derive(Clone, Debug)]
struct Node {
    expr: Expr,
    offset: Offset,
    depth: u16,
}

/// The nodes of a syntax tree.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tree {
    nodes: Vec<Node>,
    too_deep: bool,
}

impl Tree {
    /// Adds a node. If the tree exceeds a limit, [`Self::is_too_large`] returns true afterwards.
    pub(crate) fn add(&mut self, offset: Offset, expr: Expr) -> ExprId {
        let mut depth = 0;
        children(&expr, &mut |child| depth = depth.max(self.nodes[child.index()].depth));
        let depth = depth.saturating_add(1);
        let id = ExprId(u32::try_from(self.nodes.len()).unwrap_or(u32::MAX - 1));
        if depth > MAX_TREE_DEPTH || self.nodes.len() >= MAX_TREE_NODES {
            self.too_deep = true;
            self.nodes.push(Node { expr: Expr::Unspecified, offset, depth: 1 });
        } else {
            self.nodes.push(Node { expr, offset, depth });
        }
        id
    }

    pub(crate) fn is_too_large(&self) -> bool {
        self.too_deep
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn expr(&self, id: ExprId) -> &Expr {
        &self.nodes[id.index()].expr
    }

    pub(crate) fn replace(&mut self, id: ExprId, expr: Expr) {
        self.nodes[id.index()].expr = expr;
    }

    pub(crate) fn offset(&self, id: ExprId) -> Offset {
        self.nodes[id.index()].offset
    }

    /// Returns the qualified name that selections of identifiers form, such as `a.b.c`.
    pub(crate) fn qualified_name(&self, id: ExprId) -> Option<String> {
        match self.expr(id) {
            Expr::Ident(name) => Some(name.to_string()),
            Expr::Select { operand, field, test_only: false } => {
                let mut name = self.qualified_name(*operand)?;
                name.push('.');
                name.push_str(field);
                Some(name)
            }
            _ => None,
        }
    }

    /// Visits a tree from its root, parents before children.
    pub(crate) fn walk(&self, root: ExprId, visit: &mut impl FnMut(ExprId, &Expr)) {
        let mut pending = vec![root];
        while let Some(id) = pending.pop() {
            let expr = self.expr(id);
            visit(id, expr);
            children(expr, &mut |child| pending.push(child));
        }
    }
}

/// Calls `visit` for each child of an expression.
pub(crate) fn children(expr: &Expr, visit: &mut impl FnMut(ExprId)) {
    match expr {
        Expr::Unspecified | Expr::Literal(_) | Expr::Ident(_) => {}
        Expr::Select { operand, .. } => visit(*operand),
        Expr::Call { target, args, .. } => target.iter().chain(args).for_each(|child| visit(*child)),
        Expr::List(elements) => elements.iter().for_each(|element| visit(element.value)),
        Expr::Map(entries) => entries.iter().for_each(|entry| {
            visit(entry.key);
            visit(entry.value);
        }),
        Expr::Struct { fields, .. } => fields.iter().for_each(|field| visit(field.value)),
        Expr::Fold(fold) => {
            [fold.range, fold.init, fold.condition, fold.step, fold.result].into_iter().for_each(visit);
        }
    }
}
