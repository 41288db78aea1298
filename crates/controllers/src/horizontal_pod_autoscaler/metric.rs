//! One metric of an autoscaler: the size proposed from the measured values, and its status.

use std::fmt::Write;

use coracle_meta::quantity::{Format, Quantity};
use coracle_meta::selector::LabelSelector;
use serde_json::{Value, json};

use super::object::{MetricIdentifier, MetricSpec, NamedMetric, ResourceMetric, Target};
use super::pods::Samples;
use super::proposal::{Proposal, Situation};
use crate::view::Pod;

/// Reason for a metric of an unknown type.
pub(super) const INVALID_TYPE: &str = "InvalidMetricSourceType";

/// The query for a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum MetricQuery<'a> {
    /// Resource usage of the pods.
    Resource(&'a ResourceMetric),
    /// A custom metric of each pod.
    Pods(&'a NamedMetric),
    /// A custom metric of an object.
    Object(&'a NamedMetric),
    /// An external metric.
    External(&'a NamedMetric),
}

/// Measured values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Measured {
    /// By pod.
    Pods(Samples),
    /// Of one object, in thousandths.
    Total(i64),
}

/// Why a metric is unusable, for events and conditions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) reason: &'static str,
    pub(super) message: String,
    /// Prefix of the message in the summary of all metrics.
    pub(super) context: String,
}

impl Fault {
    /// The message in the summary of all metrics.
    pub(super) fn summary(&self) -> String {
        if self.context.is_empty() {
            self.message.clone()
        } else {
            format!("{}: {}", self.context, self.message)
        }
    }
}

/// The result of a metric.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Outcome {
    pub(super) replicas: i32,
    /// Name of the metric in events.
    pub(super) name: String,
    /// The metric's status in `currentMetrics`.
    pub(super) status: Value,
}

impl MetricSpec {
    /// The query for this metric.
    pub(super) fn query(&self) -> Result<MetricQuery<'_>, Fault> {
        let found = match &*self.r#type {
            "Resource" => self.resource.as_ref().map(MetricQuery::Resource),
            "ContainerResource" => self.container_resource.as_ref().map(MetricQuery::Resource),
            "Pods" => self.pods.as_ref().map(MetricQuery::Pods),
            "Object" => self.object.as_ref().map(MetricQuery::Object),
            "External" => self.external.as_ref().map(MetricQuery::External),
            _ => None,
        };
        found.ok_or_else(|| Fault {
            reason: INVALID_TYPE,
            message: format!("unknown metric source type {:?}", self.r#type),
            context: String::new(),
        })
    }
}

impl MetricQuery<'_> {
    /// The fault for a failed query.
    pub(super) fn fault(self, message: String) -> Fault {
        let (reason, context) = match self {
            Self::Resource(metric) if metric.container.is_empty() => {
                ("FailedGetResourceMetric", format!("failed to get {} resource metric value", metric.name))
            }
            Self::Resource(metric) => (
                "FailedGetContainerResourceMetric",
                format!("failed to get {} container metric value", metric.container),
            ),
            Self::Pods(_) => ("FailedGetPodsMetric", "failed to get pods metric value".to_owned()),
            Self::Object(metric) => {
                let of = if metric.target.average_value.is_some() {
                    format!(": failed to get {} object metric", metric.metric.name)
                } else {
                    String::new()
                };
                ("FailedGetObjectMetric", format!("failed to get object metric value{of}"))
            }
            Self::External(metric) => {
                let name = &metric.metric.name;
                let of = if metric.target.average_value.is_some() {
                    format!("failed to get {name} external metric")
                } else {
                    format!("failed to get external metric {name}")
                };
                ("FailedGetExternalMetric", format!("failed to get {name} external metric value: {of}"))
            }
        };
        Fault { reason, message, context }
    }

    /// The size proposed from the measured values.
    pub(super) fn propose<P: AsRef<Pod>>(
        self,
        measured: Measured,
        situation: &Situation<'_, P>,
    ) -> Result<Outcome, Fault> {
        let proposed = match (self, measured) {
            (Self::Resource(metric), Measured::Pods(samples)) => resource(metric, samples, situation),
            (Self::Pods(metric), Measured::Pods(samples)) => pods(metric, samples, situation),
            (Self::Object(metric), Measured::Total(total)) => object(metric, total, situation),
            (Self::External(metric), Measured::Total(total)) => external(metric, total, situation),
            _ => Err("metric value has an unexpected type".to_owned()),
        };
        proposed.map_err(|message| self.fault(message))
    }
}

