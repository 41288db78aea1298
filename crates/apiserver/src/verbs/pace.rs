//! How often a watcher on the network is written to.

use std::pin::Pin;
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// The time between the first two writes of a burst, at least. A write costs more than the events in it, for both ends:
/// so events of this time after a write go out with the next. An event after a while of silence goes out at once.
const MIN_PAUSE: Duration = Duration::from_millis(1);

/// The time between two writes of a burst that lasts. The pause doubles up to this with each write, so that a steady
/// stream of thousands of events a second takes a quarter of the writes. kube-apiserver is later under such a load.
const MAX_PAUSE: Duration = Duration::from_millis(4);

/// When a watcher was written to last.
pub(super) struct Pace {
    written: Option<Instant>,
    /// Before the next write.
    pause: Duration,
    /// Made for the first burst and kept, for making one costs more than telling an event.
    timer: Option<Pin<Box<Sleep>>>,
}

impl Default for Pace {
    fn default() -> Self {
        Self { written: None, pause: MIN_PAUSE, timer: None }
    }
}

impl Pace {
    /// Returns when it is time to write again. Safe to drop: it only waits.
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
    async fn only_bursts_wait() {
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
