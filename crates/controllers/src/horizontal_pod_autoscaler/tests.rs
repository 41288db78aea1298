//! Proposals and plans, as tables.

use serde_json::{Value, json};

use super::limits::History;
use super::metric::{Measured, go_selector};
use super::object::{Autoscaler, MetricSpec};
use super::plan::{self, Need, Plan};
use super::pods::{Sample, Samples};
use super::proposal::{Proposal, Situation, Tolerances};
use super::*;

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_millis(seconds * 1000)
}

/// A pod with this CPU request: ready, unready for long, or pending.
fn pod(index: usize, milli_cpu: i64, state: &str) -> Arc<Pod> {
    let (phase, ready) = match state {
        "pending" => ("Pending", "False"),
        "unready" => ("Running", "False"),
        _ => ("Running", "True"),
    };
    let requests = json!({"cpu": format!("{milli_cpu}m")});
    let pod = json!({
        "metadata": {"name": format!("p{index}"), "labels": {"app": "x"}},
        "spec": {"containers": [{"name": "c", "resources": {"requests": requests}}]},
        "status": {
            "phase": phase, "startTime": "1970-01-01T00:00:10Z",
            "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": "1970-01-01T00:00:10Z"}],
        },
    });
    Arc::new(serde_json::from_value(pod).unwrap())
}

fn pods(states: &[&str], milli_cpu: i64) -> Vec<Arc<Pod>> {
    states.iter().enumerate().map(|(index, state)| pod(index, milli_cpu, state)).collect()
}

fn samples(values: &[i64]) -> Samples {
    let sample = |value| Sample { value, at: at(1000), window: Duration::from_secs(30) };
    values.iter().enumerate().map(|(index, value)| (format!("p{index}"), sample(*value))).collect()
}

fn situation(pods: &[Arc<Pod>], replicas: i32) -> Situation<'_, Arc<Pod>> {
    let tolerances = Tolerances::of(None);
    Situation { pods, spec_replicas: replicas, status_replicas: replicas, tolerances, now: at(1000) }
}

/// Replicas and percentage for pods that each request one CPU.
fn utilized(states: &[&str], used: &[i64], target: i32) -> Result<(i32, Option<i32>), String> {
    let (pods, replicas) = (pods(states, 1000), i32::try_from(states.len()).unwrap());
    let proposal = situation(&pods, replicas).by_utilization(samples(used), target, "cpu", "")?;
    Ok((proposal.replicas, proposal.utilization))
}

#[test]
fn replicas_follow_utilization() {
    let ok = |replicas, percent| Ok((replicas, Some(percent)));
    assert_eq!(utilized(&["r"; 3], &[300, 500, 700], 30), ok(5, 50));
    assert_eq!(utilized(&["r"; 5], &[100, 300, 500, 250, 250], 50), ok(3, 28));
    assert_eq!(utilized(&["r"; 3], &[1010, 1030, 1020], 100), ok(3, 102), "within tolerance");
    assert_eq!(
        utilized(&["unready", "r", "r"], &[300, 500, 700], 30),
        ok(4, 60),
        "unready pods dampen the increase"
    );
    assert_eq!(
        utilized(&["unready", "r", "unready"], &[400, 500, 700], 30),
        ok(3, 50),
        "unready pods prevent the increase"
    );
    assert_eq!(utilized(&["r", "pending", "pending"], &[500], 30), ok(3, 50));
    assert_eq!(utilized(&["r"; 4], &[400, 95], 100), ok(3, 24), "missing samples count as full usage");
    assert_eq!(utilized(&["r"; 2], &[1000], 50), ok(2, 100), "missing samples count as no usage");
    assert_eq!(utilized(&["r"; 5], &[100, 100, 100], 20), ok(5, 10), "a reversed direction changes nothing");
}

#[test]
fn missing_data_returns_an_error() {
    let error = |states: &[&str], used: &[i64]| utilized(states, used, 50).unwrap_err();
    assert_eq!(error(&[], &[1]), "no pods returned by selector while calculating replica count");
    let unready = "did not receive metrics for targeted pods (pods might be unready)";
    assert_eq!(error(&["unready"], &[10]), unready);
    let pods = [Arc::new(
        serde_json::from_value(json!({
            "metadata": {"name": "p0"}, "spec": {"containers": [{"name": "c"}]},
            "status": {"phase": "Running", "startTime": "1970-01-01T00:00:10Z",
                "conditions": [{"type": "Ready", "status": "True"}]},
        }))
        .unwrap(),
    )];
    let result = situation(&pods, 1).by_utilization(samples(&[10]), 50, "cpu", "");
    assert_eq!(result, Err("missing request for cpu in container c of Pod p0".to_owned()));
}

