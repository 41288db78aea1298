//! Validation of rule annotations when they are written, so that a misspelt one is reported.

use coracle_meta::quantity::Quantity;

use crate::PREFIX;
use crate::duration;
use crate::rules::{exit_codes, phase_after, termination};

/// The object that has the annotations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleScope {
    /// A pod, or the template of pods.
    Pod,
    /// A node, whose annotations are also the defaults of its pods.
    Node,
}

/// The syntax of a rule's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Syntax {
    Text,
    Delay,
    Bool,
    ExitCode,
    ExitCodes,
    PhaseAfter,
    Termination,
    Usage,
    Heartbeat,
    Pressures,
}

/// Rules of pods and containers.
const POD_RULES: &[(&str, Syntax)] = &[
    ("start-after", Syntax::Delay),
    ("waiting-reason", Syntax::Text),
    ("waiting-message", Syntax::Text),
    ("missing-images", Syntax::Text),
    ("init-after", Syntax::Delay),
    ("init-exit-code", Syntax::ExitCodes),
    ("ready-after", Syntax::Delay),
    ("unready-after", Syntax::Delay),
    ("unready-for", Syntax::Delay),
    ("ready", Syntax::Bool),
    ("finish-after", Syntax::Delay),
    ("exit-code", Syntax::ExitCodes),
    ("sidecar-finish-after", Syntax::Delay),
    ("sidecar-exit-code", Syntax::ExitCodes),
    ("phase-after", Syntax::PhaseAfter),
    ("phase-reason", Syntax::Text),
    ("phase-message", Syntax::Text),
    ("vanish-after", Syntax::Delay),
    ("terminate-after", Syntax::Termination),
    ("terminate-exit-code", Syntax::ExitCode),
    ("usage-cpu", Syntax::Usage),
    ("usage-memory", Syntax::Usage),
    ("logs", Syntax::Text),
];

/// Rules of nodes alone.
const NODE_RULES: &[(&str, Syntax)] =
    &[("node", Syntax::Bool), ("pressure", Syntax::Pressures), ("heartbeat", Syntax::Heartbeat)];

impl Syntax {
    fn accepts(self, value: &str) -> bool {
        match self {
            Self::Text => true,
            Self::Delay => duration::delay(value).is_some(),
            Self::Bool => matches!(value, "true" | "false"),
            Self::ExitCode => value.parse::<i32>().is_ok(),
            Self::ExitCodes => exit_codes(value).is_some(),
            Self::PhaseAfter => phase_after(value).is_some(),
            Self::Termination => termination(value).is_some(),
            Self::Usage => match value.strip_suffix('%') {
                Some(percent) => percent.parse::<u32>().is_ok(),
                None => value.parse::<Quantity>().is_ok(),
            },
            Self::Heartbeat => value == "stopped",
            Self::Pressures => {
                let supported = ["MemoryPressure", "DiskPressure", "PIDPressure"];
                value.split(',').all(|name| supported.contains(&name.trim()))
            }
        }
    }

    fn expected(self) -> &'static str {
        match self {
            Self::Text => "a text",
            Self::Delay => "a duration such as 2s, or never",
            Self::Bool => "true or false",
            Self::ExitCode => "an exit code",
            Self::ExitCodes => "a list of exit codes such as 1,1,0",
            Self::PhaseAfter => "Succeeded or Failed with a duration, such as Failed=2s",
            Self::Termination => "a duration such as 2s, grace or never",
            Self::Usage => "a quantity such as 250m, or a share of the request such as 80%",
            Self::Heartbeat => "stopped",
            Self::Pressures => "a list of MemoryPressure, DiskPressure and PIDPressure",
        }
    }
}

/// Warnings about these annotations: rules that are unknown and have no effect, and rules with invalid
/// values.
pub fn check_rules<'a>(
    annotations: impl IntoIterator<Item = (&'a str, &'a str)>,
    scope: RuleScope,
) -> Vec<String> {
    let rules = annotations.into_iter().filter_map(|(key, value)| Some((key.strip_prefix(PREFIX)?, value)));
    rules.filter_map(|(rule, value)| warning(rule, value, scope)).collect()
}

fn warning(rule: &str, value: &str, scope: RuleScope) -> Option<String> {
    let Some(syntax) = syntax(base(rule), scope) else {
        let hint =
            closest(base(rule), scope).map(|supported| format!(" (did you mean {PREFIX}{supported}?)"));
        let hint = hint.unwrap_or_default();
        return Some(format!("annotation {PREFIX}{rule}: simulated nodes have no such rule{hint}"));
    };
    let expected = syntax.expected();
    (!syntax.accepts(value)).then(|| format!("annotation {PREFIX}{rule}: {value:?} is not {expected}"))
}

