//! Planner: converts a type-checked tree to a program. It folds constants and merges attributes
//! into paths, as cel-go does, because that determines their cost.

mod calls;
mod node;

use std::sync::Arc;

use crate::ast::{Element, Entry, Expr, ExprId, Fold, Literal};
use crate::check::{Reference, Typed};
use crate::source::CompileError;
use crate::types::Type;
use crate::value::{Key, Value};

pub(crate) use node::{
    Accumulator, Attribute, Base, Call, FoldNode, Node, NodeId, ObjectNode, Pattern, PatternKind, Qualifier,
    QualifierKey, Relation, Slot,
};

/// The nodes of a program.
#[derive(Debug)]
pub(crate) struct Plan {
    nodes: Box<[Node]>,
    pub(crate) root: NodeId,
    pub(crate) slots: usize,
}

impl Plan {
    pub(crate) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize]
    }

    pub(crate) fn nodes(&self) -> &[Node] {
        &self.nodes
    }
}

/// Plans a tree.
///
/// # Errors
/// If a constant is invalid.
pub(crate) fn plan(typed: &Typed) -> Result<Plan, CompileError> {
    let mut planner = Planner { typed, nodes: Vec::new(), scopes: Vec::new(), slots: 0 };
    let root = planner.plan(typed.root)?;
    Ok(Plan { nodes: planner.nodes.into_boxed_slice(), root, slots: planner.slots })
}

type Planned = Result<NodeId, CompileError>;

/// A variable of a comprehension.
struct Binding {
    name: Arc<str>,
    slot: Slot,
    /// Initial value, for an accumulator.
    init: Option<NodeId>,
}

struct Planner<'t> {
    typed: &'t Typed,
    nodes: Vec<Node>,
    scopes: Vec<Binding>,
    slots: usize,
}

