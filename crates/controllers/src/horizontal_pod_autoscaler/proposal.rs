//! Proposed number of replicas for a metric.

use std::collections::BTreeMap;

use coracle_base::Timestamp;

use super::object::{Behavior, ScalingRules};
use super::pods::{self, Groups, Sample, Samples};
use crate::view::Pod;

/// Default tolerance: deviation from the target that causes no scaling (`--horizontal-pod-autoscaler-tolerance`).
const TOLERANCE: f64 = 0.1;

const NO_PODS: &str = "no pods returned by selector while calculating replica count";
const NO_SAMPLES: &str = "did not receive metrics for targeted pods (pods might be unready)";

/// Tolerated deviation in each direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Tolerances {
    down: f64,
    up: f64,
}

impl Tolerances {
    pub(super) fn of(behavior: Option<&Behavior>) -> Self {
        let tolerance_of = |rules: Option<&ScalingRules>| {
            let tolerance = rules?.tolerance.as_ref()?;
            // Quantities have at most nine decimal places.
            #[expect(clippy::cast_precision_loss, reason = "a small number")]
            Some(tolerance.scaled_value(coracle_meta::quantity::Scale::NANO) as f64 / 1e9)
        };
        let down = tolerance_of(behavior.and_then(|behavior| behavior.scale_down.as_ref()));
        let up = tolerance_of(behavior.and_then(|behavior| behavior.scale_up.as_ref()));
        Self { down: down.unwrap_or(TOLERANCE), up: up.unwrap_or(TOLERANCE) }
    }

    fn allow(self, ratio: f64) -> bool {
        1.0 - self.down <= ratio && ratio <= 1.0 + self.up
    }
}

/// Input of a proposal.
pub(super) struct Situation<'a, P> {
    /// The scaled pods.
    pub(super) pods: &'a [P],
    /// Desired replicas of the target.
    pub(super) spec_replicas: i32,
    /// Actual replicas of the target.
    pub(super) status_replicas: i32,
    pub(super) tolerances: Tolerances,
    pub(super) now: Timestamp,
}

/// A proposed size and the current usage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Proposal {
    pub(super) replicas: i32,
    /// In thousandths; per pod for metrics of pods.
    pub(super) usage: i64,
    /// Percentage of the request, for utilization targets.
    pub(super) utilization: Option<i32>,
}

/// Usage relative to its target: ratio, percentage for utilization targets, and average.
struct Usage {
    ratio: f64,
    utilization: Option<i32>,
    average: i64,
}

/// Target value per pod.
enum PerPod<'a> {
    /// Percentage of the request.
    Utilization { target: i32, requests: &'a BTreeMap<String, i64> },
    /// In thousandths.
    Value(i64),
}

impl PerPod<'_> {
    fn usage(&self, samples: &Samples) -> Result<Usage, String> {
        match self {
            Self::Value(target) => {
                let total: i64 = samples.values().map(|sample| sample.value).sum();
                let average = total / i64::try_from(samples.len().max(1)).unwrap_or(i64::MAX);
                Ok(Usage { ratio: ratio(average, *target), utilization: None, average })
            }
            Self::Utilization { target, requests } => {
                let known =
                    samples.iter().filter_map(|(name, sample)| Some((sample.value, *requests.get(name)?)));
                let (mut used, mut requested, mut count) = (0_i64, 0_i64, 0_i64);
                for (value, request) in known {
                    (used, requested, count) = (used + value, requested + request, count + 1);
                }
                if requested == 0 {
                    return Err("no metrics returned matched known pods".to_owned());
                }
                let percent = i32::try_from(used.saturating_mul(100) / requested).unwrap_or(i32::MAX);
                let ratio = f64::from(percent) / f64::from(*target);
                Ok(Usage { ratio, utilization: Some(percent), average: used / count })
            }
        }
    }

    /// Assumed usage of a pod without a sample, so that missing samples do not cause scaling down.
    fn conservative_value(&self, pod: &str) -> i64 {
        match self {
            Self::Value(target) => *target,
            Self::Utilization { target, requests } => {
                let request = requests.get(pod).copied().unwrap_or_default();
                request.saturating_mul(i64::from(*target).max(100)) / 100
            }
        }
    }
}

