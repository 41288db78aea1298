//! `/debug/api_priority_and_fairness/`: the levels, queues and requests of a cluster as tables
//! (`pkg/util/flowcontrol/apf_controller_debug.go` of k8s.io/apiserver).
//!
//! Queues without requests are left out: a level may have millions. So are requests of the operator, which take no
//! seats.

use std::time::Duration;

use coracle_base::Timestamp;
use coracle_meta::time::{MicroTime, go_duration};
use tokio::time::Instant;

use super::cluster_seats::LevelReport;
use super::configuration::FlowConfig;
use super::queue_set::QueueReport;
use super::requests::RequestReport;
use super::series::{FlowSeries, Rejection};
use crate::authorization::{ResourceTarget, Target};

/// The narrowest column, and the blanks after its widest cell, of kube-apiserver's tables.
const MIN_COLUMN_WIDTH: usize = 8;
const PADDING: usize = 1;

/// A table that is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dump {
    PriorityLevels,
    Queues,
    /// Written by [`requests`].
    Requests,
}

impl Dump {
    /// The table at a path within a cluster.
    pub(crate) fn of_path(path: &str) -> Option<Self> {
        match path.strip_prefix("/debug/api_priority_and_fairness/")? {
            "dump_priority_levels" => Some(Self::PriorityLevels),
            "dump_queues" => Some(Self::Queues),
            "dump_requests" => Some(Self::Requests),
            _ => None,
        }
    }

    pub(super) fn text(self, config: &FlowConfig, levels: &[LevelReport]) -> String {
        let mut levels: Vec<&LevelReport> = levels.iter().collect();
        levels.sort_by(|a, b| a.level.name.cmp(&b.level.name));
        match self {
            Self::PriorityLevels => priority_levels(config, &levels),
            Self::Queues | Self::Requests => queues(&levels),
        }
    }
}

fn priority_levels(config: &FlowConfig, levels: &[&LevelReport]) -> String {
    let mut rows = vec![cells([
        "PriorityLevelName",
        "ActiveQueues",
        "IsIdle",
        "IsQuiescing",
        "WaitingRequests",
        "ExecutingRequests",
        "DispatchedRequests",
        "RejectedRequests",
        "TimedoutRequests",
        "CancelledRequests",
    ])];
    for level in levels {
        let sum = |count: &dyn Fn(&FlowSeries) -> u64| -> u64 {
            let flows = config.flows().iter().filter(|flow| flow.level.name == level.level.name);
            flows.map(|flow| count(&flow.series)).sum()
        };
        let rejected = |reason| sum(&|series| series.rejected(reason).get());
        let executing =
            if level.level.is_exempt() { sum(&FlowSeries::executing) } else { level.executing as u64 };
        let waiting = level.queues.iter().map(|queue| queue.waiting).sum::<usize>();
        let all = Rejection::ALL.into_iter().map(rejected).sum::<u64>();
        rows.push(vec![
            level.level.name.to_string(),
            level.queues.iter().filter(|queue| queue.waiting > 0).count().to_string(),
            (executing == 0 && waiting == 0).to_string(),
            level.is_removed.to_string(),
            waiting.to_string(),
            executing.to_string(),
            sum(&|series| series.dispatched.get()).to_string(),
            all.to_string(),
            rejected(Rejection::TimeOut).to_string(),
            rejected(Rejection::Cancelled).to_string(),
        ]);
    }
    table(&rows)
}

fn queues(levels: &[&LevelReport]) -> String {
    let mut rows = vec![cells([
        "PriorityLevelName",
        "Index",
        "PendingRequests",
        "ExecutingRequests",
        "SeatsInUse",
        "NextDispatchR",
        "InitialSeatsSum",
        "MaxSeatsSum",
        "TotalWorkSum",
    ])];
    for level in levels {
        for queue in &level.queues {
            let QueueReport { number, waiting, executing, .. } = queue;
            rows.push(vec![
                level.level.name.to_string(),
                number.to_string(),
                waiting.to_string(),
                executing.to_string(),
                queue.seats.to_string(),
                seat_seconds(queue.next_start),
                queue.initial_seats.to_string(),
                queue.max_seats.to_string(),
                seat_seconds(queue.work),
            ]);
        }
    }
    table(&rows)
}

