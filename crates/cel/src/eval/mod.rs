//! Evaluator of programs, with cost tracking.

mod attribute;
mod call;
mod construct;
mod cost;
mod fold;

use crate::EvalError;
use crate::activation::Activation;
use crate::budget::Budget;
use crate::names::{EQUALS, NOT_EQUALS};
use crate::plan::{Node, NodeId, Plan};
use crate::provider::TypeProvider;
use crate::value::{Value, compare, equal, negate};

pub(crate) use call::fits;
pub(crate) use cost::CostRule;

pub(crate) type Flow<'d> = Result<Value<'d>, EvalError>;

/// Cost of reading a variable or a field.
const READ_COST: u64 = 1;

/// The state of one evaluation.
pub(crate) struct Machine<'m, 'd> {
    plan: &'d Plan,
    activation: &'m dyn Activation<'d>,
    provider: Option<&'d dyn TypeProvider>,
    budget: &'m mut Budget,
    /// Variables of comprehensions. An accumulator may hold an error.
    slots: Vec<Option<Flow<'d>>>,
    cost: u64,
    limit: u64,
}

impl<'m, 'd> Machine<'m, 'd> {
    pub(crate) fn new(
        plan: &'d Plan,
        activation: &'m dyn Activation<'d>,
        provider: Option<&'d dyn TypeProvider>,
        budget: &'m mut Budget,
    ) -> Self {
        let slots = std::iter::repeat_with(|| None).take(plan.slots).collect();
        let limit = budget.call_limit();
        Self { plan, activation, provider, budget, slots, cost: 0, limit }
    }

