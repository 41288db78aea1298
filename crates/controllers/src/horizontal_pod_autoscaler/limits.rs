//! Limits on the proposed size: bounds, rates and stabilization windows.

use std::time::Duration;

use coracle_base::Timestamp;

use super::object::{Behavior, NewCondition, PolicyType, ScalingPolicy, ScalingRules, SelectPolicy};

/// Default downscale stabilization window (`--horizontal-pod-autoscaler-downscale-stabilization`).
const DOWNSCALE_WINDOW: Duration = Duration::from_secs(300);

/// Default limit on scaling up at once: twice as many replicas, or this minimum.
const SCALE_UP_FACTOR: i32 = 2;
const SCALE_UP_MINIMUM: i32 = 4;

/// Longest window and period that the API allows, after which entries are dropped.
const MAX_AGE: Duration = Duration::from_secs(3600);

const WITHIN: (&str, &str) = ("DesiredWithinRange", "the desired count is within the acceptable range");
const TOO_FEW: (&str, &str) =
    ("TooFewReplicas", "the desired replica count is less than the minimum replica count");
const TOO_MANY: (&str, &str) =
    ("TooManyReplicas", "the desired replica count is more than the maximum replica count");
const TOO_FAST_UP: (&str, &str) =
    ("ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate");
const TOO_FAST_DOWN: (&str, &str) =
    ("ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate");

/// Recent proposals and changes of an autoscaler. Bounded by [`MAX_AGE`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct History {
    proposals: Vec<(Timestamp, i32)>,
    /// Changes of the replicas (negative if scaled down), and when.
    changes: Vec<(Timestamp, i32)>,
}

impl History {
    /// True if there was no proposal yet.
    pub(super) fn is_empty(&self) -> bool {
        self.proposals.is_empty()
    }

    /// Records a proposal before any limit.
    pub(super) fn note_proposal(&mut self, replicas: i32, now: Timestamp) {
        self.proposals.retain(|(at, _)| now.since(*at) <= MAX_AGE);
        self.proposals.push((now, replicas));
    }

    /// Records a change of the replicas.
    pub(super) fn note_change(&mut self, from: i32, to: i32, now: Timestamp) {
        self.changes.retain(|(at, _)| now.since(*at) <= MAX_AGE);
        self.changes.push((now, to.saturating_sub(from)));
    }

    fn proposals_within(&self, window: Duration, now: Timestamp) -> impl Iterator<Item = i32> {
        self.proposals.iter().filter(move |(at, _)| now.since(*at) < window).map(|(_, replicas)| *replicas)
    }

    /// Number of replicas before the changes of the last `seconds`.
    fn before(&self, current: i32, seconds: u32, now: Timestamp) -> i32 {
        let period = Duration::from_secs(seconds.into());
        let lately = self.changes.iter().filter(|(at, _)| now.since(*at) < period);
        lately.fold(current, |replicas, (_, change)| replicas.saturating_sub(*change))
    }
}

/// Limits of an autoscaler.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits<'a> {
    pub(super) min: i32,
    pub(super) max: i32,
    pub(super) behavior: Option<&'a Behavior>,
}

/// The limited size, and the conditions that report it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Limited {
    pub(super) replicas: i32,
    pub(super) conditions: [NewCondition; 2],
}

impl Limits<'_> {
    /// Limits a proposal. `history` does not contain the proposal itself yet.
    pub(super) fn apply(&self, current: i32, proposed: i32, history: &History, now: Timestamp) -> Limited {
        let stable = match self.behavior {
            None => history.proposals_within(DOWNSCALE_WINDOW, now).fold(proposed, i32::max),
            Some(behavior) => stabilized(behavior, current, proposed, history, now),
        };
        let able = if stable == proposed {
            NewCondition::able_to_scale(true, "ReadyForNewScale", "recommended size matches current size")
        } else if self.behavior.is_some() && proposed >= current {
            let message = "recent recommendations were lower than current one, applying the lowest recent recommendation";
            NewCondition::able_to_scale(true, "ScaleUpStabilized", message)
        } else {
            let message = "recent recommendations were higher than current one, applying the highest recent recommendation";
            NewCondition::able_to_scale(true, "ScaleDownStabilized", message)
        };
        let (replicas, (reason, message)) = match self.behavior {
            None => self.by_default(current, stable),
            Some(behavior) => self.by_policies(behavior, current, stable, history, now),
        };
        let limited = NewCondition::scaling_limited(replicas != stable, reason, message);
        Limited { replicas, conditions: [able, limited] }
    }

    fn by_default(&self, current: i32, wanted: i32) -> (i32, (&'static str, &'static str)) {
        let fastest = current.saturating_mul(SCALE_UP_FACTOR).max(SCALE_UP_MINIMUM);
        let (most, why) = if self.max > fastest { (fastest, TOO_FAST_UP) } else { (self.max, TOO_MANY) };
        if wanted < self.min {
            (self.min, TOO_FEW)
        } else if wanted > most {
            (most, why)
        } else {
            (wanted, WITHIN)
        }
    }

    fn by_policies(
        &self,
        behavior: &Behavior,
        current: i32,
        wanted: i32,
        history: &History,
        now: Timestamp,
    ) -> (i32, (&'static str, &'static str)) {
        if wanted > current {
            let rules = behavior.scale_up.as_ref();
            let fastest = allowed(rules, Direction::Up, current, history, now).max(current);
            let (most, why) = if self.max > fastest { (fastest, TOO_FAST_UP) } else { (self.max, TOO_MANY) };
            if wanted > most {
                return (most, why);
            }
        } else if wanted < current {
            let rules = behavior.scale_down.as_ref();
            let fastest = allowed(rules, Direction::Down, current, history, now).min(current);
            let (least, why) =
                if self.min < fastest { (fastest, TOO_FAST_DOWN) } else { (self.min, TOO_FEW) };
            if wanted < least {
                return (least, why);
            }
        }
        (wanted, WITHIN)
    }
}

