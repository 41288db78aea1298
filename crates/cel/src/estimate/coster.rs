//! Cost estimation by a walk of the tree, which tracks the origin and the maximum size of each
//! value.

use std::collections::HashMap;
use std::sync::Arc;

use crate::ast::{Element, Entry, Expr, ExprId, Fold, Literal};
use crate::check::Typed;
use crate::names::{ACCUMULATOR, OLD_ACCUMULATOR};
use crate::types::Type;

use super::{CostEstimate, SizeEstimate, Sizes};

const LIST_CREATE: u64 = 10;
const MAP_CREATE: u64 = 30;
const STRUCT_CREATE: u64 = 40;

/// The path from a variable to a value; empty if the value has no origin.
pub(super) type Path = Vec<Arc<str>>;

/// Sizes of the keys (or indices) and values of a list or map.
#[derive(Clone, Copy, Debug)]
pub(super) struct EntrySize {
    is_list: bool,
    key: SizeEstimate,
    pub(super) value: SizeEstimate,
}

impl EntrySize {
    fn union(self, other: Self) -> Self {
        Self { is_list: self.is_list, key: self.key.union(other.key), value: self.value.union(other.value) }
    }
}

#[derive(Clone, Debug)]
struct Local {
    path: Path,
    size: Option<SizeEstimate>,
    entry: Option<EntrySize>,
}

/// An argument of a call.
#[derive(Clone, Debug)]
pub(super) struct Argument {
    pub(super) id: ExprId,
    pub(super) path: Path,
    pub(super) of: Type,
    pub(super) size: Option<SizeEstimate>,
}

/// The cost of a call, and the size of its result.
pub(super) struct CallEstimate {
    pub(super) cost: CostEstimate,
    pub(super) result: Option<SizeEstimate>,
}

impl CallEstimate {
    pub(super) fn cost(cost: CostEstimate) -> Self {
        Self { cost, result: None }
    }

    pub(super) fn sized(cost: CostEstimate, result: SizeEstimate) -> Self {
        Self { cost, result: Some(result) }
    }
}

pub(super) struct Coster<'a> {
    pub(super) typed: &'a Typed,
    pub(super) sizes: &'a dyn Sizes,
    paths: HashMap<ExprId, Path>,
    computed: HashMap<ExprId, SizeEstimate>,
    entries: HashMap<ExprId, EntrySize>,
    locals: HashMap<Arc<str>, Vec<Local>>,
}

impl<'a> Coster<'a> {
    pub(super) fn new(typed: &'a Typed, sizes: &'a dyn Sizes) -> Self {
        Self {
            typed,
            sizes,
            paths: HashMap::new(),
            computed: HashMap::new(),
            entries: HashMap::new(),
            locals: HashMap::new(),
        }
    }

    pub(super) fn cost(&mut self, id: ExprId) -> CostEstimate {
        let typed = self.typed;
        match typed.tree.expr(id) {
            Expr::Unspecified | Expr::Literal(_) => CostEstimate::default(),
            Expr::Ident(name) => {
                let path = self.local(name).map_or_else(|| vec![name.clone()], |local| local.path.clone());
                self.paths.insert(id, path);
                CostEstimate::fixed(1)
            }
            // Presence tests are free.
            Expr::Select { operand, test_only: true, .. } => self.cost(*operand),
            Expr::Select { operand, field, .. } => {
                let cost = self.cost(*operand);
                let mut path = self.path(*operand);
                path.push(field.clone());
                self.paths.insert(id, path);
                let reads =
                    matches!(typed.type_of(*operand), Type::Map(..) | Type::Struct(_) | Type::Param(_));
                if reads { cost.add(CostEstimate::fixed(1)) } else { cost }
            }
            Expr::Call { function, target, args } => self.call(id, function, *target, args),
            Expr::List(elements) => self.list(id, elements),
            Expr::Map(entries) => self.map(id, entries),
            Expr::Struct { fields, .. } => {
                let mut sum = CostEstimate::fixed(STRUCT_CREATE);
                for field in fields {
                    sum = sum.add(self.cost(field.value));
                }
                sum
            }
            Expr::Fold(fold) if self.is_bind(fold) => self.bind(id, fold),
            Expr::Fold(fold) => self.fold(id, fold),
        }
    }

