//! The metrics of one priority level over time: the seats that its requests use and ask for.
//!
//! kube-apiserver observes these ratios at the end of every nanosecond, so a sample counts as long as its value lasted
//! (`TimingHistogram` of k8s.io/component-base). Here each change adds the time since the change before.

use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use coracle_base::metrics::{Buckets, Text};
use tokio::time::Instant;

/// The buckets of kube-apiserver (`pkg/util/flowcontrol/metrics/metrics.go` of k8s.io/apiserver).
static SEAT_UTILIZATION: LazyLock<Buckets> =
    LazyLock::new(|| Buckets::new(&[0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0]));
static REQUEST_UTILIZATION: LazyLock<Buckets> =
    LazyLock::new(|| Buckets::new(&[0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.25, 0.5, 0.75, 1.0]));
static DEMAND: LazyLock<Buckets> =
    LazyLock::new(|| Buckets::new(&[0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.7, 2.0, 2.8, 4.0, 6.0]));
static READ_VS_WRITE: LazyLock<Buckets> = LazyLock::new(|| {
    Buckets::new(&[0.0, 0.001, 0.01, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0])
});

/// The period over which demand is averaged (`borrowingAdjustmentPeriod` of kube-apiserver).
const PERIOD: Duration = Duration::from_secs(10);

/// How much of the smoothed demand stays from one period to the next (`seatDemandSmoothingCoefficient`).
const SMOOTHING: f64 = 0.977;

/// Periods without a change that are computed one by one. After so many, three hours, nothing is left of what was
/// before.
const MAX_IDLE_PERIODS: u32 = 1080;

/// A histogram of a value by the time that it lasted.
struct TimedHistogram {
    buckets: Buckets,
    nanoseconds: Box<[u64]>,
    sum: f64,
    value: f64,
    since: Instant,
}

impl TimedHistogram {
    fn new(buckets: &Buckets, now: Instant) -> Self {
        let nanoseconds = vec![0; buckets.limits().len() + 1].into();
        Self { buckets: buckets.clone(), nanoseconds, sum: 0.0, value: 0.0, since: now }
    }

    /// Adds the time since the change before, and changes the value.
    fn set(&mut self, value: f64, now: Instant) {
        let lasted = now.saturating_duration_since(self.since);
        let nanoseconds = u64::try_from(lasted.as_nanos()).unwrap_or(u64::MAX);
        let index = self.buckets.limits().partition_point(|limit| *limit < self.value);
        self.nanoseconds[index] = self.nanoseconds[index].saturating_add(nanoseconds);
        self.sum += self.value * lasted.as_nanos() as f64;
        self.value = value;
        self.since = now;
    }

    fn add(&mut self, more: f64, now: Instant) {
        self.set(self.value + more, now);
    }

    fn write(&self, name: &str, labels: &[(&str, &str)], text: &mut Text) {
        let limits = self.buckets.limits().iter().map(ToString::to_string).chain(["+Inf".to_owned()]);
        let mut count = 0;
        for (limit, nanoseconds) in limits.zip(&self.nanoseconds) {
            count += nanoseconds;
            let labels: Vec<_> = labels.iter().copied().chain([("le", &*limit)]).collect();
            text.sample(&format!("{name}_bucket"), &labels, count);
        }
        text.sample(&format!("{name}_sum"), labels, self.sum);
        text.sample(&format!("{name}_count"), labels, count);
    }
}

/// Statistics of the demand in the last whole period.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct DemandStats {
    pub(super) average: f64,
    pub(super) deviation: f64,
    pub(super) high_watermark: f64,
    pub(super) smoothed: f64,
}

impl DemandStats {
    fn next(self, average: f64, deviation: f64, high_watermark: f64) -> Self {
        let envelope = average + deviation;
        let smoothed = envelope.max(SMOOTHING * self.smoothed + (1.0 - SMOOTHING) * envelope);
        Self { average, deviation, high_watermark, smoothed }
    }
}

/// Integrates the demand of a level.
struct Demand {
    value: f64,
    since: Instant,
    began: Instant,
    integral: f64,
    integral_of_squares: f64,
    max: f64,
    stats: DemandStats,
}

impl Demand {
    fn new(now: Instant) -> Self {
        let stats = DemandStats::default();
        Self { value: 0.0, since: now, began: now, integral: 0.0, integral_of_squares: 0.0, max: 0.0, stats }
    }