/// The current size, changed no further than all recent proposals agree on.
fn stabilized(behavior: &Behavior, current: i32, proposed: i32, history: &History, now: Timestamp) -> i32 {
    let window = |rules: Option<&ScalingRules>, otherwise| {
        let seconds = rules.and_then(|rules| rules.stabilization_window_seconds);
        seconds.map_or(otherwise, |seconds| Duration::from_secs(seconds.into()))
    };
    let up = window(behavior.scale_up.as_ref(), Duration::ZERO);
    let down = window(behavior.scale_down.as_ref(), DOWNSCALE_WINDOW);
    let lowest = history.proposals_within(up, now).fold(proposed, i32::min);
    let highest = history.proposals_within(down, now).fold(proposed, i32::max);
    current.max(lowest).min(highest)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Up,
    Down,
}

/// The API's default policies of a direction.
fn default_policies(direction: Direction) -> Vec<ScalingPolicy> {
    let all = ScalingPolicy { r#type: PolicyType::Percent, value: 100, period_seconds: 15 };
    match direction {
        Direction::Up => {
            vec![ScalingPolicy { r#type: PolicyType::Pods, value: 4, period_seconds: 15 }, all]
        }
        Direction::Down => vec![all],
    }
}

/// Farthest size that the policies allow in a direction.
fn allowed(
    rules: Option<&ScalingRules>,
    direction: Direction,
    current: i32,
    history: &History,
    now: Timestamp,
) -> i32 {
    let select = rules.map(|rules| rules.select_policy).unwrap_or_default();
    if select == SelectPolicy::Disabled {
        return current;
    }
    let defaults;
    let policies = match rules.map(|rules| &*rules.policies).filter(|policies| !policies.is_empty()) {
        Some(policies) => policies,
        None => {
            defaults = default_policies(direction);
            &defaults
        }
    };
    let reached = policies.iter().map(|policy| {
        let began = history.before(current, policy.period_seconds, now);
        reach(policy, direction, began)
    });
    // The farthest in this direction, or the nearest.
    let farthest = (select == SelectPolicy::Max) == (direction == Direction::Up);
    let found = if farthest { reached.max() } else { reached.min() };
    found.unwrap_or(current)
}

fn reach(policy: &ScalingPolicy, direction: Direction, began: i32) -> i32 {
    let share = f64::from(policy.value) / 100.0;
    #[expect(clippy::cast_possible_truncation, reason = "saturates; rounded as upstream rounds")]
    match (policy.r#type, direction) {
        (PolicyType::Pods, Direction::Up) => began.saturating_add(policy.value),
        (PolicyType::Pods, Direction::Down) => began.saturating_sub(policy.value),
        // Rounded up, because one replica would never become more otherwise.
        (PolicyType::Percent, Direction::Up) => (f64::from(began) * (1.0 + share)).ceil() as i32,
        (PolicyType::Percent, Direction::Down) => (f64::from(began) * (1.0 - share)) as i32,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(seconds * 1000)
    }

    fn history(proposals: &[(u64, i32)], changes: &[(u64, i32)]) -> History {
        let timed = |all: &[(u64, i32)]| all.iter().map(|(when, n)| (at(*when), *n)).collect();
        History { proposals: timed(proposals), changes: timed(changes) }
    }

    /// The limited size of a proposal at 1000 s, between 2 and 50 replicas, and the reasons.
    fn check(
        behavior: Option<&Value>,
        [current, proposed]: [i32; 2],
        history: &History,
    ) -> (i32, String, String) {
        let behavior = behavior.map(|behavior| serde_json::from_value::<Behavior>(behavior.clone()).unwrap());
        let limits = Limits { min: 2, max: 50, behavior: behavior.as_ref() };
        let limited = limits.apply(current, proposed, history, at(1000));
        let mut status = super::super::object::Status::default();
        limited.conditions.into_iter().for_each(|conditions| status.set(conditions, at(1000)));
        let reason = |index: usize| status.conditions[index].reason.to_string();
        (limited.replicas, reason(0), reason(1))
    }

    fn expect(replicas: i32, able: &str, limited: &str) -> (i32, String, String) {
        (replicas, able.to_owned(), limited.to_owned())
    }

    #[test]
    fn default_limits_apply_without_behavior() {
        let none = History::default();
        let check = |replicas, history: &History| check(None, replicas, history);
        assert_eq!(check([5, 7], &none), expect(7, "ReadyForNewScale", "DesiredWithinRange"));
        assert_eq!(check([5, 40], &none), expect(10, "ReadyForNewScale", "ScaleUpLimit"));
        assert_eq!(check([1, 40], &none), expect(4, "ReadyForNewScale", "ScaleUpLimit"));
        assert_eq!(check([40, 70], &none), expect(50, "ReadyForNewScale", "TooManyReplicas"));
        assert_eq!(check([5, 1], &none), expect(2, "ReadyForNewScale", "TooFewReplicas"));
        let recent = history(&[(699, 40), (701, 9)], &[]);
        assert_eq!(check([10, 3], &recent), expect(9, "ScaleDownStabilized", "DesiredWithinRange"));
    }

    #[test]
    fn stabilization_windows_apply_in_both_directions() {
        let behavior = json!({
            "scaleUp": {"stabilizationWindowSeconds": 60, "policies": [{"type": "Percent", "value": 900, "periodSeconds": 60}]},
            "scaleDown": {"stabilizationWindowSeconds": 120, "policies": [{"type": "Percent", "value": 100, "periodSeconds": 60}]},
        });
        let check = |replicas, history: &History| check(Some(&behavior), replicas, history);
        let up = history(&[(930, 3), (945, 8), (990, 12)], &[]);
        assert_eq!(check([5, 20], &up), expect(8, "ScaleUpStabilized", "DesiredWithinRange"));
        let down = history(&[(870, 30), (890, 9)], &[]);
        assert_eq!(check([10, 3], &down), expect(9, "ScaleDownStabilized", "DesiredWithinRange"));
        let mixed = history(&[(950, 3), (960, 30)], &[]);
        assert_eq!(check([10, 12], &mixed).0, 10, "neither more nor fewer is agreed on");
    }

    #[test]
    fn policies_limit_changes_within_their_period() {
        let behavior = |select: &str| {
            json!({
                "scaleUp": {"stabilizationWindowSeconds": 0, "selectPolicy": select, "policies": [
                    {"type": "Pods", "value": 4, "periodSeconds": 60},
                    {"type": "Percent", "value": 100, "periodSeconds": 60},
                ]},
                "scaleDown": {"stabilizationWindowSeconds": 0, "selectPolicy": select, "policies": [
                    {"type": "Pods", "value": 2, "periodSeconds": 60},
                    {"type": "Percent", "value": 50, "periodSeconds": 60},
                ]},
            })
        };
        let check = |select, replicas, history: &History| check(Some(&behavior(select)), replicas, history).0;
        let none = History::default();
        assert_eq!((check("Max", [10, 40], &none), check("Min", [10, 40], &none)), (20, 14));
        assert_eq!((check("Max", [10, 2], &none), check("Min", [10, 2], &none)), (5, 8));
        assert_eq!((check("Disabled", [10, 40], &none), check("Disabled", [10, 2], &none)), (10, 10));
        // Three were added 30 s ago, so the period began with seven.
        let lately = history(&[], &[(970, 3), (900, 5)]);
        assert_eq!((check("Max", [10, 40], &lately), check("Min", [10, 40], &lately)), (14, 11));
        let too_much = history(&[], &[(970, 8)]);
        assert_eq!(check("Min", [10, 40], &too_much), 10, "no increase until the period has passed");
    }

    #[test]
    fn history_is_dropped_after_an_hour() {
        let mut history = History::default();
        assert!(history.is_empty());
        for second in (0..10_000).step_by(15) {
            history.note_proposal(1, at(second));
            history.note_change(1, 2, at(second));
        }
        assert_eq!((history.proposals.len(), history.changes.len()), (241, 241));
    }
}
