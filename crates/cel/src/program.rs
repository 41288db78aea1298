//! Compiled programs.

use std::fmt;
use std::sync::Arc;

use crate::EvalError;
use crate::activation::Activation;
use crate::budget::Budget;
use crate::eval::Machine;
use crate::plan::{Base, Node, Plan};
use crate::provider::TypeProvider;
use crate::types::Type;
use crate::value::Value;

/// A compiled expression. It is small, because it holds neither syntax tree nor source, and can be
/// shared and evaluated concurrently.
#[derive(Clone)]
pub struct Program {
    plan: Arc<Plan>,
    output_type: Type,
    provider: Option<Arc<dyn TypeProvider>>,
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program").field("output_type", &self.output_type).finish_non_exhaustive()
    }
}

impl Program {
    pub(crate) fn new(plan: Plan, output_type: Type, provider: Option<Arc<dyn TypeProvider>>) -> Self {
        Self { plan: Arc::new(plan), output_type, provider }
    }

    /// Returns the type of the result; `dyn` if it is only known at run time.
    pub fn output_type(&self) -> &Type {
        &self.output_type
    }

    /// Returns true if the program reads this variable of the environment.
    pub fn uses(&self, variable: &str) -> bool {
        self.plan.nodes().iter().any(|node| match node {
            Node::Attribute(attribute) | Node::Test(attribute) => {
                matches!(&attribute.base, Base::Variable(name) if &**name == variable)
            }
            _ => false,
        })
    }

    /// Evaluates the program. The cost of this call, and of everything the activation computes for
    /// it, is charged to the budget.
    ///
    /// # Errors
    /// If the evaluation fails, or exceeds the cost limit of a call.
    pub fn evaluate<'d>(
        &'d self,
        activation: &dyn Activation<'d>,
        budget: &mut Budget,
    ) -> Result<Value<'d>, EvalError> {
        let mut machine = Machine::new(&self.plan, activation, self.provider.as_deref(), budget);
        let value = machine.run();
        let cost = machine.cost();
        budget.pay(cost);
        value
    }
}
