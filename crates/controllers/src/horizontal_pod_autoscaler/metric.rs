//! One metric of an autoscaler: what is proposed from what was measured, and how it is told.

use std::fmt::Write;

use coracle_meta::quantity::{Format, Quantity};
use coracle_meta::selector::LabelSelector;
use serde_json::{Value, json};

use super::object::{MetricIdentifier, MetricSpec, NamedMetric, ResourceMetric, Target};
use super::pods::Samples;
use super::proposal::{Proposal, Situation};
use crate::view::Pod;

/// Why a metric that is of no known kind is of no use.
pub(super) const INVALID_TYPE: &str = "InvalidMetricSourceType";

/// What is to be asked about a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Question<'a> {
    /// What pods use of a resource.
    Resource(&'a ResourceMetric),
    /// A number of each pod.
    Pods(&'a NamedMetric),
    /// A number of an object.
    Object(&'a NamedMetric),
    /// A number from elsewhere.
    External(&'a NamedMetric),
}

/// What was measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Measured {
    /// Of each pod.
    Pods(Samples),
    /// Of one thing, in thousandths.
    Total(i64),
}

/// Why a metric is of no use: what is said of it in events and conditions, and in the sum of all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) reason: &'static str,
    pub(super) message: String,
    /// In front of the message where the metrics are summed up.
    pub(super) context: String,
}

impl Fault {
    /// As it stands in the sum of all.
    pub(super) fn summary(&self) -> String {
        if self.context.is_empty() {
            self.message.clone()
        } else {
            format!("{}: {}", self.context, self.message)
        }
    }
}

/// What came of a metric.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Outcome {
    pub(super) replicas: i32,
    /// What people call it.
    pub(super) name: String,
    /// As the status has it.
    pub(super) status: Value,
}

impl MetricSpec {
    /// What is to be asked.
    pub(super) fn question(&self) -> Result<Question<'_>, Fault> {
        let found = match &*self.r#type {
            "Resource" => self.resource.as_ref().map(Question::Resource),
            "ContainerResource" => self.container_resource.as_ref().map(Question::Resource),
            "Pods" => self.pods.as_ref().map(Question::Pods),
            "Object" => self.object.as_ref().map(Question::Object),
            "External" => self.external.as_ref().map(Question::External),
            _ => None,
        };
        found.ok_or_else(|| Fault {
            reason: INVALID_TYPE,
            message: format!("unknown metric source type {:?}", self.r#type),
            context: String::new(),
        })
    }
}

impl Question<'_> {
    /// What is said when it cannot be answered.
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

    /// What is proposed from what was measured.
    pub(super) fn answer<P: AsRef<Pod>>(
        self,
        measured: Measured,
        situation: &Situation<'_, P>,
    ) -> Result<Outcome, Fault> {
        let answered = match (self, measured) {
            (Self::Resource(metric), Measured::Pods(samples)) => resource(metric, samples, situation),
            (Self::Pods(metric), Measured::Pods(samples)) => pods(metric, samples, situation),
            (Self::Object(metric), Measured::Total(total)) => object(metric, total, situation),
            (Self::External(metric), Measured::Total(total)) => external(metric, total, situation),
            _ => Err("what was measured is something else".to_owned()),
        };
        answered.map_err(|message| self.fault(message))
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
        let told = json!({"name": name, "container": container, "current": current});
        json!({"type": "ContainerResource", "containerResource": told})
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
    let told =
        json!({"describedObject": metric.described_object, "metric": metric.metric, "current": current});
    Ok(Outcome { replicas, name, status: json!({"type": "Object", "object": told}) })
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
    let told = json!({"metric": metric.metric, "current": current});
    Ok(Outcome { replicas, name, status: json!({"type": "External", "external": told}) })
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

/// What people call a metric that has a selector, as Go prints one.
fn identified(metric: &MetricIdentifier) -> String {
    format!("external metric {}({})", metric.name, go_selector(metric.selector.as_ref()))
}

/// A selector as Go prints one.
pub(super) fn go_selector(selector: Option<&LabelSelector>) -> String {
    let Some(selector) = selector else { return "nil".to_owned() };
    let mut text = "&LabelSelector{MatchLabels:map[string]string{".to_owned();
    for (key, value) in &selector.match_labels {
        // Writing to text does not fail.
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