    fn set(&mut self, value: f64, now: Instant) {
        let mut periods = 0;
        while now.saturating_duration_since(self.began) >= PERIOD {
            self.advance(self.began + PERIOD);
            let length = PERIOD.as_secs_f64();
            let average = self.integral / length;
            let variance = (self.integral_of_squares / length - average * average).max(0.0);
            self.stats = self.stats.next(average, variance.sqrt(), self.max);
            periods += 1;
            self.began = if periods < MAX_IDLE_PERIODS { self.began + PERIOD } else { now };
            (self.integral, self.integral_of_squares, self.max, self.since) =
                (0.0, 0.0, self.value, self.began);
        }
        self.advance(now);
        self.value = value;
        self.max = self.max.max(value);
    }

    fn advance(&mut self, now: Instant) {
        let lasted = now.saturating_duration_since(self.since).as_secs_f64();
        self.integral += self.value * lasted;
        self.integral_of_squares += self.value * self.value * lasted;
        self.since = now;
    }
}

/// The metrics of one level of one cluster. They take memory from its first request on.
#[derive(Default)]
pub(super) struct LevelSeries(Mutex<Option<Box<Series>>>);

struct Series {
    seats: TimedHistogram,
    waiting: TimedHistogram,
    executing: TimedHistogram,
    demand_ratio: TimedHistogram,
    demand: Demand,
}

/// The load of a level.
#[derive(Clone, Copy, Debug)]
pub(super) struct LevelLoad {
    pub(super) seats_in_use: usize,
    pub(super) seats_waited_for: usize,
    pub(super) executing: usize,
    pub(super) waiting: usize,
    pub(super) nominal_seats: usize,
    /// Requests that may wait.
    pub(super) queue_room: u64,
}

impl LevelSeries {
    /// Notes the load from now on.
    pub(super) fn set(&self, load: &LevelLoad, now: Instant) {
        let nominal = load.nominal_seats.max(1) as f64;
        let demand = (load.seats_in_use + load.seats_waited_for) as f64;
        let mut series = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let series = series.get_or_insert_with(|| Box::new(Series::new(now)));
        series.seats.set(load.seats_in_use as f64 / nominal, now);
        series.executing.set(load.executing as f64 / nominal, now);
        series.waiting.set(load.waiting as f64 / load.queue_room.max(1) as f64, now);
        series.demand_ratio.set(demand / nominal, now);
        series.demand.set(demand, now);
    }

    /// The demand in the last whole period. None before the first request.
    pub(super) fn demand(&self, now: Instant) -> Option<DemandStats> {
        self.read(now, |series| series.demand.stats)
    }

    /// Writes the histogram of the seats in use.
    pub(super) fn write_seats(&self, name: &str, level: &str, now: Instant, text: &mut Text) {
        let labels = [("phase", "executing"), ("priority_level", level)];
        self.read(now, |series| series.seats.write(name, &labels, text));
    }

    /// Writes the histograms of the requests that wait and that execute.
    pub(super) fn write_requests(&self, name: &str, level: &str, now: Instant, text: &mut Text) {
        self.read(now, |series| {
            for (phase, histogram) in [("executing", &series.executing), ("waiting", &series.waiting)] {
                histogram.write(name, &[("phase", phase), ("priority_level", level)], text);
            }
        });
    }

    /// Writes the histogram of the demand.
    pub(super) fn write_demand(&self, name: &str, level: &str, now: Instant, text: &mut Text) {
        self.read(now, |series| series.demand_ratio.write(name, &[("priority_level", level)], text));
    }

    fn read<T>(&self, now: Instant, read: impl FnOnce(&Series) -> T) -> Option<T> {
        let mut series = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let series = series.as_deref_mut()?;
        series.advance(now);
        Some(read(series))
    }
}

impl Series {
    fn new(now: Instant) -> Self {
        let histogram = |buckets: &Buckets| TimedHistogram::new(buckets, now);
        Self {
            seats: histogram(&SEAT_UTILIZATION),
            waiting: histogram(&REQUEST_UTILIZATION),
            executing: histogram(&REQUEST_UTILIZATION),
            demand_ratio: histogram(&DEMAND),
            demand: Demand::new(now),
        }
    }

    fn advance(&mut self, now: Instant) {
        for histogram in [&mut self.seats, &mut self.waiting, &mut self.executing, &mut self.demand_ratio] {
            histogram.add(0.0, now);
        }
        let value = self.demand.value;
        self.demand.set(value, now);
    }
}

/// Requests of all clusters that wait for a seat or have one, by whether they change something.
#[derive(Default)]
pub(super) struct ReadVsWrite {
    histograms: Option<Box<[TimedHistogram; 4]>>,
    waiting: [usize; 2],
}

