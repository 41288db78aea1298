//! The flow control metrics of one cluster, under the names of kube-apiserver
//! (`pkg/util/flowcontrol/metrics/metrics.go` of k8s.io/apiserver).
//!
//! Label values are names of the cluster's objects, so a page has only those of one cluster, and the series of a schema
//! or level end with it. Series that have not moved are left out, as are the metrics of algorithms that are not used
//! here: the progress meter of virtual time, and the limits that kube-apiserver adjusts every ten seconds.

use std::sync::Arc;

use coracle_base::metrics::{Histogram, Text};
use tokio::time::Instant;

use super::cluster_seats::LevelReport;
use super::configuration::{Flow, FlowConfig};
use super::level_series::DemandStats;
use super::object_stats::ObjectStats;
use super::queue_set::VirtualTimes;
use super::series::{FlowSeries, Rejection};

type Labels<'a> = [(&'static str, &'a str); 2];

/// Writes all of them.
pub(super) fn write(config: &FlowConfig, levels: &[LevelReport], text: &mut Text) {
    write_limits(levels, text);
    let mut flows: Vec<&Arc<Flow>> = config.flows().iter().collect();
    flows.sort_by_key(|flow| (&flow.level.name, &flow.schema.name));
    write_counters(&flows, text);
    write_gauges(&flows, text);
    write_histograms(&flows, text);
    write_levels(levels, text);
}

/// Writes the estimated size of the objects of each resource that was listed.
pub(super) fn write_sizes(stats: &ObjectStats, text: &mut Text) {
    const NAME: &str = "apiserver_resource_size_estimate_bytes";
    let sizes = stats.report();
    if sizes.is_empty() {
        return;
    }
    text.family(NAME, "gauge", "Estimated size of the stored objects of a resource, by its last list");
    for (group, resource, stored) in &sizes {
        let bytes = stored.objects.saturating_mul(stored.average_bytes);
        text.sample(NAME, &[("group", group), ("resource", resource)], bytes);
    }
}

fn labels(flow: &Flow) -> Labels<'_> {
    [("flow_schema", &flow.schema.name), ("priority_level", &flow.level.name)]
}

fn write_limits(levels: &[LevelReport], text: &mut Text) {
    type Limit = fn(&LevelReport) -> usize;
    let limits: [(&str, &str, Limit); 4] = [
        (
            "apiserver_flowcontrol_nominal_limit_seats",
            "Nominal number of execution seats configured for each priority level",
            |level| level.limits.nominal,
        ),
        (
            "apiserver_flowcontrol_lower_limit_seats",
            "Configured lower bound on number of execution seats available to each priority level",
            |level| level.limits.lower(),
        ),
        (
            "apiserver_flowcontrol_upper_limit_seats",
            "Configured upper bound on number of execution seats available to each priority level",
            |level| level.limits.upper(),
        ),
        (
            "apiserver_flowcontrol_current_limit_seats",
            "current derived number of execution seats available to each priority level",
            |level| level.current_limit,
        ),
    ];
    for (name, help, limit) in limits {
        text.family(name, "gauge", help);
        for level in levels.iter().filter(|level| !level.level.is_exempt()) {
            text.sample(name, &[("priority_level", &level.level.name)], limit(level));
        }
    }
}

fn write_counters(flows: &[&Arc<Flow>], text: &mut Text) {
    const REJECTED: &str = "apiserver_flowcontrol_rejected_requests_total";
    let help = "Number of requests rejected by API Priority and Fairness subsystem";
    text.family(REJECTED, "counter", help);
    for flow in flows {
        for reason in Rejection::ALL {
            let count = flow.series.rejected(reason).get();
            if count > 0 {
                let [schema, level] = labels(flow);
                text.sample(REJECTED, &[schema, level, ("reason", reason.as_str())], count);
            }
        }
    }
    const DISPATCHED: &str = "apiserver_flowcontrol_dispatched_requests_total";
    let help = "Number of requests executed by API Priority and Fairness subsystem";
    text.family(DISPATCHED, "counter", help);
    for flow in flows.iter().filter(|flow| flow.series.dispatched.get() > 0) {
        text.sample(DISPATCHED, &labels(flow), flow.series.dispatched.get());
    }
    const BLOCKED: &str = "apiserver_flowcontrol_request_dispatch_no_accommodation_total";
    let blocked: Vec<_> = flows.iter().filter(|flow| flow.series.not_accommodated.get() > 0).collect();
    if !blocked.is_empty() {
        text.family(
            BLOCKED,
            "counter",
            "Dispatches put off because a request needs more seats than are free",
        );
    }
    for flow in blocked {
        text.sample(BLOCKED, &labels(flow), flow.series.not_accommodated.get());
    }
}