impl<P: AsRef<Pod>> Situation<'_, P> {
    /// From the average utilization of the pods' requests, or of one container's.
    pub(super) fn by_utilization(
        &self,
        samples: Samples,
        target: i32,
        resource: &str,
        container: &str,
    ) -> Result<Proposal, String> {
        if self.pods.is_empty() {
            return Err(NO_PODS.to_owned());
        }
        let (samples, groups) = self.grouped(samples, resource)?;
        let requests = pods::requests(self.pods, container, resource)?;
        self.per_pod(samples, &groups, &PerPod::Utilization { target, requests: &requests })
    }

    /// From the pods' average usage; `resource` is empty for custom metrics.
    pub(super) fn by_average(
        &self,
        samples: Samples,
        target: i64,
        resource: &str,
    ) -> Result<Proposal, String> {
        if self.pods.is_empty() {
            return Err(NO_PODS.to_owned());
        }
        let (samples, groups) = self.grouped(samples, resource)?;
        self.per_pod(samples, &groups, &PerPod::Value(target))
    }

    /// Groups the pods, and removes samples that do not count.
    fn grouped(&self, mut samples: Samples, resource: &str) -> Result<(Samples, Groups<'_>), String> {
        let groups = Groups::of(self.pods, &samples, resource == "cpu", self.now);
        samples.retain(|name, _| !groups.ignored.contains(&**name) && !groups.unready.contains(&**name));
        if samples.is_empty() { Err(NO_SAMPLES.to_owned()) } else { Ok((samples, groups)) }
    }

    fn per_pod(
        &self,
        samples: Samples,
        groups: &Groups<'_>,
        wanted: &PerPod<'_>,
    ) -> Result<Proposal, String> {
        let usage = wanted.usage(&samples)?;
        let propose = |replicas| Proposal { replicas, usage: usage.average, utilization: usage.utilization };
        let rises = usage.ratio > 1.0;
        let all_known = groups.missing.is_empty() && (!rises || groups.unready.is_empty());
        if all_known {
            let stays = self.tolerances.allow(usage.ratio);
            return Ok(propose(if stays { self.spec_replicas } else { times(usage.ratio, groups.ready) }));
        }
        let assumed = assume_missing(samples, groups, wanted, usage.ratio);
        let again = wanted.usage(&assumed)?.ratio;
        let reverses = usage.ratio < 1.0 && again > 1.0 || rises && again < 1.0;
        if self.tolerances.allow(again) || reverses {
            return Ok(propose(self.spec_replicas));
        }
        let replicas = times(again, assumed.len());
        let against =
            again < 1.0 && replicas > self.spec_replicas || again > 1.0 && replicas < self.spec_replicas;
        Ok(propose(if against { self.spec_replicas } else { replicas }))
    }

    /// From a single value, whatever the number of pods.
    pub(super) fn by_total(&self, usage: i64, target: i64) -> Result<Proposal, String> {
        let ratio = ratio(usage, target);
        let replicas = if self.spec_replicas == 0 {
            saturated(ratio.ceil())
        } else if self.tolerances.allow(ratio) {
            self.spec_replicas
        } else if self.pods.is_empty() {
            return Err(format!("unable to calculate ready pods: {NO_PODS}"));
        } else {
            times(ratio, pods::ready(self.pods))
        };
        Ok(Proposal { replicas, usage, utilization: None })
    }

    /// From a single value divided by the number of replicas.
    pub(super) fn by_share(&self, usage: i64, target: i64) -> Proposal {
        let current = self.status_replicas;
        let ratio = float(usage) / (float(target) * f64::from(current));
        let needed = || saturated((float(usage) / float(target)).ceil());
        let replicas = if self.tolerances.allow(ratio) { current } else { needed() };
        // Division by zero replicas yields infinity, which the cast turns into the largest number.
        #[expect(clippy::cast_possible_truncation, reason = "saturates")]
        let share = (float(usage) / f64::from(current)).ceil() as i64;
        Proposal { replicas, usage: share, utilization: None }
    }
}

/// Assumes values for pods without a sample that dampen the change.
fn assume_missing(mut samples: Samples, groups: &Groups<'_>, wanted: &PerPod<'_>, ratio: f64) -> Samples {
    let sample = |value| Sample { value, at: Timestamp::default(), window: std::time::Duration::ZERO };
    for pod in &groups.missing {
        if ratio < 1.0 {
            samples.insert((*pod).to_owned(), sample(wanted.conservative_value(pod)));
        } else if ratio > 1.0 {
            samples.insert((*pod).to_owned(), sample(0));
        }
    }
    if ratio > 1.0 {
        samples.extend(groups.unready.iter().map(|pod| ((*pod).to_owned(), sample(0))));
    }
    samples
}

#[expect(clippy::cast_precision_loss, reason = "a ratio need not be exact")]
fn float(value: i64) -> f64 {
    value as f64
}

fn ratio(usage: i64, target: i64) -> f64 {
    float(usage) / float(target)
}

fn times(ratio: f64, count: usize) -> i32 {
    let count = i32::try_from(count).unwrap_or(i32::MAX);
    saturated((ratio * f64::from(count)).ceil())
}

#[expect(clippy::cast_possible_truncation, reason = "saturates")]
fn saturated(value: f64) -> i32 {
    value as i32
}
