//! Ranges of sizes and costs. They saturate where they would overflow.

/// How large a value is, at least and at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeEstimate {
    /// At least.
    pub min: u64,
    /// At most.
    pub max: u64,
}

/// What an expression costs, at least and at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CostEstimate {
    /// At least.
    pub min: u64,
    /// At most.
    pub max: u64,
}

impl SizeEstimate {
    pub(super) const UNKNOWN: Self = Self { min: 0, max: u64::MAX };

    pub(super) fn fixed(size: u64) -> Self {
        Self { min: size, max: size }
    }

    pub(super) fn add(self, other: Self) -> Self {
        Self { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    pub(super) fn multiply(self, other: Self) -> Self {
        Self { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    pub(super) fn union(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }

    /// So much for each.
    pub(super) fn cost(self, factor: f64) -> CostEstimate {
        CostEstimate { min: scaled(self.min, factor), max: scaled(self.max, factor) }
    }

    /// Such a cost for each.
    pub(super) fn times(self, cost: CostEstimate) -> CostEstimate {
        CostEstimate { min: self.min.saturating_mul(cost.min), max: self.max.saturating_mul(cost.max) }
    }
}

impl CostEstimate {
    pub(super) fn fixed(cost: u64) -> Self {
        Self { min: cost, max: cost }
    }

    pub(super) fn add(self, other: Self) -> Self {
        Self { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    pub(super) fn multiply(self, other: Self) -> Self {
        Self { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    pub(super) fn union(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }

    pub(super) fn scale(self, factor: f64) -> Self {
        Self { min: scaled(self.min, factor), max: scaled(self.max, factor) }
    }
}

#[expect(clippy::cast_precision_loss, reason = "estimates are rounded up anyway")]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates, which is meant")]
pub(super) fn scaled(size: u64, factor: f64) -> u64 {
    (size as f64 * factor).ceil() as u64
}