#[test]
fn replicas_follow_average_total_and_share() {
    let three = pods(&["r"; 3], 1000);
    let proposal = |replicas, usage| Proposal { replicas, usage, utilization: None };
    let average = |used: &[i64], target| situation(&three, 3).by_average(samples(used), target, "").unwrap();
    assert_eq!(average(&[20_000, 10_000, 30_000], 15_000), proposal(4, 20_000));
    assert_eq!(average(&[12_000, 12_000, 12_000], 12_000), proposal(3, 12_000));
    let total = |usage, target| situation(&three, 3).by_total(usage, target).unwrap();
    assert_eq!(total(20_000, 15_000), proposal(4, 20_000));
    assert_eq!(total(15_500, 15_000), proposal(3, 15_500));
    assert_eq!(situation(&[], 0).by_total(40_000, 15_000), Ok(proposal(3, 40_000)), "from zero replicas");
    assert!(situation(&[], 3).by_total(40_000, 15_000).is_err());
    assert_eq!(situation(&three, 3).by_share(8_600, 2_150), proposal(4, 2_867));
    assert_eq!(situation(&three, 3).by_share(6_500, 2_150), proposal(3, 2_167));
}

#[test]
fn tolerances_are_configurable() {
    let behavior = json!({"scaleUp": {"tolerance": "50m"}, "scaleDown": {"tolerance": "500m"}});
    let behavior = serde_json::from_value(behavior).unwrap();
    let three = pods(&["r"; 3], 1000);
    let situation = Situation { tolerances: Tolerances::of(Some(&behavior)), ..situation(&three, 3) };
    let replicas = |usage| situation.by_total(usage, 1000).unwrap().replicas;
    assert_eq!((replicas(1060), replicas(1040), replicas(600), replicas(400)), (4, 3, 3, 2));
}

fn scaler(spec: Value, status: Value) -> Autoscaler {
    let mut whole = json!({"minReplicas": 2, "maxReplicas": 10});
    for (key, value) in spec.as_object().unwrap() {
        whole[key] = value.clone();
    }
    serde_json::from_value(json!({"metadata": {"name": "h"}, "spec": whole, "status": status})).unwrap()
}