/// The phase of a request with respect to its seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Executing,
    Waiting,
}

const KINDS: [&str; 2] = ["mutating", "readOnly"];

impl ReadVsWrite {
    /// Notes that a request begins or ends a phase.
    ///
    /// `limit` is the number of requests to which the histogram of the phase relates.
    pub(super) fn change(&mut self, phase: Phase, is_write: bool, begins: bool, limit: usize, now: Instant) {
        let kind = usize::from(!is_write);
        let index = kind + if phase == Phase::Waiting { 2 } else { 0 };
        let histograms = self
            .histograms
            .get_or_insert_with(|| Box::new([(); 4].map(|()| TimedHistogram::new(&READ_VS_WRITE, now))));
        let part = 1.0 / limit.max(1) as f64;
        histograms[index].add(if begins { part } else { -part }, now);
        if phase == Phase::Waiting {
            let waiting = &mut self.waiting[kind];
            *waiting = if begins { *waiting + 1 } else { waiting.saturating_sub(1) };
        }
    }

    pub(super) fn write(&mut self, now: Instant, text: &mut Text) {
        let Some(histograms) = &mut self.histograms else { return };
        const NAME: &str = "apiserver_flowcontrol_read_vs_write_current_requests";
        let help = "Requests of limited priority levels that wait or execute by the time that their number lasted, as a fraction of \
                    the requests that may wait and of the seats";
        text.family(NAME, "histogram", help);
        for (index, histogram) in histograms.iter_mut().enumerate() {
            histogram.add(0.0, now);
            let phase = if index < 2 { "executing" } else { "waiting" };
            histogram.write(NAME, &[("phase", phase), ("request_kind", KINDS[index % 2])], text);
        }
        const WAITING: &str = "apiserver_current_inqueue_requests";
        text.family(WAITING, "gauge", "Requests that wait for a seat");
        for (kind, waiting) in KINDS.into_iter().zip(self.waiting) {
            text.sample(WAITING, &[("request_kind", kind)], waiting);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(seats_in_use: usize, waiting: usize) -> LevelLoad {
        LevelLoad {
            seats_in_use,
            seats_waited_for: waiting,
            executing: seats_in_use,
            waiting,
            nominal_seats: 4,
            queue_room: 10,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn value_counts_as_long_as_it_lasts() {
        let (series, mut text) = (LevelSeries::default(), Text::default());
        let mut now = Instant::now();
        series.write_seats("u", "l", now, &mut text);
        assert!(text.is_empty(), "no request yet");
        for (seats, waiting, milliseconds) in [(2, 0, 3), (4, 1, 5), (0, 0, 2)] {
            series.set(&load(seats, waiting), now);
            now += Duration::from_millis(milliseconds);
        }
        series.write_seats("u", "l", now, &mut text);
        let text = text.into_string();
        for line in [
            "u_bucket{phase=\"executing\",priority_level=\"l\",le=\"0\"} 2000000\n",
            "u_bucket{phase=\"executing\",priority_level=\"l\",le=\"0.5\"} 5000000\n",
            "u_bucket{phase=\"executing\",priority_level=\"l\",le=\"0.99\"} 5000000\n",
            "u_bucket{phase=\"executing\",priority_level=\"l\",le=\"1\"} 10000000\n",
            "u_sum{phase=\"executing\",priority_level=\"l\"} 6500000\n",
            "u_count{phase=\"executing\",priority_level=\"l\"} 10000000\n",
        ] {
            assert!(text.contains(line), "{line}{text}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn demand_is_that_of_the_last_whole_period() {
        let series = LevelSeries::default();
        let began = Instant::now();
        series.set(&load(4, 4), began);
        series.set(&load(2, 0), began + PERIOD / 2);
        assert_eq!(series.demand(began + PERIOD / 2), Some(DemandStats::default()));
        let first = series.demand(began + PERIOD).unwrap();
        let close = |a: f64, b: f64| (a - b).abs() < 1e-6;
        assert!(close(first.average, 5.0) && close(first.deviation, 3.0) && close(first.high_watermark, 8.0));
        assert!(close(first.smoothed, 8.0));
        let second = series.demand(began + 2 * PERIOD).unwrap();
        assert!(close(second.average, 2.0) && close(second.deviation, 0.0), "{second:?}");
        assert!(close(second.smoothed, SMOOTHING * 8.0 + (1.0 - SMOOTHING) * 2.0), "{second:?}");
        let much_later = series.demand(began + 1_000_000 * PERIOD).unwrap();
        assert!(close(much_later.smoothed, 2.0), "{much_later:?}");
    }
}