fn write_gauges(flows: &[&Arc<Flow>], text: &mut Text) {
    type Value = fn(&FlowSeries) -> u64;
    let gauges: [(&str, &str, Value); 4] = [
        (
            "apiserver_flowcontrol_current_inqueue_requests",
            "Number of requests currently pending in queues of the API Priority and Fairness subsystem",
            FlowSeries::in_queue,
        ),
        (
            "apiserver_flowcontrol_current_inqueue_seats",
            "Number of seats currently pending in queues of the API Priority and Fairness subsystem",
            FlowSeries::in_queue_seats,
        ),
        (
            "apiserver_flowcontrol_current_executing_requests",
            "Number of requests in initial (for a WATCH) or any (for a non-WATCH) execution stage in the API Priority \
             and Fairness subsystem",
            FlowSeries::executing,
        ),
        (
            "apiserver_flowcontrol_current_executing_seats",
            "Concurrency (number of seats) occupied by the currently executing (initial stage for a WATCH, any stage \
             otherwise) requests in the API Priority and Fairness subsystem",
            FlowSeries::executing_seats,
        ),
    ];
    for (name, help, value) in gauges {
        text.family(name, "gauge", help);
        for flow in flows.iter().filter(|flow| flow.series.estimated_seats.count() > 0) {
            text.sample(name, &labels(flow), value(&flow.series));
        }
    }
}

