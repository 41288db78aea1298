//! Determines the progress of a watch when its reader requests it.
//!
//! The reader is guaranteed a revision at least as high as the store's latest at the time of the request, after every
//! event up to it. So the latest revision is read first, then the watch's member is sent progress requests until its
//! revision is as high.
//!
//! Members before etcd 3.4.31 and 3.5.13 may send a progress response before pending events, or before events of a
//! watch that is still catching up. With these versions, a response is used only after the stream has been silent for
//! several of their synchronization rounds and has then sent another response. One case cannot be detected by a
//! client: a member that takes longer than this for one round and sends nothing meanwhile. An event after the
//! response proves it at once, because events are ordered.

use std::sync::Arc;
use std::time::Duration;

use coracle_base::{Backoff, Rng};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::cluster::Cluster;
use crate::engine::BoxFuture;
use crate::error::Error;
use crate::revision::Revision;

/// Time to wait for a response before requesting again. Newer members do not respond while the watch is catching up.
const FIRST_PATIENCE: Duration = Duration::from_millis(100);
const LONGEST_PATIENCE: Duration = Duration::from_secs(2);

/// Three rounds of etcd's synchronization of watches.
const SETTLING_TIME: Duration = Duration::from_millis(300);

/// Pause after the latest revision could not be read; the attempt had its own retries.
const READ_PAUSE: Duration = Duration::from_secs(1);

/// Number of progress requests that an idle watch sends within the retention time of history. Otherwise, a watch
/// without events for long would resume from an old revision after a lost connection and fail because it has been
/// compacted.
const REFRESHES_PER_AGE: u32 = 4;

/// Interval of these requests if this engine does not compact history, because other programs may.
const DEFAULT_REFRESH: Duration = Duration::from_secs(60);

/// State of a progress request.
pub(super) struct Progress {
    requests: watch::Receiver<u64>,
    stage: Stage,
    /// True if the reader requested progress, false if the watch did for itself.
    reader_asked: bool,
    /// Requests sent on this stream without a response yet.
    unanswered: u32,
    patience: Backoff,
    refresh_every: Duration,
    refresh_at: Instant,
}

enum Stage {
    Idle,
    /// Reading the revision that must be reached.
    Measuring(BoxFuture<'static, Measured>),
    /// Waiting for the member to reach it.
    Asking {
        wanted: Measured,
        ask_at: Instant,
    },
    /// Waiting for events that an old member's response has overtaken.
    Settling {
        answer: i64,
        until: Instant,
    },
    /// Verifying that the silence was not caused by the network.
    Confirming {
        answer: i64,
        ask_at: Instant,
    },
}

/// The next action that [`Progress::wake`] returns.
pub(super) enum Wake {
    /// Send a progress request to the member, then call [`Progress::asked`].
    Ask,
    /// The watch has delivered everything up to this revision already: nothing has changed since its last event, or
    /// it begins in the future.
    Proved(i64),
}

#[derive(Clone, Copy)]
struct Measured {
    revision: i64,
    /// True if the member orders its responses with its events.
    ordered: bool,
}

impl Progress {
    pub(super) fn new(requests: watch::Receiver<u64>, history_age: Duration) -> Self {
        let refresh_every = match history_age / REFRESHES_PER_AGE {
            Duration::ZERO => DEFAULT_REFRESH,
            every => every,
        };
        Self {
            requests,
            stage: Stage::Idle,
            reader_asked: false,
            unanswered: 0,
            patience: Backoff::new(FIRST_PATIENCE, LONGEST_PATIENCE, Rng::from_entropy()),
            refresh_every,
            refresh_at: Instant::now() + refresh_every,
        }
    }

    /// Waits for the next action of a watch that has delivered everything before revision `next`. Safe to drop: the
    /// state is in `self`.
    pub(super) async fn wake(&mut self, cluster: &Arc<Cluster>, member: usize, next: i64) -> Wake {
        loop {
            match &mut self.stage {
                Stage::Idle => {
                    self.reader_asked = asked(&mut self.requests, self.refresh_at).await;
                    self.stage = Stage::Measuring(Box::pin(measure(cluster.clone(), member)));
                }
                Stage::Measuring(measuring) => {
                    let wanted = measuring.await;
                    self.stage = Stage::Asking { wanted, ask_at: Instant::now() };
                    if wanted.revision < next {
                        return Wake::Proved(wanted.revision);
                    }
                }
                Stage::Settling { answer, until } => {
                    let answer = *answer;
                    sleep_until(*until).await;
                    self.stage = Stage::Confirming { answer, ask_at: Instant::now() };
                }
                Stage::Asking { ask_at, .. } | Stage::Confirming { ask_at, .. } => {
                    sleep_until(*ask_at).await;
                    return Wake::Ask;
                }
            }
        }
    }

    /// Must be called after [`Wake::Ask`], with true if the request was sent.
    pub(super) fn asked(&mut self, sent: bool) {
        self.unanswered += u32::from(sent);
        let next = Instant::now() + self.patience.next_delay();
        if let Stage::Asking { ask_at, .. } | Stage::Confirming { ask_at, .. } = &mut self.stage {
            *ask_at = next;
        }
    }

    /// Handles the member's response. Returns the revision that it proves to be delivered, if it does.
    pub(super) fn answered(&mut self, revision: i64) -> Option<i64> {
        self.unanswered = self.unanswered.saturating_sub(1);
        match self.stage {
            Stage::Asking { wanted, .. } if revision >= wanted.revision => {
                if wanted.ordered {
                    return Some(revision);
                }
                if self.unanswered == 0 {
                    self.settle(revision);
                }
                None
            }
            // The response to an earlier request does not confirm the silence.
            Stage::Confirming { answer, .. } if self.unanswered == 0 => Some(answer),
            _ => None,
        }
    }

