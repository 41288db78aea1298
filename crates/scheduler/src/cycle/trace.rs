//! Trace of a scheduling cycle: duration of each extension point and number of calls of each plugin. It is
//! recorded locally during the cycle and added to the metrics afterwards, so that the cycle touches no
//! shared state.

use std::time::Duration;

use coracle_base::Clock;

use crate::framework::Code;

/// An extension point, under kube-scheduler's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Point {
    PreEnqueue,
    PreFilter,
    Filter,
    PostFilter,
    PreScore,
    Score,
    ScoreExtensionNormalize,
    Reserve,
    Unreserve,
    Permit,
    PreBindPreFlight,
    PreBind,
    Bind,
    PostBind,
}

impl Point {
    pub(crate) const ALL: [Self; 14] = [
        Self::PreEnqueue,
        Self::PreFilter,
        Self::Filter,
        Self::PostFilter,
        Self::PreScore,
        Self::Score,
        Self::ScoreExtensionNormalize,
        Self::Reserve,
        Self::Unreserve,
        Self::Permit,
        Self::PreBindPreFlight,
        Self::PreBind,
        Self::Bind,
        Self::PostBind,
    ];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::PreEnqueue => "PreEnqueue",
            Self::PreFilter => "PreFilter",
            Self::Filter => "Filter",
            Self::PostFilter => "PostFilter",
            Self::PreScore => "PreScore",
            Self::Score => "Score",
            Self::ScoreExtensionNormalize => "ScoreExtensionNormalize",
            Self::Reserve => "Reserve",
            Self::Unreserve => "Unreserve",
            Self::Permit => "Permit",
            Self::PreBindPreFlight => "PreBindPreFlight",
            Self::PreBind => "PreBind",
            Self::Bind => "Bind",
            Self::PostBind => "PostBind",
        }
    }
}

/// Status of an extension point, under kube-scheduler's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Status {
    Success,
    Error,
    Unschedulable,
    UnschedulableAndUnresolvable,
    Wait,
    Skip,
    Pending,
}

impl Status {
    pub(crate) const ALL: [Self; 7] = [
        Self::Success,
        Self::Error,
        Self::Unschedulable,
        Self::UnschedulableAndUnresolvable,
        Self::Wait,
        Self::Skip,
        Self::Pending,
    ];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Success => "Success",
            Self::Error => "Error",
            Self::Unschedulable => "Unschedulable",
            Self::UnschedulableAndUnresolvable => "UnschedulableAndUnresolvable",
            Self::Wait => "Wait",
            Self::Skip => "Skip",
            Self::Pending => "Pending",
        }
    }
}

impl From<Code> for Status {
    fn from(code: Code) -> Self {
        match code {
            Code::Unschedulable => Self::Unschedulable,
            Code::UnschedulableAndUnresolvable => Self::UnschedulableAndUnresolvable,
            Code::Pending => Self::Pending,
            Code::Error => Self::Error,
        }
    }
}

/// Measurements of one cycle. The value is reused for all cycles, so that none of them allocates.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    /// None if nothing is measured.
    clock: Option<Clock>,
    /// True if single plugins are measured, which kube-scheduler does for one cycle in ten.
    is_sampled: bool,
    pub(crate) points: Vec<(Point, Status, Duration)>,
    /// The second field is the index of the plugin in the profile.
    pub(crate) plugins: Vec<(Point, usize, Status, Duration)>,
    pub(crate) evaluations: Vec<(Point, usize, u32)>,
}

impl Trace {
    pub(crate) fn new(clock: Clock) -> Self {
        Self { clock: Some(clock), ..Self::default() }
    }

    /// Clears the trace for another cycle.
    pub(crate) fn restart(&mut self, is_sampled: bool) {
        self.is_sampled = is_sampled;
        self.points.clear();
        self.plugins.clear();
        self.evaluations.clear();
    }

    pub(crate) fn is_sampled(&self) -> bool {
        self.is_sampled
    }

    /// The current time.
    pub(crate) fn begin(&self) -> Duration {
        self.clock.as_ref().map_or(Duration::ZERO, Clock::uptime)
    }

    /// The current time if single plugins are measured, otherwise zero.
    pub(crate) fn begin_plugin(&self) -> Duration {
        if self.is_sampled { self.begin() } else { Duration::ZERO }
    }

    /// Records an extension point that began at `began`.
    pub(crate) fn end(&mut self, point: Point, status: Status, began: Duration) {
        if self.clock.is_some() {
            self.points.push((point, status, self.begin().saturating_sub(began)));
        }
    }

    /// Records a plugin call that began at `began`.
    pub(crate) fn end_plugin(&mut self, point: Point, index: usize, status: Status, began: Duration) {
        if self.is_sampled {
            self.plugins.push((point, index, status, self.begin().saturating_sub(began)));
        }
    }

    /// Records the number of calls of a plugin.
    pub(crate) fn evaluated(&mut self, point: Point, index: usize, times: u32) {
        if self.clock.is_some() && times > 0 {
            self.evaluations.push((point, index, times));
        }
    }
}