fn write_histograms(flows: &[&Arc<Flow>], text: &mut Text) {
    type Value = fn(&FlowSeries) -> &Histogram;
    type Series<'a> = &'a [(Option<(&'static str, &'static str)>, Value)];
    let histograms: [(&str, &str, Series<'_>); 5] = [
        (
            "apiserver_flowcontrol_request_wait_duration_seconds",
            "Length of time a request spent waiting in its queue",
            &[
                (Some(("execute", "false")), |series| &series.waited.rejected),
                (Some(("execute", "true")), |series| &series.waited.executed),
            ],
        ),
        (
            "apiserver_flowcontrol_request_execution_seconds",
            "Duration of initial stage (for a WATCH) or any (for a non-WATCH) stage of request execution in the API \
             Priority and Fairness subsystem",
            &[
                (Some(("type", "regular")), |series| &series.executed.regular),
                (Some(("type", "watch")), |series| &series.executed.watch),
            ],
        ),
        (
            "apiserver_flowcontrol_request_queue_length_after_enqueue",
            "Length of queue in the API Priority and Fairness subsystem, as seen by each request after it is enqueued",
            &[(None, |series| &series.queue_length)],
        ),
        (
            "apiserver_flowcontrol_work_estimated_seats",
            "Number of estimated seats (maximum of initial and final seats) associated with requests in API Priority \
             and Fairness",
            &[(None, |series| &series.estimated_seats)],
        ),
        (
            "apiserver_flowcontrol_watch_count_samples",
            "count of watchers for mutating requests in API Priority and Fairness",
            &[(None, |series| &series.watch_counts)],
        ),
    ];
    for (name, help, kinds) in histograms {
        text.family(name, "histogram", help);
        for flow in flows {
            for (label, value) in kinds {
                let histogram = value(&flow.series);
                if histogram.count() > 0 {
                    let labels: Vec<_> = labels(flow).into_iter().chain(*label).collect();
                    Histogram::tell_together(&[histogram], name, &labels, text);
                }
            }
        }
    }
}

/// Metrics of levels that have had a request.
fn write_levels(levels: &[LevelReport], text: &mut Text) {
    let now = Instant::now();
    let limited = || levels.iter().filter(|level| !level.level.is_exempt());
    write_demand(limited(), now, text);
    const SEATS: &str = "apiserver_flowcontrol_priority_level_seat_utilization";
    text.family(
        SEATS,
        "histogram",
        "Seats in use by the time that their number lasted, as a fraction of the nominal seats",
    );
    limited().for_each(|level| level.series.write_seats(SEATS, &level.level.name, now, text));
    const REQUESTS: &str = "apiserver_flowcontrol_priority_level_request_utilization";
    text.family(
        REQUESTS,
        "histogram",
        "Requests that wait or execute by the time that their number lasted, as a fraction of the room in queues and of \
         the nominal seats",
    );
    limited().for_each(|level| level.series.write_requests(REQUESTS, &level.level.name, now, text));
    write_virtual_times(limited(), text);
}

fn write_demand<'a>(levels: impl Iterator<Item = &'a LevelReport> + Clone, now: Instant, text: &mut Text) {
    const RATIO: &str = "apiserver_flowcontrol_demand_seats";
    text.family(
        RATIO,
        "histogram",
        "Seats in use and waited for by the time that their number lasted, as a fraction of the nominal seats",
    );
    levels.clone().for_each(|level| level.series.write_demand(RATIO, &level.level.name, now, text));
    type Value = fn(&DemandStats) -> f64;
    let gauges: [(&str, &str, Value); 4] = [
        (
            "apiserver_flowcontrol_demand_seats_average",
            "Average demand for seats in the last whole period of ten seconds",
            |stats| stats.average,
        ),
        (
            "apiserver_flowcontrol_demand_seats_high_watermark",
            "Highest demand for seats in the last whole period of ten seconds",
            |stats| stats.high_watermark,
        ),
        (
            "apiserver_flowcontrol_demand_seats_smoothed",
            "Demand for seats, smoothed over periods of ten seconds",
            |stats| stats.smoothed,
        ),
        (
            "apiserver_flowcontrol_demand_seats_stdev",
            "Standard deviation of the demand for seats in the last whole period of ten seconds",
            |stats| stats.deviation,
        ),
    ];
    for (name, help, value) in gauges {
        text.family(name, "gauge", help);
        for level in levels.clone() {
            if let Some(stats) = level.series.demand(now) {
                text.sample(name, &[("priority_level", &level.level.name)], value(&stats));
            }
        }
    }
}

/// Virtual times in seconds of one seat, of levels with queues.
fn write_virtual_times<'a>(levels: impl Iterator<Item = &'a LevelReport>, text: &mut Text) {
    let levels: Vec<_> =
        levels.filter_map(|level| Some((&*level.level.name, level.virtual_times.as_ref()?))).collect();
    const LATEST: &str = "apiserver_flowcontrol_latest_s";
    text.family(LATEST, "gauge", "Virtual start of the request that started last");
    for (level, times) in &levels {
        text.sample(LATEST, &[("priority_level", level)], times.latest_start.as_secs_f64());
    }
    let mut write_bounds = |name: &str, help: &str, bounds: &dyn Fn(&VirtualTimes) -> Option<(f64, f64)>| {
        text.family(name, "gauge", help);
        for (level, times) in &levels {
            if let Some((least, greatest)) = bounds(times) {
                text.sample(name, &[("bound", "min"), ("priority_level", level)], least);
                text.sample(name, &[("bound", "max"), ("priority_level", level)], greatest);
            }
        }
    };
    write_bounds(
        "apiserver_flowcontrol_next_s_bounds",
        "Least and greatest virtual start of the next request of a queue",
        &|times| times.next_start.map(|(least, greatest)| (least.as_secs_f64(), greatest.as_secs_f64())),
    );
    write_bounds(
        "apiserver_flowcontrol_next_discounted_s_bounds",
        "Least and greatest virtual start of the next request of a queue, less the estimated work in progress",
        &|times| times.next_discounted,
    );
}
