//! Topology spread constraints of pods.

use coracle_meta::selector::LabelSelector;
use coracle_meta::selector::labels::Selector;
use serde::Deserialize;

use super::selector::parsed_or_nothing;
use coracle_runtime::informer::Labels;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) enum WhenUnsatisfiable {
    #[default]
    DoNotSchedule,
    ScheduleAnyway,
}

/// Treatment of nodes that the pod cannot run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(crate) enum InclusionPolicy {
    /// Only nodes the pod can run on count.
    Honor,
    /// All nodes count.
    Ignore,
}

/// A topology spread constraint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SpreadConstraint {
    pub(crate) max_skew: i64,
    pub(crate) topology_key: Box<str>,
    pub(crate) when_unsatisfiable: WhenUnsatisfiable,
    pub(crate) selector: Selector,
    pub(crate) min_domains: i64,
    pub(crate) node_affinity_policy: InclusionPolicy,
    pub(crate) node_taints_policy: InclusionPolicy,
}

/// The API representation.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct RawSpreadConstraint {
    max_skew: i64,
    topology_key: Box<str>,
    when_unsatisfiable: WhenUnsatisfiable,
    label_selector: Option<LabelSelector>,
    min_domains: Option<i64>,
    node_affinity_policy: Option<InclusionPolicy>,
    node_taints_policy: Option<InclusionPolicy>,
    match_label_keys: Vec<Box<str>>,
}

impl RawSpreadConstraint {
    /// Parses it for a pod with these labels; those named in `matchLabelKeys` are added to the selector.
    pub(super) fn parse(self, labels: &Labels) -> SpreadConstraint {
        let own = self.match_label_keys.iter().filter_map(|key| Some((&**key, labels.get(key)?)));
        let selector = with_labels(parsed_or_nothing(self.label_selector.as_ref()), own);
        SpreadConstraint {
            max_skew: self.max_skew,
            topology_key: self.topology_key,
            when_unsatisfiable: self.when_unsatisfiable,
            selector,
            min_domains: self.min_domains.unwrap_or(1),
            node_affinity_policy: self.node_affinity_policy.unwrap_or(InclusionPolicy::Honor),
            node_taints_policy: self.node_taints_policy.unwrap_or(InclusionPolicy::Ignore),
        }
    }
}

/// Adds required labels to a selector. One that selects nothing is returned unchanged.
pub(crate) fn with_labels<'a>(
    selector: Selector,
    labels: impl Iterator<Item = (&'a str, &'a str)>,
) -> Selector {
    if selector.is_nothing() {
        return selector;
    }
    let more = Selector::from_set(labels);
    if more.is_everything() {
        return selector;
    }
    let all = selector.requirements().iter().chain(more.requirements()).cloned();
    Selector::new(all.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn constraint_without_optional_fields_has_the_defaults_of_kubernetes() {
        let raw: RawSpreadConstraint = serde_json::from_value(json!({
            "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"app": "web"}}, "matchLabelKeys": ["hash", "absent"],
        }))
        .unwrap();
        let constraint = raw.parse(&[("app", "web"), ("hash", "7")].into_iter().collect());
        assert_eq!(constraint.selector.to_string(), "app=web,hash=7");
        assert_eq!((constraint.min_domains, constraint.max_skew), (1, 1));
        assert_eq!(constraint.node_affinity_policy, InclusionPolicy::Honor);
        assert_eq!(constraint.node_taints_policy, InclusionPolicy::Ignore);
    }
}
