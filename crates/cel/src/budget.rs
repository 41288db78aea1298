//! Runtime cost budget of evaluation.

/// Maximum cost of one call, Kubernetes' `PerCallLimit`. About a tenth of a second.
pub const PER_CALL_LIMIT: u64 = 1_000_000;

/// Maximum cost of all expressions of one object or policy together, Kubernetes'
/// `RuntimeCELCostBudget`. About a second.
pub const RUNTIME_COST_BUDGET: u64 = 10_000_000;

/// The remaining cost of the programs evaluated with this budget, in Kubernetes' cost units.
///
/// A call is aborted when it exceeds the limit of one call. The costs of all calls are summed; when
/// the sum exceeds the budget, [`Budget::is_exhausted`] returns true, and the caller must not
/// evaluate further programs.
#[derive(Clone, Debug)]
pub struct Budget {
    per_call: u64,
    remaining: u64,
    spent: u64,
    exhausted: bool,
}

impl Budget {
    /// Creates a budget for all calls, with Kubernetes' limit per call.
    pub fn new(total: u64) -> Self {
        Self::with_call_limit(total, PER_CALL_LIMIT)
    }

    /// Creates a budget with another limit per call.
    pub fn with_call_limit(total: u64, per_call: u64) -> Self {
        Self { per_call, remaining: total, spent: 0, exhausted: false }
    }

    /// Returns the remaining cost.
    pub fn remaining(&self) -> u64 {
        self.remaining
    }

    /// Returns the cost of all calls so far.
    pub fn spent(&self) -> u64 {
        self.spent
    }

    /// Returns true if the calls have cost more than the budget.
    pub fn is_exhausted(&self) -> bool {
        self.exhausted
    }

    pub(crate) fn call_limit(&self) -> u64 {
        self.per_call
    }

    pub(crate) fn pay(&mut self, cost: u64) {
        self.exhausted |= cost > self.remaining;
        self.remaining = self.remaining.saturating_sub(cost);
        self.spent = self.spent.saturating_add(cost);
    }
}