impl Planner<'_> {
    fn add(&mut self, node: Node) -> NodeId {
        let id = NodeId(u32::try_from(self.nodes.len()).unwrap_or(u32::MAX));
        self.nodes.push(node);
        id
    }

    fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize]
    }

    fn constant(&self, id: NodeId) -> Option<&Value<'static>> {
        match self.node(id) {
            Node::Const(value) => Some(value),
            _ => None,
        }
    }

    fn plan(&mut self, id: ExprId) -> Planned {
        let typed = self.typed;
        match typed.tree.expr(id) {
            Expr::Unspecified => Ok(self.add(Node::Const(Value::Null))),
            Expr::Literal(literal) => Ok(self.add(Node::Const(literal_value(literal)))),
            Expr::Ident(name) => self.ident(id, name),
            Expr::Select { operand, field, test_only } => self.select(*operand, field, *test_only),
            Expr::Call { function, target, args } => self.call(id, function, *target, args),
            Expr::List(elements) => self.list(elements),
            Expr::Map(entries) => self.map(entries),
            Expr::Struct { fields, .. } => {
                let type_name = match typed.type_of(id) {
                    Type::Struct(name) => name.clone(),
                    other => other.name().into(),
                };
                let mut planned = Vec::with_capacity(fields.len());
                for field in fields {
                    planned.push((field.name.clone(), self.plan(field.value)?, field.optional));
                }
                Ok(self.add(Node::Object(Box::new(ObjectNode { type_name, fields: planned.into() }))))
            }
            Expr::Fold(fold) => self.fold(fold),
        }
    }

    fn ident(&mut self, id: ExprId, name: &Arc<str>) -> Planned {
        if let Some(Reference::Type(named)) = self.typed.reference(id) {
            return Ok(self.add(Node::Const(Value::Type(named.clone()))));
        }
        // cel-go treats every name of this type as the name of a type, even that of a variable.
        if let Type::Type(_) = self.typed.type_of(id) {
            return Err(CompileError::program(format!("reference to undefined type: {name}")));
        }
        let base = match self.scopes.iter().rev().find(|binding| binding.name == *name) {
            Some(Binding { slot, init: Some(init), .. }) => {
                Base::Accumulator(Accumulator { slot: *slot, init: *init })
            }
            Some(Binding { slot, init: None, .. }) => Base::Local(*slot),
            None => Base::Variable(name.clone()),
        };
        Ok(self.add(Node::Attribute(Box::new(Attribute { base, path: Vec::new() }))))
    }

    fn select(&mut self, operand: ExprId, field: &Arc<str>, test_only: bool) -> Planned {
        let operand = self.plan(operand)?;
        let key = QualifierKey::Field(field.clone());
        let id = self.qualify(operand, Qualifier { key, optional: false });
        if test_only && let Node::Attribute(attribute) = &mut self.nodes[id.0 as usize] {
            let attribute =
                std::mem::replace(attribute, Box::new(Attribute { base: Base::Local(0), path: Vec::new() }));
            self.nodes[id.0 as usize] = Node::Test(attribute);
        }
        Ok(id)
    }

    /// Adds an element to the path of an attribute, or starts a new path.
    fn qualify(&mut self, operand: NodeId, qualifier: Qualifier) -> NodeId {
        if let Node::Attribute(attribute) = &mut self.nodes[operand.0 as usize] {
            attribute.path.push(qualifier);
            return operand;
        }
        let base = match self.node(operand) {
            Node::Conditional(..) => Base::Conditional(operand),
            _ => Base::Step(operand),
        };
        self.add(Node::Attribute(Box::new(Attribute { base, path: vec![qualifier] })))
    }

    fn list(&mut self, elements: &[Element]) -> Planned {
        let mut planned = Vec::with_capacity(elements.len());
        for element in elements {
            planned.push((self.plan(element.value)?, element.optional));
        }
        let constants: Option<Vec<Value<'static>>> =
            planned.iter().map(|(id, optional)| self.constant(*id).filter(|_| !optional).cloned()).collect();
        Ok(self.add(match constants {
            Some(constants) => Node::Const(Value::list(constants)),
            None => Node::List(planned.into()),
        }))
    }

    fn map(&mut self, entries: &[Entry]) -> Planned {
        let mut planned = Vec::with_capacity(entries.len());
        for entry in entries {
            planned.push((self.plan(entry.key)?, self.plan(entry.value)?, entry.optional));
        }
        let constants: Option<Vec<_>> = planned
            .iter()
            .map(|(key, value, optional)| {
                let constant = |id| self.constant(id).filter(|_| !optional).cloned();
                Some((constant(*key)?, constant(*value)?))
            })
            .collect();
        if let Some(unsupported) = constants.iter().flatten().find(|(key, _)| Key::new(key.clone()).is_none())
        {
            return Err(CompileError::program(format!(
                "unsupported key type: {}",
                unsupported.0.type_of().name()
            )));
        }
        Ok(self.add(match constants {
            Some(constants) => Node::Const(Value::map(constants)),
            None => Node::Map(planned.into()),
        }))
    }

    fn fold(&mut self, fold: &Fold) -> Planned {
        let init = self.plan(fold.init)?;
        let range = self.plan(fold.range)?;
        let depth = self.scopes.len();
        let accumulator = Accumulator { slot: self.bind(&fold.accumulator, Some(init)), init };
        let variable = self.bind(&fold.variable, None);
        let second_variable = fold.second_variable.as_ref().map(|name| self.bind(name, None));
        let condition = self.plan(fold.condition)?;
        let step = self.plan(fold.step)?;
        // The result expression can only access the accumulator.
        self.scopes.truncate(depth + 1);
        let result = self.plan(fold.result)?;
        self.scopes.truncate(depth);
        let fold = FoldNode { range, variable, second_variable, accumulator, condition, step, result };
        Ok(self.add(Node::Fold(Box::new(fold))))
    }

    /// Slots are numbered by depth: sibling folds share slots.
    fn bind(&mut self, name: &Arc<str>, init: Option<NodeId>) -> Slot {
        let slot = Slot::try_from(self.scopes.len()).unwrap_or(Slot::MAX);
        self.scopes.push(Binding { name: name.clone(), slot, init });
        self.slots = self.slots.max(self.scopes.len());
        slot
    }
}

fn literal_value(literal: &Literal) -> Value<'static> {
    match literal {
        Literal::Null => Value::Null,
        Literal::Bool(value) => Value::Bool(*value),
        Literal::Int(value) => Value::Int(*value),
        Literal::Uint(value) => Value::Uint(*value),
        Literal::Double(value) => Value::Double(*value),
        Literal::String(text) => Value::string(text.clone()),
        Literal::Bytes(bytes) => Value::Bytes(bytes.clone()),
    }
}
