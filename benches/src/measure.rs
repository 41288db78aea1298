//! Stopwatch, percentiles, and lines of results.

use std::time::{Duration, Instant};

/// Starts a stopwatch.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
pub fn start() -> Instant {
    Instant::now()
}

/// Durations of one kind of operation.
#[derive(Debug, Default)]
pub struct Samples(Vec<Duration>);

impl Samples {
    /// Adds a sample.
    pub fn push(&mut self, sample: Duration) {
        self.0.push(sample);
    }

    /// Adds all samples of another set.
    pub fn extend(&mut self, other: Samples) {
        self.0.extend(other.0);
    }

    /// Returns true if there are no samples.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value below which `percent` of all samples lie.
    pub fn percentile(&mut self, percent: f64) -> Duration {
        assert!(!self.0.is_empty(), "something was measured");
        self.0.sort_unstable();
        let rank = (self.0.len() as f64 * percent / 100.0) as usize;
        self.0[rank.min(self.0.len() - 1)]
    }
}

/// Prints one result with its target, and whether the target was met.
#[expect(clippy::print_stdout, reason = "output of a benchmark")]
pub fn report(what: &str, figure: &str, aim: &str, met: bool) {
    let verdict = if met { "met" } else { "MISSED" };
    println!("{what:<46} {figure:<52} aim {aim:<28} {verdict}");
}

/// Formats a duration in whole microseconds.
pub fn micros(duration: Duration) -> String {
    format!("{:.0} µs", duration.as_secs_f64() * 1e6)
}

/// Ratio of a figure to its baseline.
pub fn ratio(figure: Duration, baseline: Duration) -> f64 {
    figure.as_secs_f64() / baseline.as_secs_f64()
}

/// Operations per second.
pub fn per_second(count: u64, elapsed: Duration) -> f64 {
    count as f64 / elapsed.as_secs_f64()
}

/// A runtime like the server's.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(future)
}

/// Resident memory of this process.
pub fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc is readable");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("resident size");
    let kib: u64 = line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("in KiB");
    kib << 10
}

/// CPU time of all threads of this process, with a finer resolution than ticks.
pub fn processor_time() -> Duration {
    let tasks = std::fs::read_dir("/proc/self/task").expect("/proc is readable");
    let spent = tasks.flatten().filter_map(|task| {
        // A thread may have ended meanwhile.
        let schedstat = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        schedstat.split_whitespace().next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(spent.sum())
}