    fn list(&mut self, id: ExprId, elements: &[Element]) -> CostEstimate {
        let mut sum = CostEstimate::fixed(LIST_CREATE);
        let mut value = initial_size(elements.is_empty());
        for element in elements {
            sum = sum.add(self.cost(element.value));
            value = value.union(self.size_or_unknown(element.value));
        }
        self.entries.insert(id, EntrySize { is_list: true, key: SizeEstimate::fixed(1), value });
        sum
    }

    fn map(&mut self, id: ExprId, entries: &[Entry]) -> CostEstimate {
        let mut sum = CostEstimate::fixed(MAP_CREATE);
        let (mut key, mut value) = (initial_size(entries.is_empty()), initial_size(entries.is_empty()));
        for entry in entries {
            sum = sum.add(self.cost(entry.key)).add(self.cost(entry.value));
            key = key.union(self.size_or_unknown(entry.key));
            value = value.union(self.size_or_unknown(entry.value));
        }
        self.entries.insert(id, EntrySize { is_list: false, key, value });
        sum
    }

    /// Returns true for the expansion of `cel.bind`: a fold over an empty list, whose accumulator
    /// is the bound name.
    fn is_bind(&self, fold: &Fold) -> bool {
        matches!(self.typed.tree.expr(fold.range), Expr::List(elements) if elements.is_empty())
            && matches!(self.typed.tree.expr(fold.condition), Expr::Literal(Literal::Bool(false)))
            && &*fold.accumulator != OLD_ACCUMULATOR
    }

    fn bind(&mut self, id: ExprId, fold: &Fold) -> CostEstimate {
        let sum = self.cost(fold.range).add(self.cost(fold.init));
        self.push_accumulator(fold);
        let sum = sum.add(self.cost(fold.result));
        self.pop(&fold.accumulator);
        self.copy_sizes(id, fold.result);
        sum
    }

    fn fold(&mut self, id: ExprId, fold: &Fold) -> CostEstimate {
        let sum = self.cost(fold.range).add(self.cost(fold.init));
        self.push_accumulator(fold);
        match &fold.second_variable {
            Some(second) => {
                self.push_variable(&fold.variable, fold.range, Part::Key);
                self.push_variable(second, fold.range, Part::Value);
            }
            None => self.push_variable(&fold.variable, fold.range, Part::Single),
        }
        let condition = self.cost(fold.condition);
        let round = self.cost(fold.step).add(condition);
        self.pop(&fold.variable);
        if let Some(second) = &fold.second_variable {
            self.pop(second);
        }
        let sum = sum.add(self.cost(fold.result));
        self.pop(&fold.accumulator);
        let rounds = self.size_or_unknown(fold.range);
        let sum = sum.add(rounds.times(round));
        match self.typed.tree.expr(fold.init) {
            Expr::Literal(_) => {
                if let Some(size) = self.size(fold.init) {
                    self.computed.insert(id, size);
                }
            }
            Expr::List(_) | Expr::Map(_) => {
                self.computed.insert(id, rounds);
                if let Some(entry) = self.entry(fold.step) {
                    self.entries.insert(id, entry);
                }
            }
            _ => {}
        }
        sum
    }

    fn local(&self, name: &str) -> Option<&Local> {
        self.locals.get(name)?.last()
    }

    fn push(&mut self, name: &Arc<str>, local: Local) {
        self.locals.entry(name.clone()).or_default().push(local);
    }

    fn pop(&mut self, name: &str) {
        if let Some(stack) = self.locals.get_mut(name) {
            stack.pop();
        }
    }

    fn push_accumulator(&mut self, fold: &Fold) {
        let local =
            Local { path: self.path(fold.init), entry: self.entry(fold.init), size: self.size(fold.init) };
        self.push(&fold.accumulator, local);
    }

    fn push_variable(&mut self, name: &Arc<str>, range: ExprId, part: Part) {
        let entry = self.entry(range);
        let is_list = match entry {
            Some(entry) => entry.is_list,
            None => matches!(self.typed.type_of(range), Type::List(_)),
        };
        let (step, size) = match (part, is_list) {
            (Part::Key, true) => ("@indices", entry.map(|entry| entry.key)),
            (Part::Key | Part::Single, false) => ("@keys", entry.map(|entry| entry.key)),
            (Part::Value | Part::Single, true) => ("@items", entry.map(|entry| entry.value)),
            (Part::Value, false) => ("@values", entry.map(|entry| entry.value)),
        };
        let mut path = self.path(range);
        path.push(step.into());
        self.push(name, Local { path, size, entry: None });
    }

