//! Nodes of a planned program, with all names and overloads resolved.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

use regex::Regex;

use crate::eval::CostRule;
use crate::library::Overload;
use crate::value::{Arithmetic, Key, Value};

/// Index of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeId(pub(crate) u32);

/// Index of the slot of a comprehension variable.
pub(crate) type Slot = u16;

#[derive(Debug)]
pub(crate) enum Node {
    Const(Value<'static>),
    /// A variable, or the value of another node, and a path into it.
    Attribute(Box<Attribute>),
    /// Tests whether the last element of a path exists.
    Test(Box<Attribute>),
    Conditional(NodeId, NodeId, NodeId),
    And(NodeId, NodeId),
    Or(NodeId, NodeId),
    Not(NodeId),
    /// True unless the operand is false; a failure counts as true.
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
    /// Tests whether a value is in a constant set.
    InSet {
        element: NodeId,
        set: BTreeSet<Key<'static>>,
    },
    /// The first optional with a value; `orValue` unwraps it.
    OptionalOr {
        left: NodeId,
        right: NodeId,
        unwrap: bool,
    },
    Call(Box<Call>),
    /// A regular expression function with a constant pattern.
    Pattern(Box<Pattern>),
    List(Box<[(NodeId, bool)]>),
    Map(Box<[(NodeId, NodeId, bool)]>),
    Object(Box<ObjectNode>),
    Fold(Box<FoldNode>),
    /// Appends an element to the list that a fold accumulates.
    Append {
        accumulator: Accumulator,
        element: NodeId,
        list_cost: u64,
    },
    /// Inserts an entry into the map that a fold accumulates; without a key, all entries of a map.
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
    /// The value of a node that is not an attribute.
    Step(NodeId),
    /// A conditional, which costs nothing itself.
    Conditional(NodeId),
}

/// The accumulator of a fold. It is initialized on first read, because it may not be needed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Accumulator {
    pub(crate) slot: Slot,
    pub(crate) init: NodeId,
}

#[derive(Debug)]
pub(crate) struct Qualifier {
    pub(crate) key: QualifierKey,
    /// Absence is not an error, from here to the end of the path.
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
    /// The candidate overloads.
    pub(crate) overloads: Box<[Arc<Overload>]>,
    pub(crate) args: Box<[NodeId]>,
    pub(crate) cost: CostRule,
    /// True if the function checks the types of its arguments itself. For other functions the
    /// evaluator checks them against the signatures, because the type checker may have seen `dyn`.
    pub(crate) skips_type_guard: bool,
    /// True if the failure of an argument skips the evaluation of the remaining ones.
    pub(crate) stops_at_failure: bool,
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