/// A rule's name without its suffix for a container or an index.
fn base(rule: &str) -> &str {
    let limited = [".container-", ".index-"].iter().find_map(|separator| rule.split_once(separator));
    limited.map_or(rule, |(base, _)| base)
}

fn supported(scope: RuleScope) -> impl Iterator<Item = &'static (&'static str, Syntax)> {
    let of_nodes = if scope == RuleScope::Node { NODE_RULES } else { &[] };
    POD_RULES.iter().chain(of_nodes)
}

fn syntax(rule: &str, scope: RuleScope) -> Option<Syntax> {
    supported(scope).find(|(name, _)| *name == rule).map(|(_, syntax)| *syntax)
}

/// A known rule whose name differs by one letter removed, added or changed, or by two adjacent letters
/// swapped.
fn closest(rule: &str, scope: RuleScope) -> Option<&'static str> {
    supported(scope).map(|(name, _)| *name).find(|name| is_one_edit_apart(name.as_bytes(), rule.as_bytes()))
}

fn is_one_edit_apart(a: &[u8], b: &[u8]) -> bool {
    let prefix = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let (a, b) = (&a[prefix..], &b[prefix..]);
    let rest = |bytes: &[u8], skipped: usize| bytes.get(skipped..).map(<[u8]>::to_vec);
    let exchanged = a.len() >= 2 && b.len() >= 2 && a[0] == b[1] && a[1] == b[0] && a[2..] == b[2..];
    exchanged
        || (!a.is_empty() && rest(a, 1) == rest(b, 0))
        || (!b.is_empty() && rest(a, 0) == rest(b, 1))
        || (!a.is_empty() && !b.is_empty() && rest(a, 1) == rest(b, 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(scope: RuleScope, rule: &str, value: &str) -> Vec<String> {
        check_rules([(format!("{PREFIX}{rule}").as_str(), value), ("example.org/other", "x")], scope)
    }

    #[test]
    fn rules_in_the_guide_are_supported() {
        let guide = include_str!("../../../docs/fake-nodes.md");
        let cells = guide.lines().filter_map(|line| line.strip_prefix("| `")?.split(" |").next());
        let names = cells
            .flat_map(|cell| cell.split('`'))
            .filter_map(|text| text.strip_prefix(PREFIX).or_else(|| text.strip_prefix("…/")));
        let mut names: Vec<&str> = names.collect();
        names.sort_unstable();
        names.dedup();
        assert!(names.len() > 20, "{names:?}");
        for name in names {
            assert!(syntax(name, RuleScope::Node).is_some(), "{name}");
        }
    }

    #[test]
    fn valid_rules_pass() {
        for (rule, value) in [
            ("finish-after", "1m30s"),
            ("finish-after.container-a", "never"),
            ("exit-code.index-3", "1,1,0"),
            ("phase-after", "Failed=10s"),
            ("terminate-after", "grace"),
            ("usage-cpu", "80%"),
            ("usage-memory", "1Gi"),
            ("ready", "false"),
            ("logs", "a\nb"),
        ] {
            assert_eq!(check(RuleScope::Pod, rule, value), [""; 0], "{rule}");
        }
        assert_eq!(check(RuleScope::Node, "heartbeat", "stopped"), [""; 0]);
        assert_eq!(check(RuleScope::Node, "start-after", "2s"), [""; 0]);
    }

    #[test]
    fn unknown_rule_causes_a_warning_with_the_closest_one() {
        for (rule, expected) in [
            ("finish-aftr", " (did you mean fake.coracle.dev/finish-after?)"),
            ("finsih-after", " (did you mean fake.coracle.dev/finish-after?)"),
            ("readyy", " (did you mean fake.coracle.dev/ready?)"),
            ("colour", ""),
        ] {
            let expected = format!("annotation {PREFIX}{rule}: simulated nodes have no such rule{expected}");
            assert_eq!(check(RuleScope::Pod, rule, "1s"), [expected]);
        }
        assert_eq!(check(RuleScope::Pod, "heartbeat", "stopped").len(), 1, "the rule applies to nodes only");
    }

    #[test]
    fn invalid_value_causes_a_warning() {
        for (rule, value) in [
            ("finish-after", "soon"),
            ("exit-code.container-a", "x"),
            ("phase-after", "Done=1s"),
            ("terminate-after", "later"),
            ("usage-cpu", "much"),
            ("ready", "no"),
            ("pressure", "HighPressure"),
        ] {
            let warned = check(RuleScope::Node, rule, value);
            assert!(warned.len() == 1 && warned[0].contains(&format!("{value:?} is not ")), "{warned:?}");
        }
    }
}