    pub(crate) fn run(&mut self) -> Flow<'d> {
        self.eval(self.plan.root)
    }

    /// Returns the cost so far.
    pub(crate) fn cost(&self) -> u64 {
        self.cost
    }

    fn charge(&mut self, price: u64) -> Result<(), EvalError> {
        self.cost = self.cost.saturating_add(price);
        if self.cost > self.limit { Err(EvalError::CostLimitExceeded) } else { Ok(()) }
    }

    fn eval(&mut self, id: NodeId) -> Flow<'d> {
        match self.plan.node(id) {
            Node::Const(value) => Ok(borrowed(value)),
            Node::Attribute(attribute) => {
                let value = self.resolve_attribute(attribute);
                self.charge(attribute::base_cost(attribute))?;
                value
            }
            Node::Test(attribute) => self.test_attribute(attribute),
            Node::Conditional(..) => self.resolve(id),
            Node::And(left, right) => self.logic(*left, *right, false),
            Node::Or(left, right) => self.logic(*left, *right, true),
            Node::Not(operand) => self.not(*operand),
            Node::NotStrictlyFalse(operand) => {
                let value = self.eval(*operand);
                self.charge(1)?;
                match value {
                    Ok(Value::Bool(truth)) => Ok(Value::Bool(truth)),
                    Ok(_) | Err(EvalError::Failed(_)) => Ok(Value::Bool(true)),
                    Err(cancelled) => Err(cancelled),
                }
            }
            Node::Negate(operand) => {
                let value = self.eval(*operand);
                self.charge(1)?;
                negate(&value?)
            }
            Node::Equal { left, right, negated } => self.equality(*left, *right, *negated),
            Node::Compare { relation, left, right, cost } => {
                let (left, right) = self.operands(*left, *right, *cost)?;
                match compare(&left, &right) {
                    Ok(order) => Ok(Value::Bool(relation.holds(order))),
                    Err(error) if is_ordered(&left) => Err(error),
                    Err(_) => Err(EvalError::no_overload_of(relation.name())),
                }
            }
            Node::Arithmetic { operation, left, right, cost } => {
                let (left, right) = self.operands(*left, *right, *cost)?;
                operation.apply(&left, &right)
            }
            Node::In { element, container, cost } => {
                let (element, container) = self.operands(*element, *container, *cost)?;
                call::contains(&element, &container)
            }
            Node::InSet { element, set } => {
                let element = self.eval(*element)?;
                Ok(Value::Bool(crate::value::Key::new(element).is_some_and(|key| set.contains(&key))))
            }
            Node::OptionalOr { left, right, unwrap } => match self.eval(*left)? {
                Value::Optional(Some(inner)) if *unwrap => Ok(Value::clone(&inner)),
                Value::Optional(None) => self.eval(*right),
                other => Ok(other),
            },
            Node::Call(call) => self.call(call),
            Node::Pattern(pattern) => self.pattern(pattern),
            Node::List(elements) => self.list(elements),
            Node::Map(entries) => self.map(entries),
            Node::Object(object) => self.object(object),
            Node::Fold(fold) => self.fold(fold),
            Node::Append { accumulator, element, list_cost } => {
                self.append(*accumulator, *element, *list_cost)
            }
            Node::Insert { accumulator, key, value } => self.insert(*accumulator, *key, *value),
        }
    }

    /// Like [`Self::eval`], for branches and indices: reading an attribute there costs only its
    /// path.
    fn resolve(&mut self, id: NodeId) -> Flow<'d> {
        match self.plan.node(id) {
            Node::Attribute(attribute) => self.resolve_attribute(attribute),
            Node::Conditional(condition, truthy, falsy) => match self.eval(*condition)? {
                Value::Bool(true) => self.resolve(*truthy),
                Value::Bool(false) => self.resolve(*falsy),
                _ => Err(EvalError::no_such_overload()),
            },
            _ => self.eval(id),
        }
    }

    /// Evaluates `&&` and `||`: one operand may determine the result although the other failed.
    fn logic(&mut self, left: NodeId, right: NodeId, decisive: bool) -> Flow<'d> {
        let mut failure = None;
        for operand in [left, right] {
            match self.eval(operand) {
                Ok(Value::Bool(truth)) if truth == decisive => return Ok(Value::Bool(decisive)),
                Ok(Value::Bool(_)) => {}
                Ok(_) => failure = failure.or_else(|| Some(EvalError::no_such_overload())),
                Err(error @ EvalError::Failed(_)) => failure = failure.or(Some(error)),
                Err(cancelled) => return Err(cancelled),
            }
        }
        failure.map_or(Ok(Value::Bool(!decisive)), Err)
    }

    fn not(&mut self, operand: NodeId) -> Flow<'d> {
        let value = self.eval(operand);
        self.charge(1)?;
        match value? {
            Value::Bool(truth) => Ok(Value::Bool(!truth)),
            _ => Err(EvalError::no_such_overload()),
        }
    }

    fn equality(&mut self, left: NodeId, right: NodeId, negated: bool) -> Flow<'d> {
        let function = if negated { NOT_EQUALS } else { EQUALS };
        let (left, right) = self.both(left, right)?;
        let failed = Value::Null;
        let sides = (left.as_ref().unwrap_or(&failed), right.as_ref().unwrap_or(&failed));
        self.charge(cost::equality(function, sides.0, sides.1))?;
        let (left, right) = (left?, right?);
        match equal(&left, &right) {
            Ok(same) => Ok(Value::Bool(same != negated)),
            // In cel-go, values that cannot be compared are unequal for `!=`, but an error for
            // `==`.
            Err(EvalError::Failed(_)) if negated => Ok(Value::Bool(true)),
            Err(error) => Err(error),
        }
    }

    /// Evaluates both operands, even if the first fails.
    fn both(&mut self, left: NodeId, right: NodeId) -> Result<(Flow<'d>, Flow<'d>), EvalError> {
        let left = absorbed(self.eval(left))?;
        let right = absorbed(self.eval(right))?;
        Ok((left, right))
    }

    /// Evaluates both operands and charges the cost of the operation.
    fn operands(
        &mut self,
        left: NodeId,
        right: NodeId,
        cost: CostRule,
    ) -> Result<(Value<'d>, Value<'d>), EvalError> {
        let (left, right) = self.both(left, right)?;
        let price = match cost {
            CostRule::Fixed(price) => price,
            // A failed operand has size one.
            other => {
                other.price(&[left.clone().unwrap_or(Value::Null), right.clone().unwrap_or(Value::Null)])
            }
        };
        self.charge(price)?;
        Ok((left?, right?))
    }
}

/// Separates failed operations, which can be absorbed, from errors that abort the evaluation.
fn absorbed<'d>(flow: Flow<'d>) -> Result<Flow<'d>, EvalError> {
    match flow {
        Err(error @ EvalError::Failed(_)) => Ok(Err(error)),
        Err(cancelled) => Err(cancelled),
        value => Ok(value),
    }
}

/// Returns a constant of the program, borrowed where possible to avoid reference counting.
fn borrowed<'d>(value: &'d Value<'static>) -> Value<'d> {
    match value {
        Value::String(text) => Value::text(text.as_str()),
        other => other.clone(),
    }
}

fn is_ordered(value: &Value<'_>) -> bool {
    matches!(
        value,
        Value::Bool(_)
            | Value::Int(_)
            | Value::Uint(_)
            | Value::Double(_)
            | Value::String(_)
            | Value::Bytes(_)
            | Value::Timestamp(_)
            | Value::Duration(_)
    )
}
