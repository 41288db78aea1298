//! Pacing of the writes to a watcher on the network.

use std::pin::Pin;
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// Shortest time between the first two writes of a burst. A write costs both ends more than the events in it, so events
/// within this time after a write are sent with the next write. An event after a pause is sent at once.
const MIN_PAUSE: Duration = Duration::from_millis(1);

/// Longest time between two writes of a burst. The pause doubles with each write up to this limit, so that a steady
/// stream of thousands of events a second takes a quarter of the writes. The latency of kube-apiserver is higher under
/// such a load.
const MAX_PAUSE: Duration = Duration::from_millis(4);

/// The time of the last write to a watcher, and the pause before the next one.
pub(super) struct Pace {
    written: Option<Instant>,
    /// Shortest time between the last write and the next one.
    pause: Duration,
    /// Created for the first burst and reused: a new timer costs more than sending an event.
    timer: Option<Pin<Box<Sleep>>>,
}

impl Default for Pace {
    fn default() -> Self {
        Self { written: None, pause: MIN_PAUSE, timer: None }
    }
}

impl Pace {
    /// Waits until the next write is due. Cancel safe.
    pub(super) async fn due(&mut self) {
        let now = Instant::now();
        let due = self.written.map(|written| written + self.pause);
        let Some(due) = due.filter(|due| *due > now) else {
            self.pause = MIN_PAUSE;
            return;
        };
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(due)));
        timer.as_mut().reset(due);
        timer.await;
        self.pause = MAX_PAUSE.min(self.pause * 2);
    }

    pub(super) fn note_written(&mut self) {
        self.written = Some(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn writes_within_a_burst_are_delayed() {
        let (mut pace, began) = (Pace::default(), Instant::now());
        pace.due().await;
        assert_eq!(began.elapsed(), Duration::ZERO, "the first write");
        pace.note_written();
        for milliseconds in [1, 1 + 2, 1 + 2 + 4, 1 + 2 + 4 + 4] {
            pace.due().await;
            assert_eq!(began.elapsed(), Duration::from_millis(milliseconds), "one after the other");
            pace.note_written();
        }
        tokio::time::sleep(MAX_PAUSE).await;
        let quiet = Instant::now();
        pace.due().await;
        assert_eq!(quiet.elapsed(), Duration::ZERO, "after a while");
        pace.note_written();
        pace.due().await;
        assert_eq!(quiet.elapsed(), MIN_PAUSE, "a new burst begins with the shortest pause");
    }
}
