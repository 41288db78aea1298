//! How often a watcher on the network is written to.

use std::pin::Pin;
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// The time between two writes, at least. To write is most of what a burst costs, for both ends: so what comes within
/// this time after a write goes out with the next. What comes after a while of silence goes out at once.
const PAUSE: Duration = Duration::from_millis(1);

/// When a watcher was written to last.
#[derive(Default)]
pub(super) struct Pace {
    written: Option<Instant>,
    /// Made for the first burst and kept, for making one costs more than telling an event.
    timer: Option<Pin<Box<Sleep>>>,
}

impl Pace {
    /// Returns when it is time to write again. Safe to drop: it only waits.
    pub(super) async fn due(&mut self) {
        let now = Instant::now();
        let Some(due) = self.written.map(|written| written + PAUSE).filter(|due| *due > now) else { return };
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(due)));
        timer.as_mut().reset(due);
        timer.await;
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
        for number in 1..=3 {
            pace.due().await;
            assert_eq!(began.elapsed(), PAUSE * number, "one after the other");
            pace.note_written();
        }
        tokio::time::sleep(PAUSE).await;
        let quiet = Instant::now();
        pace.due().await;
        assert_eq!(quiet.elapsed(), Duration::ZERO, "after a while");
    }
}