    pub(super) fn path(&self, id: ExprId) -> Path {
        if let Expr::Ident(name) = self.typed.tree.expr(id)
            && let Some(local) = self.local(name)
        {
            return local.path.clone();
        }
        self.paths.get(&id).cloned().unwrap_or_default()
    }

    pub(super) fn set_path(&mut self, id: ExprId, path: Path) {
        self.paths.insert(id, path);
    }

    pub(super) fn argument(&mut self, id: ExprId) -> Argument {
        let path = Some(self.path(id)).filter(|path| {
            path.first().is_some_and(|root| &**root != ACCUMULATOR && &**root != OLD_ACCUMULATOR)
        });
        let of = self.typed.type_of(id).clone();
        Argument { id, path: path.unwrap_or_default(), of, size: self.size(id) }
    }

    pub(super) fn declared_size(&self, path: &Path) -> Option<SizeEstimate> {
        let path: Vec<&str> = path.iter().map(|step| &**step).collect();
        self.sizes.size(&path).filter(|_| !path.is_empty())
    }

    pub(super) fn size(&mut self, id: ExprId) -> Option<SizeEstimate> {
        if let Some(size) = self.computed.get(&id) {
            return Some(*size);
        }
        let expr = self.typed.tree.expr(id);
        if let Some(size) = literal_size(expr) {
            return Some(SizeEstimate::fixed(size));
        }
        if let Some(size) = self.declared_size(&self.path(id)) {
            self.computed.insert(id, size);
            return Some(size);
        }
        if is_scalar(self.typed.type_of(id)) {
            return Some(SizeEstimate::fixed(1));
        }
        match expr {
            Expr::Ident(name) => self.local(name).and_then(|local| local.size),
            _ => None,
        }
    }

    pub(super) fn set_size(&mut self, id: ExprId, size: Option<SizeEstimate>) {
        if let Some(size) = size {
            self.computed.insert(id, size);
        }
    }

    pub(super) fn size_or_unknown(&mut self, id: ExprId) -> SizeEstimate {
        self.size(id).unwrap_or(SizeEstimate::UNKNOWN)
    }

    pub(super) fn entry(&self, id: ExprId) -> Option<EntrySize> {
        if let Some(entry) = self.entries.get(&id) {
            return Some(*entry);
        }
        match self.typed.tree.expr(id) {
            Expr::Ident(name) => self.local(name).and_then(|local| local.entry),
            _ => None,
        }
    }

    /// Sets the entry sizes of an expression whose value is one of two others, or their
    /// concatenation.
    pub(super) fn unite_entries(&mut self, id: ExprId, one: ExprId, other: ExprId) {
        if let (Some(one), Some(other)) = (self.entry(one), self.entry(other)) {
            self.entries.insert(id, one.union(other));
        }
    }

    pub(super) fn copy_sizes(&mut self, to: ExprId, from: ExprId) {
        let size = self.size(from);
        self.set_size(to, size);
        if let Some(entry) = self.entry(from) {
            self.entries.insert(to, entry);
        }
    }
}

/// The part of an entry that a variable of a comprehension holds.
#[derive(Clone, Copy)]
enum Part {
    Key,
    Value,
    /// The elements of a list, or the keys of a map.
    Single,
}

/// Returns the size of the elements of an empty list, the initial value of a union.
fn initial_size(is_empty: bool) -> SizeEstimate {
    SizeEstimate { min: if is_empty { 0 } else { u64::MAX }, max: 0 }
}

fn literal_size(expr: &Expr) -> Option<u64> {
    Some(match expr {
        Expr::Literal(Literal::String(text)) => text.chars().count() as u64,
        Expr::Literal(Literal::Bytes(bytes)) => bytes.len() as u64,
        Expr::Literal(_) => 1,
        Expr::List(elements) => elements.len() as u64,
        Expr::Map(entries) => entries.len() as u64,
        _ => return None,
    })
}

fn is_scalar(of: &Type) -> bool {
    match of {
        Type::Bool | Type::Double | Type::Duration | Type::Int | Type::Timestamp | Type::Uint => true,
        other => other.as_optional().is_some_and(is_scalar),
    }
}
