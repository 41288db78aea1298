//! The flow control metrics of one cluster, under the names of kube-apiserver
//! (`pkg/util/flowcontrol/metrics/metrics.go` of k8s.io/apiserver).
//!
//! Label values are names of the cluster's objects, so a page has only those of one cluster, and the series of a schema
//! or level end with it. Series that have not moved are left out, as are the metrics of algorithms that are not used
//! here: virtual time in seat-seconds, seat demand by periods, estimated work, watch counts.

use std::sync::Arc;

use coracle_base::metrics::{Histogram, Text};

use super::cluster_seats::LevelReport;
use super::configuration::{Flow, FlowConfig};
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
}

/// A request takes one seat, so the numbers of requests and of seats are the same.
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
            FlowSeries::in_queue,
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
            FlowSeries::executing,
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
    let histograms: [(&str, &str, Series<'_>); 4] = [
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
