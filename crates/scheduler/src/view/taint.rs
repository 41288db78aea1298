//! Taints and tolerations.

use serde::Deserialize;

/// The effect of a taint on pods that do not tolerate it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
pub(crate) enum Effect {
    /// They are not scheduled to the node.
    NoSchedule,
    /// They are scheduled to other nodes if possible.
    PreferNoSchedule,
    /// They are not scheduled to the node, and are evicted from it.
    NoExecute,
    /// An unknown effect, which is ignored.
    #[serde(other)]
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Taint {
    pub(crate) key: Box<str>,
    #[serde(default)]
    pub(crate) value: Box<str>,
    pub(crate) effect: Effect,
}

impl Taint {
    /// True if pods that do not tolerate it are not scheduled to the node.
    pub(crate) fn blocks_scheduling(&self) -> bool {
        matches!(self.effect, Effect::NoSchedule | Effect::NoExecute)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) enum Operator {
    #[default]
    Equal,
    Exists,
    /// Numeric comparison is behind a disabled feature gate, so that it tolerates nothing.
    #[serde(other)]
    Unknown,
}

/// A toleration of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Toleration {
    /// Empty for every key.
    #[serde(default)]
    pub(crate) key: Box<str>,
    #[serde(default)]
    pub(crate) operator: Operator,
    #[serde(default)]
    pub(crate) value: Box<str>,
    /// None for all effects.
    #[serde(default)]
    pub(crate) effect: Option<Effect>,
}

impl Toleration {
    pub(crate) fn tolerates(&self, taint: &Taint) -> bool {
        self.effect.is_none_or(|effect| effect == taint.effect)
            && (self.key.is_empty() || self.key == taint.key)
            && match self.operator {
                Operator::Equal => self.value == taint.value,
                Operator::Exists => true,
                Operator::Unknown => false,
            }
    }
}

/// True if a `NoSchedule` or `NoExecute` taint is not tolerated.
pub(crate) fn has_untolerated(taints: &[Taint], tolerations: &[Toleration]) -> bool {
    taints
        .iter()
        .filter(|taint| taint.blocks_scheduling())
        .any(|taint| !tolerations.iter().any(|toleration| toleration.tolerates(taint)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tolerations_match_by_key_value_and_effect() {
        let taint: Taint =
            serde_json::from_value(json!({"key": "dedicated", "value": "a", "effect": "NoSchedule"}))
                .unwrap();
        for (toleration, expected) in [
            (json!({"key": "dedicated", "value": "a", "effect": "NoSchedule"}), true),
            (json!({"key": "dedicated", "operator": "Equal", "value": "a"}), true),
            (json!({"key": "dedicated", "operator": "Exists"}), true),
            (json!({"operator": "Exists"}), true),
            (json!({"key": "dedicated", "value": "b"}), false),
            (json!({"key": "other", "operator": "Exists"}), false),
            (json!({"key": "dedicated", "operator": "Exists", "effect": "NoExecute"}), false),
            (json!({"key": "dedicated", "operator": "Gt", "value": "a"}), false),
        ] {
            let parsed: Toleration = serde_json::from_value(toleration.clone()).unwrap();
            assert_eq!(parsed.tolerates(&taint), expected, "{toleration}");
            assert_eq!(has_untolerated(std::slice::from_ref(&taint), &[parsed]), !expected);
        }
        let preferred = Taint { effect: Effect::PreferNoSchedule, ..taint };
        assert!(!has_untolerated(&[preferred], &[]), "PreferNoSchedule does not reject pods");
    }
}
