//! Planning of function calls.

use std::sync::Arc;

use crate::ast::{Expr, ExprId};
use crate::eval::CostRule;
use crate::library::{Overload, compile_pattern};
use crate::names::{
    ACCUMULATOR, ADD, AND, CONDITIONAL, EQUALS, GREATER, GREATER_EQUALS, IN, INDEX, LESS, LESS_EQUALS,
    MAP_INSERT, NEGATE, NOT, NOT_EQUALS, NOT_STRICTLY_FALSE, OPT_INDEX, OPT_SELECT, OR,
};
use crate::source::CompileError;
use crate::value::{Arithmetic, Key, Value};

use super::{
    Accumulator, Call, Node, NodeId, Pattern, PatternKind, Planned, Planner, Qualifier, QualifierKey,
    Relation,
};

/// Cost of creating a list, unless it is constant.
const LIST_COST: u64 = 10;

/// Functions that are constant-folded if their argument is constant.
const CONVERSIONS: &[&str] =
    &["bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"];

impl Planner<'_> {
    pub(super) fn call(
        &mut self,
        id: ExprId,
        function: &Arc<str>,
        target: Option<ExprId>,
        args: &[ExprId],
    ) -> Planned {
        if let Some(accumulation) = self.accumulation(function, args)? {
            return Ok(accumulation);
        }
        let mut planned = Vec::with_capacity(args.len() + 1);
        for arg in target.iter().chain(args) {
            planned.push(self.plan(*arg)?);
        }
        if let (INDEX | OPT_INDEX, Some(index)) = (&**function, planned.get(1))
            && let Some(constant) = self.constant(*index)
            && !constant.is_qualifier()
        {
            let message = format!("invalid qualifier type: {}", constant.go_type());
            return Err(CompileError::program(message));
        }
        if let Some(found) = self.builtin(id, function, &planned) {
            return Ok(found);
        }
        let overloads = self.typed.overloads(id);
        let unique = match overloads {
            [only] => Some(only.id),
            _ => None,
        };
        let cost = CostRule::of(function, unique);
        if let Some(found) = self.operator(function, unique, &planned, cost) {
            return Ok(found);
        }
        if CONVERSIONS.contains(&&**function)
            && let [arg] = planned[..]
            && let Some(value) = self.constant(arg)
        {
            let converted = convert_constant(function, overloads, value)?;
            return Ok(self.add(Node::Const(converted)));
        }
        if let Some(pattern) = self.pattern(function, &planned, cost)? {
            return Ok(pattern);
        }
        let singleton = matches!(&**function, "size" | "sort" | "@sortByAssociatedKeys" | "matches");
        let skips_type_guard =
            singleton || matches!(&**function, "contains" | "endsWith" | "startsWith" | "flatten");
        let stops_at_failure =
            planned.len() > 2 || &**function == "format" || (overloads.len() != 1 && !singleton);
        let call = Call {
            function: function.clone(),
            overloads: overloads.into(),
            args: planned.into(),
            cost,
            skips_type_guard,
            stops_at_failure,
        };
        Ok(self.add(Node::Call(Box::new(call))))
    }

    /// Plans the accumulation steps of macros that build a list or a map, as in-place operations.
    /// Otherwise each step would copy the accumulated value.
    fn accumulation(&mut self, function: &str, args: &[ExprId]) -> Result<Option<NodeId>, CompileError> {
        let Some((first, rest)) = args.split_first() else { return Ok(None) };
        let Some(accumulator) = self.accumulator(*first) else { return Ok(None) };
        match (function, rest) {
            (ADD, [list]) => {
                let Expr::List(elements) = self.typed.tree.expr(*list) else { return Ok(None) };
                let [element] = elements[..] else { return Ok(None) };
                if element.optional {
                    return Ok(None);
                }
                let element = self.plan(element.value)?;
                let list_cost = if self.constant(element).is_some() { 0 } else { LIST_COST };
                Ok(Some(self.add(Node::Append { accumulator, element, list_cost })))
            }
            (MAP_INSERT, [key, value]) => {
                let key = Some(self.plan(*key)?);
                let value = self.plan(*value)?;
                Ok(Some(self.add(Node::Insert { accumulator, key, value })))
            }
            (MAP_INSERT, [value]) => {
                let value = self.plan(*value)?;
                Ok(Some(self.add(Node::Insert { accumulator, key: None, value })))
            }
            _ => Ok(None),
        }
    }

    fn accumulator(&self, id: ExprId) -> Option<Accumulator> {
        let Expr::Ident(name) = self.typed.tree.expr(id) else { return None };
        if &**name != ACCUMULATOR {
            return None;
        }
        let binding = self.scopes.iter().rev().find(|binding| binding.name == *name)?;
        Some(Accumulator { slot: binding.slot, init: binding.init? })
    }

    /// Plans a call that the evaluator implements without a function call.
    fn builtin(&mut self, id: ExprId, function: &str, args: &[NodeId]) -> Option<NodeId> {
        let node = match (function, args) {
            (AND, [left, right]) => Node::And(*left, *right),
            (OR, [left, right]) => Node::Or(*left, *right),
            (CONDITIONAL, [condition, truthy, falsy]) => Node::Conditional(*condition, *truthy, *falsy),
            (EQUALS | NOT_EQUALS, [left, right]) => {
                Node::Equal { left: *left, right: *right, negated: function == NOT_EQUALS }
            }
            (INDEX | OPT_INDEX | OPT_SELECT, [operand, index]) => {
                let key = match self.constant(*index) {
                    Some(Value::String(text)) => QualifierKey::Field(text.as_str().into()),
                    Some(constant) => QualifierKey::Constant(constant.clone()),
                    None => QualifierKey::Computed(*index),
                };
                return Some(self.qualify(*operand, Qualifier { key, optional: function != INDEX }));
            }
            ("or" | "orValue", [left, right]) if !self.typed.overloads(id).is_empty() => {
                Node::OptionalOr { left: *left, right: *right, unwrap: function == "orValue" }
            }
            _ => return None,
        };
        Some(self.add(node))
    }

    fn operator(
        &mut self,
        function: &str,
        unique: Option<&str>,
        args: &[NodeId],
        cost: CostRule,
    ) -> Option<NodeId> {
        let node = match (function, args) {
            (NOT, [operand]) => Node::Not(*operand),
            (NOT_STRICTLY_FALSE, [operand]) => Node::NotStrictlyFalse(*operand),
            (NEGATE, [operand]) => Node::Negate(*operand),
            (IN, [element, container]) => {
                if let (Some("in_list"), Some(Value::List(list))) = (unique, self.constant(*container)) {
                    match constant_set(list) {
                        Some(set) if set.is_empty() => {
                            return Some(self.add(Node::Const(Value::Bool(false))));
                        }
                        Some(set) => {
                            return Some(self.add(Node::InSet { element: *element, set }));
                        }
                        None => {}
                    }
                }
                Node::In { element: *element, container: *container, cost }
            }
            (_, [left, right]) => {
                let (left, right) = (*left, *right);
                if let Some(operation) = Arithmetic::of(function) {
                    Node::Arithmetic { operation, left, right, cost }
                } else {
                    let relation = match function {
                        LESS => Relation::Less,
                        LESS_EQUALS => Relation::LessEquals,
                        GREATER => Relation::Greater,
                        GREATER_EQUALS => Relation::GreaterEquals,
                        _ => return None,
                    };
                    Node::Compare { relation, left, right, cost }
                }
            }
            _ => return None,
        };
        Some(self.add(node))
    }

    /// Plans a regular expression function; compiles the pattern if it is constant.
    fn pattern(
        &mut self,
        function: &str,
        args: &[NodeId],
        cost: CostRule,
    ) -> Result<Option<NodeId>, CompileError> {
        let kind = match function {
            "matches" => PatternKind::Matches,
            "find" => PatternKind::Find,
            "findAll" => PatternKind::FindAll,
            _ => return Ok(None),
        };
        let Some(Value::String(text)) = args.get(1).and_then(|arg| self.constant(*arg)) else {
            return Ok(None);
        };
        let regex = compile_pattern(text.as_str()).map_err(CompileError::program)?;
        Ok(Some(self.add(Node::Pattern(Box::new(Pattern { kind, regex, args: args.into(), cost })))))
    }
}

/// Returns constants as a set, if all have types that can be keys.
fn constant_set(list: &crate::value::ListValue<'static>) -> Option<std::collections::BTreeSet<Key<'static>>> {
    let is_primitive = |value: &Value<'static>| !matches!(value, Value::Null | Value::Type(_));
    list.0.iter().map(|element| element.ok().filter(is_primitive).and_then(Key::new)).collect()
}

fn convert_constant(
    function: &str,
    overloads: &[Arc<Overload>],
    value: &Value<'static>,
) -> Result<Value<'static>, CompileError> {
    let fitting = overloads.iter().find(|overload| crate::eval::fits(&overload.args[0], value));
    let Some(overload) = fitting else {
        let found = value.type_of();
        return Err(CompileError::program(format!("no such overload: {function}({})", found.name())));
    };
    (overload.call)(std::slice::from_ref(value)).map_err(|error| CompileError::program(error.to_string()))
}
