//! Counters of a run.

use std::fmt;

use crate::model::{Operation, Outcome};

#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) rounds: u64,
    acknowledged: u64,
    rejected: u64,
    unknown: u64,
    pub(crate) resumed: u64,
    pub(crate) relisted: u64,
    pub(crate) etcd_kills: u64,
    pub(crate) killed_starts: u64,
}

impl Tally {
    pub(crate) fn count(&mut self, operations: &[Operation]) {
        for operation in operations {
            match operation.outcome {
                Outcome::Acknowledged(_) => self.acknowledged += 1,
                Outcome::Rejected { .. } => self.rejected += 1,
                Outcome::Unknown => self.unknown += 1,
            }
        }
    }

    /// Secondary counters.
    pub(crate) fn details(&self) -> String {
        let Self { rejected, relisted, etcd_kills, killed_starts, .. } = self;
        format!(
            "{rejected} requests rejected as they should be, {killed_starts} starts killed, {etcd_kills} kills of etcd, \
             {relisted} watches answered 410 Gone and relisted"
        )
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rounds, acknowledged, unknown, resumed, .. } = self;
        write!(
            f,
            "{rounds} rounds, {acknowledged} writes acknowledged, {unknown} unknown, {resumed} watches resumed"
        )
    }
}
