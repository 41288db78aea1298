//! The text of the metrics endpoint.

use std::time::Duration;

use super::*;
use crate::fixture::{cluster_state, cycle_state, decide, node, pod, profile, wanting};

fn counted(count: impl FnOnce(&SchedulerMetrics)) -> String {
    let metrics = Metrics::default();
    count(&SchedulerMetrics::new(&metrics, &[profile()]));
    metrics.text()
}

fn has(text: &str, lines: &[&str]) {
    for line in lines {
        assert!(text.lines().any(|actual| actual == *line), "{line} in\n{text}");
    }
}

#[test]
fn unlabelled_metrics_are_exposed_from_the_start() {
    let text = counted(|_| {});
    has(
        &text,
        &[
            "scheduler_pending_pods{queue=\"active\"} 0",
            "scheduler_pending_pods{queue=\"backoff\"} 0",
            "scheduler_pending_pods{queue=\"unschedulable\"} 0",
            "scheduler_pending_pods{queue=\"gated\"} 0",
            "scheduler_preemption_attempts_total 0",
            "scheduler_pod_scheduled_after_flush_total 0",
            "scheduler_cache_size{type=\"assumed_pods\"} 0",
            "scheduler_cache_size{type=\"nodes\"} 0",
            "scheduler_cache_size{type=\"pods\"} 0",
            "scheduler_scheduling_algorithm_duration_seconds_count 0",
        ],
    );
    assert!(!text.contains("scheduler_schedule_attempts_total{"), "no attempt was counted");
}

#[test]
fn buckets_are_those_of_kube_scheduler() {
    let text = counted(|metrics| {
        let second = Duration::from_secs(1);
        metrics.attempted(0, AttemptResult::Scheduled, second);
        metrics.scheduled(17, second, true);
        metrics.passed(0, Point::Bind, Status::Success, second);
        metrics.plugin_called("NodeName", Point::PreEnqueue, Status::Skip, second);
        metrics.waited(Status::Unschedulable, second);
        metrics.victims(3);
    });
    has(
        &text,
        &[
            "scheduler_schedule_attempts_total{profile=\"default-scheduler\",result=\"scheduled\"} 1",
            "scheduler_scheduling_attempt_duration_seconds_bucket{profile=\"default-scheduler\",result=\"scheduled\",le=\"16.384\"} 1",
            "scheduler_pod_scheduling_sli_duration_seconds_bucket{attempts=\"15+\",le=\"5242.88\"} 1",
            "scheduler_pod_scheduling_attempts_bucket{le=\"16\"} 0",
            "scheduler_pod_scheduling_attempts_bucket{le=\"+Inf\"} 1",
            "scheduler_pod_scheduled_after_flush_total 1",
            "scheduler_framework_extension_point_duration_seconds_bucket{extension_point=\"Bind\",profile=\"default-scheduler\",status=\"Success\",le=\"0.2048\"} 0",
            "scheduler_plugin_execution_duration_seconds_count{extension_point=\"PreEnqueue\",plugin=\"NodeName\",status=\"Skip\"} 1",
            "scheduler_permit_wait_duration_seconds_count{result=\"Unschedulable\"} 1",
            "scheduler_preemption_victims_bucket{le=\"2\"} 0",
            "scheduler_preemption_victims_bucket{le=\"64\"} 1",
        ],
    );
}

#[test]
fn traced_cycle_is_added_to_the_metrics() {
    let mut state =
        cluster_state(&[node("n1", serde_json::json!({})), node("n2", serde_json::json!({}))], &[]);
    let wanted = pod("p", serde_json::json!({"spec": wanting("1")}));
    assert!(decide(&mut state, &wanted).is_ok());
    let profile = profile();
    let mut trace = Trace::new(coracle_base::ManualClock::starting_at(Default::default()).clock());
    trace.restart(true);
    crate::cycle::schedule(&profile, &mut state, &wanted, &mut cycle_state(), &mut trace);
    let text = counted(|metrics| metrics.traced(0, &trace));
    let point = |name: &str| {
        format!(
            "scheduler_framework_extension_point_duration_seconds_count{{extension_point=\"{name}\",\
             profile=\"default-scheduler\",status=\"Success\"}} 1"
        )
    };
    let evaluations = |plugin: &str, point: &str, times: u32| {
        format!(
            "scheduler_plugin_evaluation_total{{extension_point=\"{point}\",plugin=\"{plugin}\",\
             profile=\"default-scheduler\"}} {times}"
        )
    };
    let lines = [
        point("PreFilter"),
        point("Filter"),
        point("PreScore"),
        point("Score"),
        evaluations("NodeResourcesFit", "PreFilter", 1),
        evaluations("NodeResourcesFit", "Filter", 2),
        evaluations("NodeResourcesFit", "PreScore", 1),
        evaluations("NodeResourcesFit", "Score", 2),
        "scheduler_plugin_execution_duration_seconds_count{extension_point=\"Filter\",plugin=\"NodeResourcesFit\",\
         status=\"Success\"} 2"
            .to_owned(),
    ];
    has(&text, &lines.each_ref().map(String::as_str));
}
