//! What evaluation may cost.

/// The cost that one call may have; upstream's `PerCallLimit`. About a tenth of a second.
pub const PER_CALL_LIMIT: u64 = 1_000_000;

/// The cost that all expressions of one object or policy may have together; upstream's
/// `RuntimeCELCostBudget`. About a second.
pub const RUNTIME_COST_BUDGET: u64 = 10_000_000;

/// What the programs evaluated with it may still cost, in upstream's units.
///
/// A call stops when it has cost more than one call may. The costs of all calls are summed up; when they are
/// more than the budget, [`Budget::is_exhausted`] says so, and whoever evaluates several programs stops.
#[derive(Clone, Debug)]
pub struct Budget {
    per_call: u64,
    remaining: u64,
    spent: u64,
    exhausted: bool,
}

impl Budget {
    /// With upstream's limit of one call, and a budget for all of them.
    pub fn new(total: u64) -> Self {
        Self::with_call_limit(total, PER_CALL_LIMIT)
    }

    /// With another limit of one call.
    pub fn with_call_limit(total: u64, per_call: u64) -> Self {
        Self { per_call, remaining: total, spent: 0, exhausted: false }
    }

    /// What is left for all further calls.
    pub fn remaining(&self) -> u64 {
        self.remaining
    }

    /// What all calls so far have cost.
    pub fn spent(&self) -> u64 {
        self.spent
    }

    /// Whether the calls have cost more than there was.
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
