//! The clock: the only module that reads the system's time.
//!
//! Code that needs time takes a [`Clock`]. Programs pass [`Clock::system`]; tests pass the clock of
//! a [`ManualClock`] and advance it explicitly, so no test ever sleeps.

use std::fmt;
use std::ops::{Add, Sub};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::watch;

/// A point in wall time, in milliseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// Creates a timestamp `ms` milliseconds after the Unix epoch.
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms)
    }

    /// Returns the milliseconds since the Unix epoch.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// Returns the time elapsed since `earlier`, or zero if `earlier` is later than `self`.
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Timestamp {
    type Output = Timestamp;

    fn add(self, duration: Duration) -> Timestamp {
        Timestamp(self.0.saturating_add(millis(duration)))
    }
}

impl Sub<Duration> for Timestamp {
    type Output = Timestamp;

    fn sub(self, duration: Duration) -> Timestamp {
        Timestamp(self.0.saturating_sub(millis(duration)))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ms", self.0)
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// A source of time, cheap to clone and to pass on.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    System,
    Manual(watch::Receiver<Timestamp>),
    Runtime(RuntimeClock),
}

impl Clock {
    /// Returns the clock of the operating system.
    pub const fn system() -> Self {
        Self(Source::System)
    }

    /// Returns the current wall-clock time.
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Source::System => system_now(),
            Source::Manual(time) => *time.borrow(),
            Source::Runtime(clock) => clock.now(),
        }
    }

    /// Returns a monotonic time, measured from an arbitrary moment, that setting the clock does not
    /// change.
    ///
    /// Use it to measure durations: a difference of two [`Clock::now`] values is wrong when the
    /// clock is set or the machine sleeps in between.
    pub fn uptime(&self) -> Duration {
        match &self.0 {
            Source::System => system_uptime(),
            Source::Manual(time) => time.borrow().since(Timestamp::default()),
            Source::Runtime(clock) => clock.origin.elapsed(),
        }
    }

    /// Returns once `deadline` is reached. Cancel-safe.
    pub async fn sleep_until(&self, deadline: Timestamp) {
        match &self.0 {
            // Read the clock again after each sleep: the wall clock may have been set back
            // meanwhile.
            Source::System | Source::Runtime(_) => loop {
                let wait = deadline.since(self.now());
                if wait.is_zero() {
                    return;
                }
                tokio::time::sleep(wait).await;
            },
            Source::Manual(time) => {
                let mut time = time.clone();
                if time.wait_for(|now| *now >= deadline).await.is_err() {
                    // The `ManualClock` was dropped, so its time never advances again.
                    std::future::pending::<()>().await;
                }
            }
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the one place that reads the system clock")]
fn system_now() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(millis(since_epoch))
}

#[expect(clippy::disallowed_methods, reason = "the one place that reads the system clock")]
fn system_uptime() -> Duration {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    ORIGIN.get_or_init(Instant::now).elapsed()
}

/// A clock for tests that advances only by [`ManualClock::advance`].
#[derive(Clone, Debug)]
pub struct ManualClock {
    time: Arc<watch::Sender<Timestamp>>,
}

impl ManualClock {
    /// Creates a clock that reads `start`.
    pub fn starting_at(start: Timestamp) -> Self {
        Self { time: Arc::new(watch::Sender::new(start)) }
    }

    /// Returns the [`Clock`] to pass to the code under test.
    pub fn clock(&self) -> Clock {
        Clock(Source::Manual(self.time.subscribe()))
    }

    /// Advances the time and wakes every sleeper whose deadline has passed.
    pub fn advance(&self, duration: Duration) {
        self.time.send_modify(|now| *now = *now + duration);
    }
}

/// A clock that follows the timers of the tokio runtime. In a test with paused time it advances
/// only while all tasks are idle. Like a wall clock, it can be set.
#[derive(Clone, Debug)]
pub struct RuntimeClock {
    start: Timestamp,
    origin: tokio::time::Instant,
    offset_ms: Arc<AtomicI64>,
}

impl RuntimeClock {
    /// Creates a clock that reads `start` now.
    pub fn starting_at(start: Timestamp) -> Self {
        Self { start, origin: tokio::time::Instant::now(), offset_ms: Arc::default() }
    }

    /// Returns the [`Clock`] to pass to the code under test.
    pub fn clock(&self) -> Clock {
        Clock(Source::Runtime(self.clone()))
    }

    /// Moves the wall-clock time by `millis`, back if negative; timers and [`Clock::uptime`] are
    /// unaffected.
    pub fn jump(&self, millis: i64) {
        self.offset_ms.fetch_add(millis, Ordering::Relaxed);
    }

    fn now(&self) -> Timestamp {
        let now = self.start + self.origin.elapsed();
        Timestamp(now.0.saturating_add_signed(self.offset_ms.load(Ordering::Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn manual_clock_wakes_sleepers_at_their_deadline() {
        let manual = ManualClock::starting_at(Timestamp::from_millis(1_000));
        let clock = manual.clock();
        let sleeper = clock.sleep_until(Timestamp::from_millis(1_500));
        tokio::pin!(sleeper);

        manual.advance(Duration::from_millis(499));
        assert!(poll_once(&mut sleeper).await.is_none());
        manual.advance(Duration::from_millis(1));
        sleeper.await;
        assert_eq!(clock.now(), Timestamp::from_millis(1_500));
    }

    #[tokio::test(start_paused = true)]
    async fn runtime_clock_follows_timers_and_can_be_set() {
        let runtime = RuntimeClock::starting_at(Timestamp::from_millis(1_000));
        let clock = runtime.clock();
        clock.sleep_until(Timestamp::from_millis(61_000)).await;
        assert_eq!(clock.now(), Timestamp::from_millis(61_000));
        runtime.jump(-500);
        assert_eq!(clock.now(), Timestamp::from_millis(60_500));
        assert_eq!(
            clock.uptime(),
            Duration::from_secs(60),
            "setting the wall clock does not change the uptime"
        );
    }

    async fn poll_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
        tokio::select! { biased; value = future => Some(value), () = std::future::ready(()) => None }
    }

    #[test]
    fn timestamp_arithmetic_saturates() {
        let early = Timestamp::from_millis(5);
        assert_eq!(early - Duration::from_secs(1), Timestamp::from_millis(0));
        assert_eq!(early.since(early + Duration::from_secs(1)), Duration::ZERO);
    }
}