fn resource<P: AsRef<Pod>>(
    metric: &ResourceMetric,
    samples: Samples,
    situation: &Situation<'_, P>,
) -> Result<Outcome, String> {
    let ResourceMetric { name, container, target } = metric;
    let format = if &**name == "memory" { Format::BinarySi } else { Format::DecimalSi };
    let (proposal, called) = if let Some(average) = &target.average_value {
        let proposal = situation
            .by_average(samples, average.milli_value(), name)
            .map_err(|why| format!("failed to get {name} usage: {why}"))?;
        (proposal, format!("{name} resource"))
    } else if let Some(percent) = target.average_utilization {
        let proposal = situation
            .by_utilization(samples, percent, name, container)
            .map_err(|why| format!("failed to get {name} utilization: {why}"))?;
        let of_container = if container.is_empty() { "" } else { "container " };
        (proposal, format!("{name} {of_container}resource utilization (percentage of request)"))
    } else {
        return Err("invalid resource metric source: neither an average utilization target nor an average \
                    value (usage) target was set"
            .to_owned());
    };
    let mut current = json!({"averageValue": milli(proposal.usage, format)});
    if let Some(percent) = proposal.utilization {
        current["averageUtilization"] = percent.into();
    }
    let status = if container.is_empty() {
        json!({"type": "Resource", "resource": {"name": name, "current": current}})
    } else {
        let reported = json!({"name": name, "container": container, "current": current});
        json!({"type": "ContainerResource", "containerResource": reported})
    };
    Ok(Outcome { replicas: proposal.replicas, name: called, status })
}

fn pods<P: AsRef<Pod>>(
    metric: &NamedMetric,
    samples: Samples,
    situation: &Situation<'_, P>,
) -> Result<Outcome, String> {
    let target = metric.target.average_value.as_ref().map(Quantity::milli_value).unwrap_or_default();
    let proposal = situation.by_average(samples, target, "")?;
    let current = json!({"averageValue": milli(proposal.usage, Format::DecimalSi)});
    let status = json!({"type": "Pods", "pods": {"metric": metric.metric, "current": current}});
    Ok(Outcome { replicas: proposal.replicas, name: format!("pods metric {}", metric.metric.name), status })
}

fn object<P: AsRef<Pod>>(
    metric: &NamedMetric,
    total: i64,
    situation: &Situation<'_, P>,
) -> Result<Outcome, String> {
    let (replicas, name, current) = match &metric.target {
        Target { r#type, value: Some(value), .. } if &**r#type == "Value" => {
            let name = format!("{} metric {}", metric.described_object.kind, metric.metric.name);
            whole(situation.by_total(total, value.milli_value())?, name)
        }
        Target { r#type, average_value: Some(average), .. } if &**r#type == "AverageValue" => {
            shared(situation.by_share(total, average.milli_value()), identified(&metric.metric))
        }
        _ => {
            let message =
                "invalid object metric source: neither a value target nor an average value target was set";
            return Err(message.to_owned());
        }
    };
    let reported =
        json!({"describedObject": metric.described_object, "metric": metric.metric, "current": current});
    Ok(Outcome { replicas, name, status: json!({"type": "Object", "object": reported}) })
}

fn external<P: AsRef<Pod>>(
    metric: &NamedMetric,
    total: i64,
    situation: &Situation<'_, P>,
) -> Result<Outcome, String> {
    let name = identified(&metric.metric);
    let (replicas, name, current) = match &metric.target {
        Target { average_value: Some(average), .. } => {
            shared(situation.by_share(total, average.milli_value()), name)
        }
        Target { value: Some(value), .. } => whole(situation.by_total(total, value.milli_value())?, name),
        _ => {
            let message =
                "invalid external metric source: neither a value target nor an average value target was set";
            return Err(message.to_owned());
        }
    };
    let reported = json!({"metric": metric.metric, "current": current});
    Ok(Outcome { replicas, name, status: json!({"type": "External", "external": reported}) })
}

fn whole(proposal: Proposal, name: String) -> (i32, String, Value) {
    (proposal.replicas, name, json!({"value": milli(proposal.usage, Format::DecimalSi)}))
}

fn shared(proposal: Proposal, name: String) -> (i32, String, Value) {
    (proposal.replicas, name, json!({"averageValue": milli(proposal.usage, Format::DecimalSi)}))
}

fn milli(value: i64, format: Format) -> String {
    Quantity::from_milli(value, format).canonical()
}

/// Description of a metric with its selector, in Go's format.
fn identified(metric: &MetricIdentifier) -> String {
    format!("external metric {}({})", metric.name, go_selector(metric.selector.as_ref()))
}

/// Formats a selector as Go does.
pub(super) fn go_selector(selector: Option<&LabelSelector>) -> String {
    let Some(selector) = selector else { return "nil".to_owned() };
    let mut text = "&LabelSelector{MatchLabels:map[string]string{".to_owned();
    for (key, value) in &selector.match_labels {
        // Writing to a string does not fail.
        let _ = write!(text, "{key}: {value},");
    }
    text.push_str("},MatchExpressions:[]LabelSelectorRequirement{");
    for expression in &selector.match_expressions {
        let (key, operator, values) = (&expression.key, &expression.operator, expression.values.join(" "));
        let _ = write!(text, "LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{values}],}},");
    }
    text.push_str("},}");
    text
}
