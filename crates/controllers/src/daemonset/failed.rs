//! Backoff for the replacement of failed pods.
//!
//! A kubelet that rejects a pod rejects the next one, too; without backoff controller and kubelet would loop forever.
//! The delays are those of kube-controller-manager (`failedPodsBackoff` in
//! `cmd/kube-controller-manager/app/apps.go`).

use std::collections::HashMap;
use std::time::Duration;

use coracle_base::Timestamp;

/// First and longest delay after a replacement.
const FIRST_DELAY: Duration = Duration::from_secs(1);
const MAX_DELAY: Duration = Duration::from_mins(15);

/// Maximum number of entries. Beyond that all are dropped: pods may then be replaced too early, which is better than
/// growing without bound.
const MAX_ENTRIES: usize = 100_000;

/// Key of an entry: set, generation and node. A new generation may work, so it starts without backoff.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct FailedOn {
    pub(super) set: Box<str>,
    pub(super) generation: i64,
    pub(super) node: Box<str>,
}

/// Times and delays of the last replacements.
#[derive(Debug, Default)]
pub(super) struct FailedPods {
    replaced: HashMap<FailedOn, (Timestamp, Duration)>,
}

impl FailedPods {
    /// Returns `Ok` and records the replacement if a failed pod may be replaced now, otherwise the remaining delay.
    pub(super) fn replace(&mut self, on: FailedOn, now: Timestamp) -> Result<(), Duration> {
        let known = self.replaced.get(&on).filter(|(last, _)| !has_expired(*last, now));
        let pause = match known {
            Some((last, pause)) if now < *last + *pause => return Err((*last + *pause).since(now)),
            Some((_, pause)) => (*pause * 2).min(MAX_DELAY),
            None => FIRST_DELAY,
        };
        if self.replaced.len() >= MAX_ENTRIES {
            self.remove_expired(now);
        }
        self.replaced.insert(on, (now, pause));
        Ok(())
    }

    fn remove_expired(&mut self, now: Timestamp) {
        self.replaced.retain(|_, (last, _)| !has_expired(*last, now));
        if self.replaced.len() >= MAX_ENTRIES {
            self.replaced.clear();
        }
    }
}

/// True if the last replacement is too long ago to matter.
fn has_expired(last: Timestamp, now: Timestamp) -> bool {
    now.since(last) > MAX_DELAY * 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_doubles_and_expires() {
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
        assert_eq!(replace(1, 3000 + long + 1000), Ok(()), "the backoff has expired");
    }
}