/// Writes the table of requests, with details if the query requests them.
pub(super) fn requests(mut requests: Vec<RequestReport>, query: &str, now: Timestamp) -> String {
    let has_details = query.split('&').any(|pair| {
        pair.split_once('=').is_some_and(|(key, value)| key == "includeRequestDetails" && !value.is_empty())
    });
    let mut header = cells([
        "PriorityLevelName",
        "FlowSchemaName",
        "QueueIndex",
        "RequestIndexInQueue",
        "FlowDistingsher",
        "ArriveTime",
        "InitialSeats",
        "FinalSeats",
        "AdditionalLatency",
        "StartTime",
    ]);
    if has_details {
        header.extend(cells([
            "UserName",
            "Verb",
            "APIPath",
            "Namespace",
            "Name",
            "APIVersion",
            "Resource",
            "SubResource",
        ]));
    }
    // Waiting requests in the order of their queue, then executing ones.
    let position = |request: &RequestReport| {
        let level = request.flow.level.name.clone();
        (level, request.queue, request.position.is_none(), request.position, request.arrived)
    };
    requests.sort_by_key(position);
    let clock = Clock { now, instant: Instant::now() };
    let rows = requests.iter().map(|request| row(request, has_details, &clock));
    table(&[header].into_iter().chain(rows).collect::<Vec<_>>())
}

fn row(report: &RequestReport, has_details: bool, clock: &Clock) -> Vec<String> {
    let index = |index: Option<u64>| index.map_or_else(|| "-1".to_owned(), |index| index.to_string());
    let info = report.request.info();
    let attributes = info.attributes();
    let mut row = vec![
        report.flow.level.name.to_string(),
        report.flow.schema.name.to_string(),
        index(report.queue),
        index(report.position.map(|position| position as u64)),
        report.flow.schema.distinguish(report.request.user(), &attributes).to_owned(),
        clock.time(report.arrived),
        report.estimate.initial_seats.to_string(),
        report.estimate.final_seats.to_string(),
        go_duration(report.estimate.additional_latency),
        // The zero time of Go.
        report.started.map_or_else(|| "0001-01-01T00:00:00Z".to_owned(), |started| clock.time(started)),
    ];
    if has_details {
        let target = match attributes.target {
            Target::Resource(target) => target,
            Target::Path(_) => ResourceTarget::default(),
        };
        let version = match target.group {
            "" => target.version.to_owned(),
            group => format!("{group}/{}", target.version),
        };
        row.extend(cells([
            &report.request.user().name,
            attributes.verb,
            info.path(),
            target.namespace,
            target.name,
            &version,
            target.resource,
            target.subresource,
        ]));
    }
    row
}

/// Turns instants into times of day.
struct Clock {
    now: Timestamp,
    instant: Instant,
}

impl Clock {
    /// As Go's `RFC3339Nano`: without zeros at the end of the fraction.
    fn time(&self, instant: Instant) -> String {
        let passed = self.instant.saturating_duration_since(instant);
        let milliseconds = (self.now - passed).as_millis();
        let text = MicroTime(i64::try_from(milliseconds).unwrap_or_default() * 1000).to_string();
        let number = text.trim_end_matches('Z').trim_end_matches('0').trim_end_matches('.');
        format!("{number}Z")
    }
}

fn seat_seconds(work: Duration) -> String {
    format!("{:.8}ss", work.as_secs_f64())
}

fn cells<const N: usize>(texts: [&str; N]) -> Vec<String> {
    texts.map(str::to_owned).into()
}

/// Rows of cells, separated by commas and aligned.
fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let widest = |column: usize| rows.iter().map(|row| row[column].len() + 1).max().unwrap_or(0);
    let widths: Vec<usize> =
        (0..columns).map(|column| (widest(column) + PADDING).max(MIN_COLUMN_WIDTH)).collect();
    let mut text = String::new();
    for row in rows {
        for (column, cell) in row.iter().enumerate() {
            match column + 1 == columns {
                true => text.push_str(cell),
                false => text.push_str(&format!("{:<width$}", format!("{cell},"), width = widths[column])),
            }
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_aligned_as_that_of_kubernetes() {
        let rows = [cells(["PriorityLevelName", "Index", "Last"]), cells(["a", "1", "x"])];
        assert_eq!(table(&rows), "PriorityLevelName, Index,  Last\na,                 1,      x\n");
    }

    #[test]
    fn path_names_the_dump() {
        let of = |path: &str| Dump::of_path(&format!("/debug/api_priority_and_fairness/{path}"));
        assert_eq!(of("dump_priority_levels"), Some(Dump::PriorityLevels));
        assert_eq!(of("dump_queues"), Some(Dump::Queues));
        assert_eq!(of("dump_requests"), Some(Dump::Requests));
        assert_eq!((of("dump_other"), Dump::of_path("/debug/pprof")), (None, None));
    }
}
