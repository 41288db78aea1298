//! The only place that asks the system for the time.
//!
//! Code that needs time takes a [`Clock`]. Programs hand in [`Clock::system`]; tests hand in
//! the clock of a [`ManualClock`] and move it by hand, so nothing in a test ever sleeps.

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
    /// The point `ms` milliseconds after the Unix epoch.
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms)
    }

    /// Milliseconds since the Unix epoch.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// How much time has passed since `earlier`; zero if it lies in the future.
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
    /// The system's clock.
    pub const fn system() -> Self {
        Self(Source::System)
    }

    /// What time it is now.
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Source::System => system_now(),
            Source::Manual(time) => *time.borrow(),
            Source::Runtime(clock) => clock.now(),
        }
    }

    /// How long something has gone on that began while the program ran: the time since some moment, which nobody
    /// can set. What is measured with [`Clock::now`] instead is wrong when the clock is set, or the machine sleeps.
    pub fn uptime(&self) -> Duration {
        match &self.0 {
            Source::System => system_uptime(),
            Source::Manual(time) => time.borrow().since(Timestamp::default()),
            Source::Runtime(clock) => clock.origin.elapsed(),
        }
    }

    /// Returns once `deadline` is reached. Safe to drop at any point.
    pub async fn sleep_until(&self, deadline: Timestamp) {
        match &self.0 {
            // Asked again after each sleep: the wall clock may have been set back meanwhile.
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
                    // The clock's owner is gone, so time stands still for ever.
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

/// A clock that moves only when told to.
#[derive(Clone, Debug)]
pub struct ManualClock {
    time: Arc<watch::Sender<Timestamp>>,
}

impl ManualClock {
    /// A clock that stands at `start`.
    pub fn starting_at(start: Timestamp) -> Self {
        Self { time: Arc::new(watch::Sender::new(start)) }
    }

    /// The handle to pass to the code under test.
    pub fn clock(&self) -> Clock {
        Clock(Source::Manual(self.time.subscribe()))
    }

    /// Moves time forward and wakes everyone whose deadline has come.
    pub fn advance(&self, duration: Duration) {
        self.time.send_modify(|now| *now = *now + duration);
    }
}

/// A clock that goes as the timers of the async runtime go: where a test pauses those, time passes only while
/// everybody waits. It can be set, as wall clocks are.
#[derive(Clone, Debug)]
pub struct RuntimeClock {
    start: Timestamp,
    origin: tokio::time::Instant,
    jumped_ms: Arc<AtomicI64>,
}

impl RuntimeClock {
    /// A clock that stands at `start` now.
    pub fn starting_at(start: Timestamp) -> Self {
        Self { start, origin: tokio::time::Instant::now(), jumped_ms: Arc::default() }
    }

    /// The handle to pass to the code under test.
    pub fn clock(&self) -> Clock {
        Clock(Source::Runtime(self.clone()))
    }

    /// Sets the clock forward, or back if negative, while timers go on as they were.
    pub fn jump(&self, millis: i64) {
        self.jumped_ms.fetch_add(millis, Ordering::Relaxed);
    }

    fn now(&self) -> Timestamp {
        let now = self.start + self.origin.elapsed();
        Timestamp(now.0.saturating_add_signed(self.jumped_ms.load(Ordering::Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn manual_clock_wakes_sleepers_only_when_their_time_has_come() {
        let manual = ManualClock::starting_at(Timestamp::from_millis(1_000));
        let clock = manual.clock();
        let sleeper = clock.sleep_until(Timestamp::from_millis(1_500));
        tokio::pin!(sleeper);

        manual.advance(Duration::from_millis(499));
        assert!(futures_poll(&mut sleeper).await.is_none());
        manual.advance(Duration::from_millis(1));
        sleeper.await;
        assert_eq!(clock.now(), Timestamp::from_millis(1_500));
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_of_the_runtime_goes_with_its_timers_and_can_be_set() {
        let runtime = RuntimeClock::starting_at(Timestamp::from_millis(1_000));
        let clock = runtime.clock();
        clock.sleep_until(Timestamp::from_millis(61_000)).await;
        assert_eq!(clock.now(), Timestamp::from_millis(61_000));
        runtime.jump(-500);
        assert_eq!(clock.now(), Timestamp::from_millis(60_500));
        assert_eq!(clock.uptime(), Duration::from_secs(60), "that is no matter of the wall clock");
    }

    async fn futures_poll<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
        tokio::select! { biased; value = future => Some(value), () = std::future::ready(()) => None }
    }

    #[test]
    fn timestamps_never_wrap() {
        let early = Timestamp::from_millis(5);
        assert_eq!(early - Duration::from_secs(1), Timestamp::from_millis(0));
        assert_eq!(early.since(early + Duration::from_secs(1)), Duration::ZERO);
    }
}
