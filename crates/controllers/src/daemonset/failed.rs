//! How soon failed pods are replaced.
//!
//! A kubelet that refuses a pod refuses the next one too; without pauses the two would fight for ever. The
//! delays are upstream's (`failedPodsBackoff` in `cmd/kube-controller-manager/app/apps.go`).

use std::collections::HashMap;
use std::time::Duration;

use coracle_base::Timestamp;

/// The first pause after a pod was replaced, and the longest.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_mins(15);

/// How many nodes with failed pods are remembered. With more than that, none is: pods are then replaced too
/// soon, which is better than growing without end.
const MAX_REMEMBERED: usize = 100_000;

/// Which node of which set, in which of its generations: what changed may work now.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct FailedOn {
    pub(super) set: Box<str>,
    pub(super) generation: i64,
    pub(super) node: Box<str>,
}

/// What was replaced when.
#[derive(Debug, Default)]
pub(super) struct FailedPods {
    replaced: HashMap<FailedOn, (Timestamp, Duration)>,
}

impl FailedPods {
    /// Whether a failed pod may be replaced now, which is noted then; or for how long not yet.
    pub(super) fn replace(&mut self, on: FailedOn, now: Timestamp) -> Result<(), Duration> {
        let known = self.replaced.get(&on).filter(|(last, _)| !has_expired(*last, now));
        let pause = match known {
            Some((last, pause)) if now < *last + *pause => return Err((*last + *pause).since(now)),
            Some((_, pause)) => (*pause * 2).min(LONGEST),
            None => FIRST,
        };
        if self.replaced.len() >= MAX_REMEMBERED {
            self.forget_expired(now);
        }
        self.replaced.insert(on, (now, pause));
        Ok(())
    }

    fn forget_expired(&mut self, now: Timestamp) {
        self.replaced.retain(|_, (last, _)| !has_expired(*last, now));
        if self.replaced.len() >= MAX_REMEMBERED {
            self.replaced.clear();
        }
    }
}

/// Whether it was so long ago that it does not matter any more.
fn has_expired(last: Timestamp, now: Timestamp) -> bool {
    now.since(last) > LONGEST * 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_and_are_forgotten() {
        let mut failed = FailedPods::default();
        let mut replace = |generation, at: u64| {
            let on = FailedOn { set: "u".into(), generation, node: "n1".into() };
            failed.replace(on, Timestamp::from_millis(at)).map_err(|wait| wait.as_millis())
        };
        assert_eq!(replace(1, 0), Ok(()));
        assert_eq!(replace(1, 400), Err(600));
        assert_eq!(replace(2, 400), Ok(()), "another generation");
        assert_eq!(replace(1, 1000), Ok(()));
        assert_eq!(replace(1, 2000), Err(1000), "twice as long");
        assert_eq!(replace(1, 3000), Ok(()));
        let long = 31 * 60 * 1000;
        assert_eq!(replace(1, 3000 + long), Ok(()));
        assert_eq!(replace(1, 3000 + long + 1000), Ok(()), "from the beginning");
    }
}
