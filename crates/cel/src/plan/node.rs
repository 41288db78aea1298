//! Programs: the steps of an expression, all names and overloads resolved.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

use regex::Regex;

use crate::eval::CostRule;
use crate::library::Overload;
use crate::value::{Arithmetic, Key, Value};

/// A step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeId(pub(crate) u32);

/// Where a comprehension keeps one of its variables.
pub(crate) type Slot = u16;

#[derive(Debug)]
pub(crate) enum Node {
    Const(Value<'static>),
    /// A variable, or the value of another step, and a path from there.
    Attribute(Box<Attribute>),
    /// Whether the end of a path is there.
    Test(Box<Attribute>),
    Conditional(NodeId, NodeId, NodeId),
    And(NodeId, NodeId),
    Or(NodeId, NodeId),
    Not(NodeId),
    /// True also if the operand failed.
    NotStrictlyFalse(NodeId),
    Negate(NodeId),
    Equal {
        left: NodeId,
        right: NodeId,
        negated: bool,
    },
    Compare {
        relation: Relation,
        left: NodeId,
        right: NodeId,
        cost: CostRule,
    },
    Arithmetic {
        operation: Arithmetic,
        left: NodeId,
        right: NodeId,
        cost: CostRule,
    },
    In {
        element: NodeId,
        container: NodeId,
        cost: CostRule,
    },
    /// Whether a value is one of a few constants.
    InSet {
        element: NodeId,
        set: BTreeSet<Key<'static>>,
    },
    /// The first value that is there; of `orValue`, what is in it.
    OptionalOr {
        left: NodeId,
        right: NodeId,
        unwrap: bool,
    },
    Call(Box<Call>),
    /// A function of a regular expression that is a constant.
    Pattern(Box<Pattern>),
    List(Box<[(NodeId, bool)]>),
    Map(Box<[(NodeId, NodeId, bool)]>),
    Object(Box<ObjectNode>),
    Fold(Box<FoldNode>),
    /// One more element in a list that a fold gathers.
    Append {
        accumulator: Accumulator,
        element: NodeId,
        list_cost: u64,
    },
    /// One more entry in a map that a fold gathers; without a key, all entries of a map.
    Insert {
        accumulator: Accumulator,
        key: Option<NodeId>,
        value: NodeId,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    Less,
    LessEquals,
    Greater,
    GreaterEquals,
}

impl Relation {
    pub(crate) fn holds(self, order: Ordering) -> bool {
        match self {
            Self::Less => order.is_lt(),
            Self::LessEquals => order.is_le(),
            Self::Greater => order.is_gt(),
            Self::GreaterEquals => order.is_ge(),
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Less => crate::names::LESS,
            Self::LessEquals => crate::names::LESS_EQUALS,
            Self::Greater => crate::names::GREATER,
            Self::GreaterEquals => crate::names::GREATER_EQUALS,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Attribute {
    pub(crate) base: Base,
    pub(crate) path: Vec<Qualifier>,
}

#[derive(Debug)]
pub(crate) enum Base {
    /// A variable of the environment.
    Variable(Arc<str>),
    /// A variable of a comprehension.
    Local(Slot),
    Accumulator(Accumulator),
    /// The value of a step that is no attribute.
    Step(NodeId),
    /// A conditional, which costs nothing itself.
    Conditional(NodeId),
}

/// What a fold gathers in. It begins when it is first read, since it may not be needed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Accumulator {
    pub(crate) slot: Slot,
    pub(crate) init: NodeId,
}

#[derive(Debug)]
pub(crate) struct Qualifier {
    pub(crate) key: QualifierKey,
    /// Absence is no failure, from here to the end of the path.
    pub(crate) optional: bool,
}

#[derive(Debug)]
pub(crate) enum QualifierKey {
    Field(Arc<str>),
    Constant(Value<'static>),
    Computed(NodeId),
}

#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) function: Arc<str>,
    /// Those that may be meant.
    pub(crate) overloads: Box<[Arc<Overload>]>,
    pub(crate) args: Box<[NodeId]>,
    pub(crate) cost: CostRule,
    /// Whether the function looks at the types of its arguments itself. Of all others they are compared with
    /// the signatures once more: the checker knows only what was written.
    pub(crate) unguarded: bool,
    /// Whether a failure of one argument keeps the next from being evaluated.
    pub(crate) in_a_row: bool,
}

#[derive(Debug)]
pub(crate) struct Pattern {
    pub(crate) kind: PatternKind,
    pub(crate) regex: Regex,
    pub(crate) args: Box<[NodeId]>,
    pub(crate) cost: CostRule,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatternKind {
    Matches,
    Find,
    FindAll,
}

#[derive(Debug)]
pub(crate) struct ObjectNode {
    pub(crate) type_name: Arc<str>,
    pub(crate) fields: Box<[(Arc<str>, NodeId, bool)]>,
}

#[derive(Debug)]
pub(crate) struct FoldNode {
    pub(crate) range: NodeId,
    pub(crate) variable: Slot,
    pub(crate) second_variable: Option<Slot>,
    pub(crate) accumulator: Accumulator,
    pub(crate) condition: NodeId,
    pub(crate) step: NodeId,
    pub(crate) result: NodeId,
}