fn reasons(status: &Status) -> Vec<(&str, &str, &str)> {
    let conditions = status.conditions.iter();
    conditions.map(|condition| (&*condition.r#type, &*condition.status, &*condition.reason)).collect()
}

fn outcome(replicas: i32) -> Result<Outcome, Fault> {
    let status = json!({"type": "Resource"});
    Ok(Outcome { replicas, name: "cpu resource utilization (percentage of request)".to_owned(), status })
}

fn fault() -> Result<Outcome, Fault> {
    let (message, context) = ("no metrics".to_owned(), "failed to get cpu resource metric value".to_owned());
    Err(Fault { reason: "FailedGetResourceMetric", message, context })
}

fn planned(current: i32, outcomes: &[Result<Outcome, Fault>]) -> Plan {
    plan::by_metrics(&scaler(json!({}), json!({})), current, outcomes, &History::default(), at(1000))
}

#[test]
fn size_out_of_bounds_is_corrected_without_metrics() {
    let scaler = scaler(json!({}), json!({}));
    assert_eq!(plan::need(&scaler, 5), Need::Metrics);
    assert_eq!(plan::need(&scaler, 0), Need::Disabled);
    let Need::Nothing { replicas: 10, reason } = plan::need(&scaler, 11) else { panic!("not too many") };
    let plan = plan::by_size(&scaler, 11, Some((10, reason)), at(1000));
    let expected = "Current number of replicas above Spec.MaxReplicas".to_owned();
    assert_eq!(plan.rescale, Some((10, expected)));
    assert_eq!((plan.status.current_replicas, plan.status.desired_replicas), (11, 10));
    let disabled = plan::by_size(&scaler, 0, None, at(1000));
    let expected =
        [("AbleToScale", "True", "SucceededGetScale"), ("ScalingActive", "False", "ScalingDisabled")];
    assert_eq!(reasons(&disabled.status), expected);
}

#[test]
fn largest_proposal_wins() {
    let plan = planned(4, &[outcome(3), outcome(6), outcome(5)]);
    let reason = "cpu resource utilization (percentage of request) above target";
    assert_eq!(plan.rescale, Some((6, reason.to_owned())));
    assert_eq!((plan.proposed, plan.failure), (Some(6), None));
    let expected = [
        ("AbleToScale", "True", "ReadyForNewScale"),
        ("ScalingActive", "True", "ValidMetricFound"),
        ("ScalingLimited", "False", "DesiredWithinRange"),
    ];
    assert_eq!(reasons(&plan.status), expected);
    let fewer = planned(4, &[outcome(3)]);
    assert_eq!(fewer.rescale, Some((3, "All metrics below target".to_owned())));
    assert_eq!(planned(4, &[outcome(4)]).rescale, None);
}

#[test]
fn unknown_metric_prevents_scaling_down() {
    let down = planned(4, &[fault(), outcome(3)]);
    assert_eq!((down.rescale, down.proposed), (None, None));
    assert_eq!(
        down.failure.as_deref(),
        Some(
            "invalid metrics (1 invalid out of 2), first error is: failed to get cpu resource metric value: no metrics"
        )
    );
    let active = &down.status.conditions[1];
    assert_eq!(&*active.message, "the HPA was unable to compute the replica count: no metrics");
    assert_eq!(down.status.current_metrics, json!([{"type": ""}, {"type": "Resource"}]));
    let up = planned(4, &[fault(), outcome(7)]);
    assert_eq!(up.rescale.map(|(replicas, _)| replicas), Some(7));
    assert!(planned(4, &[fault()]).rescale.is_none());
}

#[test]
fn scaling_result_is_reported_in_the_status() {
    let mut plan = planned(4, &[outcome(6)]);
    plan.rescaled(6, at(1000));
    let able = &plan.status.conditions[0];
    assert_eq!(&*able.message, "the HPA controller was able to update the target scale to 6");
    assert_eq!(plan.status.last_scale_time, Some(at(1000)));
    let mut plan = planned(4, &[outcome(6)]);
    plan.not_rescaled("no", 4, at(1000));
    assert_eq!(reasons(&plan.status)[0], ("AbleToScale", "False", "FailedUpdateScale"));
    assert_eq!(plan.status.desired_replicas, 4);
}

#[test]
fn metric_statuses_match_the_api() {
    let four = pods(&["r"; 4], 1000);
    let answer = |spec: Value, measured: Measured| {
        let spec: MetricSpec = serde_json::from_value(spec).unwrap();
        spec.query().unwrap().propose(measured, &situation(&four, 4)).unwrap()
    };
    let all = || Measured::Pods(samples(&[500; 4]));
    let target = json!({"type": "Utilization", "averageUtilization": 50});
    let resource = answer(json!({"type": "Resource", "resource": {"name": "cpu", "target": target}}), all());
    let current = json!({"averageUtilization": 50, "averageValue": "500m"});
    assert_eq!(resource.status, json!({"type": "Resource", "resource": {"name": "cpu", "current": current}}));
    let target = json!({"type": "AverageValue", "averageValue": "250m"});
    let named = json!({"metric": {"name": "qps"}, "target": target});
    let of_pods = answer(json!({"type": "Pods", "pods": named}), all());
    assert_eq!((of_pods.replicas, &*of_pods.name), (8, "pods metric qps"));
    let selector = json!({"matchLabels": {"queue": "a"}});
    let named =
        json!({"metric": {"name": "depth", "selector": selector}, "target": {"type": "Value", "value": "2"}});
    let external = answer(json!({"type": "External", "external": named}), Measured::Total(4000));
    let called = "external metric depth(&LabelSelector{MatchLabels:map[string]string{queue: a,},\
                  MatchExpressions:[]LabelSelectorRequirement{},})";
    assert_eq!((external.replicas, &*external.name), (8, called));
    assert_eq!(external.status["external"]["current"], json!({"value": "4"}));
    assert_eq!(external.status["external"]["metric"]["selector"], selector);
    assert_eq!(go_selector(None), "nil");
    let unknown: MetricSpec = serde_json::from_value(json!({"type": "Moon"})).unwrap();
    assert_eq!(unknown.query().unwrap_err().message, "unknown metric source type \"Moon\"");
}

#[test]
fn only_spec_changes_enqueue_an_autoscaler() {
    let key = ObjectKey::namespaced(coracle_runtime::ClusterId::default(), "n", "h");
    let change = |old: Option<Autoscaler>, new: Option<Autoscaler>| {
        let change = Change { key: key.clone(), old: old.map(Arc::new), new: new.map(Arc::new) };
        spec_changed(&change).is_some()
    };
    let one = || Some(scaler(json!({}), json!({})));
    assert!(change(None, one()) && change(one(), None));
    assert!(!change(one(), Some(scaler(json!({}), json!({"currentReplicas": 3})))));
    assert!(change(one(), Some(scaler(json!({"maxReplicas": 3}), json!({})))));
}
