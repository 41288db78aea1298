//! `/debug/api_priority_and_fairness/`: the levels and queues of a cluster as tables
//! (`pkg/util/flowcontrol/apf_controller_debug.go` of k8s.io/apiserver).
//!
//! Queues without requests are left out: a level may have millions. `dump_requests` is not served.

use std::time::Duration;

use super::cluster_seats::LevelReport;
use super::configuration::FlowConfig;
use super::queue_set::{ESTIMATED_EXECUTION, QueueReport};
use super::series::{FlowSeries, Rejection};

/// The narrowest column, and the blanks after its widest cell, of kube-apiserver's tables.
const MIN_COLUMN_WIDTH: usize = 8;
const PADDING: usize = 1;

/// A table that is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dump {
    PriorityLevels,
    Queues,
}

impl Dump {
    /// The table at a path within a cluster.
    pub(crate) fn of_path(path: &str) -> Option<Self> {
        match path.strip_prefix("/debug/api_priority_and_fairness/")? {
            "dump_priority_levels" => Some(Self::PriorityLevels),
            "dump_queues" => Some(Self::Queues),
            _ => None,
        }
    }

    pub(super) fn text(self, config: &FlowConfig, levels: &[LevelReport]) -> String {
        let mut levels: Vec<&LevelReport> = levels.iter().collect();
        levels.sort_by(|a, b| a.level.name.cmp(&b.level.name));
        match self {
            Self::PriorityLevels => priority_levels(config, &levels),
            Self::Queues => queues(&levels),
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
            let QueueReport { number, waiting, executing, next_start } = queue;
            let work = u32::try_from(*waiting).unwrap_or(u32::MAX);
            rows.push(vec![
                level.level.name.to_string(),
                number.to_string(),
                waiting.to_string(),
                executing.to_string(),
                executing.to_string(),
                seat_seconds(*next_start),
                waiting.to_string(),
                waiting.to_string(),
                seat_seconds(ESTIMATED_EXECUTION * work),
            ]);
        }
    }
    table(&rows)
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
        assert_eq!((of("dump_other"), Dump::of_path("/debug/pprof")), (None, None));
    }
}