    /// Handles events up to `last`. Returns `last` if that is the revision to be reached.
    pub(super) fn saw_events(&mut self, last: i64) -> Option<i64> {
        // Events advance a watch like a request of its own.
        self.refresh_at = Instant::now() + self.refresh_every;
        match self.stage {
            Stage::Asking { wanted, .. } if last >= wanted.revision => Some(last),
            Stage::Settling { answer, .. } | Stage::Confirming { answer, .. } => {
                if last >= answer {
                    return Some(last);
                }
                self.settle(answer);
                None
            }
            _ => None,
        }
    }

    /// The required revision is proven. Returns true if the reader must be notified.
    pub(super) fn finish(&mut self) -> bool {
        self.stage = Stage::Idle;
        self.patience.reset();
        self.refresh_at = Instant::now() + self.refresh_every;
        std::mem::take(&mut self.reader_asked)
    }

    /// Handles the replacement of the stream: requests on the old one are repeated.
    pub(super) fn restart(&mut self, cluster: &Arc<Cluster>, member: usize) {
        self.unanswered = 0;
        if !matches!(self.stage, Stage::Idle) {
            self.stage = Stage::Measuring(Box::pin(measure(cluster.clone(), member)));
        }
    }

    fn settle(&mut self, answer: i64) {
        self.stage = Stage::Settling { answer, until: Instant::now() + SETTLING_TIME };
    }
}

/// Waits for a request of the reader (true) or the time of the watch's own request (false).
async fn asked(requests: &mut watch::Receiver<u64>, refresh_at: Instant) -> bool {
    // Both are safe to drop: a request stays marked as new, the time is absolute.
    tokio::select! {
        changed = requests.changed() => match changed {
            Ok(()) => true,
            // All handles have been dropped, so there will be no request.
            Err(_) => { sleep_until(refresh_at).await; false }
        },
        () = sleep_until(refresh_at) => false,
    }
}

/// The latest revision, and whether the member orders its responses.
async fn measure(cluster: Arc<Cluster>, member: usize) -> Measured {
    let status = cluster.client.status(member).await;
    // A member whose version is unknown is treated as an old one.
    let ordered = status.is_ok_and(|status| answers_in_order(&status.version));
    loop {
        match cluster.revision().await {
            Ok(revision) => return Measured { revision: wire(revision), ordered },
            // The watch is about to end.
            Err(Error::Closed) => std::future::pending().await,
            Err(error) => tracing::debug!(%error, "cannot read the latest revision for a watch"),
        }
        tokio::time::sleep(READ_PAUSE).await;
    }
}

fn wire(revision: Revision) -> i64 {
    i64::try_from(revision.get()).unwrap_or(i64::MAX)
}

/// Returns true if an etcd of this version sends a progress response after the events before it. Kubernetes relies on
/// it from the same versions on.
fn answers_in_order(version: &str) -> bool {
    let mut numbers = version.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    let mut next = || numbers.next().unwrap_or(0);
    match (next(), next(), next()) {
        (3, 4, patch) => patch >= 31,
        (3, 5, patch) => patch >= 13,
        (major, minor, _) => (major, minor) > (3, 5),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asking(revision: i64, ordered: bool) -> Progress {
        let (_, requests) = watch::channel(0);
        let mut progress = Progress::new(requests, Duration::from_secs(300));
        let wanted = Measured { revision, ordered };
        progress.stage = Stage::Asking { wanted, ask_at: Instant::now() };
        progress.asked(true);
        progress
    }

    #[test]
    fn versions_are_told_apart() {
        for (version, expected) in [
            ("3.4.23", false),
            ("3.4.31", true),
            ("3.5.12", false),
            ("3.5.13", true),
            ("3.6.0-rc.1", true),
            ("4.0.0", true),
            ("3.3.27", false),
            ("", false),
            ("unknown", false),
        ] {
            assert_eq!(answers_in_order(version), expected, "{version}");
        }
    }

    #[test]
    fn a_newer_member_is_believed_once_it_has_come_far_enough() {
        let mut progress = asking(10, true);
        assert_eq!(progress.answered(9), None);
        assert_eq!(progress.answered(12), Some(12));
    }

    #[test]
    fn an_older_member_is_believed_only_after_silence_and_a_second_answer() {
        let mut progress = asking(10, false);
        assert_eq!(progress.answered(12), None);
        assert!(matches!(progress.stage, Stage::Settling { answer: 12, .. }));
        assert_eq!(progress.saw_events(11), None, "an event that was overtaken");
        progress.stage = Stage::Confirming { answer: 12, ask_at: Instant::now() };
        progress.asked(true);
        assert_eq!(progress.answered(15), Some(12));
    }

    #[test]
    fn a_late_answer_to_an_earlier_question_confirms_nothing() {
        let mut progress = asking(10, false);
        progress.asked(true);
        assert_eq!(progress.answered(12), None);
        assert!(matches!(progress.stage, Stage::Asking { .. }), "one answer is still to come");
        assert_eq!(progress.answered(13), None);
        assert!(matches!(progress.stage, Stage::Settling { answer: 13, .. }));
    }

    #[test]
    fn an_event_that_is_new_enough_is_proof_by_itself() {
        assert_eq!(asking(10, false).saw_events(10), Some(10));
        assert_eq!(asking(10, false).saw_events(9), None);
    }
}
