//! How seats are divided: among clusters, then among the priority levels of a cluster, and how levels lend them.
//!
//! Nominal, lendable and borrowed seats are those of kube-apiserver (`pkg/util/flowcontrol/apf_controller.go` of
//! k8s.io/apiserver), computed for the part of one cluster instead of the whole server. Lending differs:
//! kube-apiserver moves seats between levels every ten seconds by past demand. Here a level borrows
//! seats that other levels leave unused at that moment, and a level always gets its nominal seats, lent or not.
//! Until the borrowing requests end the cluster then executes more than its limit; it starts no other borrowing
//! request meanwhile.

/// The part of a PriorityLevelConfiguration that says how many seats it has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Shares {
    pub(super) nominal: u64,
    pub(super) lendable_percent: u64,
    /// None if the level may borrow all that is lent.
    pub(super) borrowing_limit_percent: Option<u64>,
}

/// The seats of one level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SeatLimits {
    /// Seats that the level gets whenever it has requests.
    pub(super) nominal: usize,
    /// Of these, those that other levels may use meanwhile.
    pub(super) lendable: usize,
    /// Seats beyond the nominal ones that the level may borrow.
    pub(super) borrowing: usize,
}

/// The limits and the load of one level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Load {
    pub(super) limits: SeatLimits,
    /// Seats in use.
    pub(super) seats: usize,
}

/// The part of `total` that each of `clusters` active clusters gets. Rounded up, so that it is never zero.
pub(super) fn cluster_limit(total: usize, clusters: usize) -> usize {
    total.div_ceil(clusters.max(1))
}

impl SeatLimits {
    /// A level that no longer exists: its waiting requests are executed one after the other.
    pub(super) const DRAINING: Self = Self { nominal: 1, lendable: 0, borrowing: 0 };

    /// The seats of a level in a cluster that has `cluster_limit`. Nominal seats are rounded up, as in
    /// kube-apiserver, so that every level with shares has one.
    pub(super) fn new(cluster_limit: usize, shares: Shares, share_sum: u64) -> Self {
        let limit = cluster_limit as u128;
        let nominal = match share_sum {
            0 => 0,
            sum => (limit * u128::from(shares.nominal)).div_ceil(u128::from(sum)),
        };
        let percent = |percent: u64| (nominal * u128::from(percent) + 50) / 100;
        let borrowing = shares.borrowing_limit_percent.map_or(limit, percent);
        let seats = |seats: u128| usize::try_from(seats).unwrap_or(usize::MAX);
        Self {
            nominal: seats(nominal),
            lendable: seats(percent(shares.lendable_percent)),
            borrowing: seats(borrowing),
        }
    }

    /// Seats that are never lent.
    pub(super) fn lower(self) -> usize {
        self.nominal - self.lendable.min(self.nominal)
    }

    /// Seats that the level may use at most.
    pub(super) fn upper(self) -> usize {
        self.nominal.saturating_add(self.borrowing)
    }
}

impl Load {
    /// Lendable seats that the level does not use.
    fn lends(self) -> usize {
        self.limits.lendable.min(self.limits.nominal.saturating_sub(self.seats))
    }

    /// Seats beyond the nominal ones that the level uses.
    pub(super) fn borrows(self) -> usize {
        self.seats.saturating_sub(self.limits.nominal)
    }
}

/// Seats that the levels of a cluster lend and borrow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lending {
    lent: usize,
    borrowed: usize,
}

impl FromIterator<Load> for Lending {
    fn from_iter<I: IntoIterator<Item = Load>>(levels: I) -> Self {
        levels.into_iter().fold(Self::default(), |sum, level| Self {
            lent: sum.lent + level.lends(),
            borrowed: sum.borrowed + level.borrows(),
        })
    }
}

impl Lending {
    /// Seats that a level, one of those summed up, may use now: its own, and those that other levels leave unused and
    /// have not been borrowed.
    pub(super) fn current_limit(self, level: Load) -> usize {
        let lent = self.lent - level.lends().min(self.lent);
        let borrowed = self.borrowed - level.borrows().min(self.borrowed);
        level.limits.nominal + level.limits.borrowing.min(lent.saturating_sub(borrowed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(nominal: usize, lendable: usize, borrowing: usize) -> SeatLimits {
        SeatLimits { nominal, lendable, borrowing }
    }

    fn load(limits: SeatLimits, seats: usize) -> Load {
        Load { limits, seats }
    }

    fn current_limit(level: SeatLimits, others: &[Load]) -> usize {
        let level = load(level, level.nominal);
        others.iter().copied().chain([level]).collect::<Lending>().current_limit(level)
    }

    #[test]
    fn active_clusters_share_the_seats() {
        assert_eq!(
            [0, 1, 2, 7, 600, 10_000].map(|clusters| cluster_limit(600, clusters)),
            [600, 600, 300, 86, 1, 1]
        );
    }

    #[test]
    fn nominal_seats_of_the_default_levels_are_those_of_kubernetes() {
        // catch-all, global-default, leader-election, node-high, system, workload-high, workload-low.
        let shares = [(5, 0), (20, 50), (10, 0), (40, 25), (30, 33), (40, 50), (100, 90)];
        let seats = shares.map(|(nominal, lendable_percent)| {
            let limits = SeatLimits::new(
                600,
                Shares { nominal, lendable_percent, borrowing_limit_percent: None },
                245,
            );
            (limits.nominal, limits.lower(), limits.upper())
        });
        let expected = [
            (13, 13, 613),
            (49, 24, 649),
            (25, 25, 625),
            (98, 73, 698),
            (74, 50, 674),
            (98, 49, 698),
            (245, 24, 845),
        ];
        assert_eq!(seats, expected);
    }

    #[test]
    fn borrowing_limit_is_a_percentage_of_the_nominal_seats() {
        let shares = Shares { nominal: 1, lendable_percent: 0, borrowing_limit_percent: Some(50) };
        assert_eq!(SeatLimits::new(10, shares, 2), limits(5, 0, 3));
        let none = Shares { borrowing_limit_percent: Some(0), ..shares };
        assert_eq!(SeatLimits::new(10, none, 2).upper(), 5);
        assert_eq!(SeatLimits::new(10, Shares::default(), 2), limits(0, 0, 10));
        assert_eq!(SeatLimits::new(10, Shares::default(), 0), limits(0, 0, 10));
    }

    #[test]
    fn level_borrows_what_others_leave_unused() {
        let borrower = limits(4, 0, 10);
        let lender = limits(10, 6, 0);
        for (executing, expected) in [(0, 10), (3, 10), (4, 10), (5, 9), (9, 5), (10, 4), (12, 4)] {
            assert_eq!(current_limit(borrower, &[load(lender, executing)]), expected, "{executing}");
        }
        assert_eq!(current_limit(limits(4, 0, 2), &[load(lender, 0)]), 6);
        assert_eq!(current_limit(limits(4, 0, 0), &[load(lender, 0)]), 4);
    }

    #[test]
    fn seats_are_lent_once() {
        let (borrower, lender) = (limits(4, 0, 10), limits(10, 6, 0));
        let other = load(limits(3, 0, 10), 7);
        assert_eq!(current_limit(borrower, &[load(lender, 0), other]), 6);
        let other = load(limits(3, 0, 10), 20);
        assert_eq!(current_limit(borrower, &[load(lender, 0), other]), 4);
    }

    #[test]
    fn lender_has_its_nominal_seats_whatever_is_borrowed() {
        let borrower = load(limits(4, 0, 10), 10);
        assert_eq!(current_limit(limits(10, 6, 0), &[borrower]), 10);
    }
}
