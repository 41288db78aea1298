//! Why a node, or every node, is not for a pod, and how people are told.

use std::borrow::Cow;
use std::fmt;

use super::profile::PluginSet;
use crate::cache::NodeIndex;

/// What a refusal means, under the names of upstream's framework.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    /// It could be otherwise if pods were gone.
    Unschedulable,
    /// No pod that is gone would help.
    UnschedulableAndUnresolvable,
    /// Something that was begun has to come about first. The pod is tried at once when the plugin hints at it,
    /// however often it was refused before.
    Pending,
    /// Nothing is known of it, because something went wrong. The pod is tried again after a while.
    Error,
}

/// Why a node, or every node, is not for a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    pub(crate) first: Cow<'static, str>,
    /// Most have one reason only, and then nothing is allocated here.
    pub(crate) more: Vec<Cow<'static, str>>,
    pub(crate) code: Code,
}

impl Rejection {
    /// A refusal, and what it means.
    pub fn new(code: Code, reason: impl Into<Cow<'static, str>>) -> Self {
        Self { first: reason.into(), more: Vec::new(), code }
    }

    /// It could be otherwise if pods were gone.
    pub fn resolvable(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::Unschedulable, reason)
    }

    /// No pod that is gone would help.
    pub fn unresolvable(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::UnschedulableAndUnresolvable, reason)
    }

    /// Something went wrong.
    pub fn error(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::Error, message)
    }

    /// For one more reason.
    #[must_use]
    pub fn and(mut self, reason: impl Into<Cow<'static, str>>) -> Self {
        self.more.push(reason.into());
        self
    }

    /// What it means.
    pub fn code(&self) -> Code {
        self.code
    }

    /// Whether pods that are gone would help.
    pub(crate) fn is_resolvable(&self) -> bool {
        matches!(self.code, Code::Unschedulable | Code::Pending)
    }

    pub(crate) fn reasons(&self) -> impl Iterator<Item = &Cow<'static, str>> {
        std::iter::once(&self.first).chain(&self.more)
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reasons: Vec<&str> = self.reasons().map(|reason| &**reason).collect();
        f.write_str(&reasons.join(", "))
    }
}

/// How often each reason was given.
#[derive(Clone, Debug, Default)]
pub(crate) struct Histogram(Vec<(Cow<'static, str>, usize)>);

impl Histogram {
    pub(crate) fn add(&mut self, rejection: &Rejection) {
        for reason in rejection.reasons() {
            self.count(reason.clone(), 1);
        }
    }

    pub(crate) fn count(&mut self, reason: Cow<'static, str>, times: usize) {
        // There are few different reasons, and most often it is the one of the last node.
        match self.0.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, count)) => *count += times,
            None => self.0.push((reason, times)),
        }
    }
}

impl fmt::Display for Histogram {
    /// In the order of the text, as upstream sorts it: `10 a, 2 b`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines: Vec<String> =
            self.0.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        lines.sort_unstable();
        f.write_str(&lines.join(", "))
    }
}

/// What was found out about a pod that no node is for.
#[derive(Clone, Debug, Default)]
pub struct Diagnosis {
    /// How many nodes there are.
    pub(crate) nodes: usize,
    /// Why no node had to be looked at.
    pub(crate) before_nodes: Option<Rejection>,
    pub(crate) reasons: Histogram,
    /// How many nodes were looked at and refused.
    pub(crate) refused: usize,
    /// Why the others were not looked at.
    pub(crate) unseen: Option<Cow<'static, str>>,
    /// Nodes that could take the pod if others were gone.
    pub(crate) resolvable: Vec<NodeIndex>,
    /// Whether the node the pod was promised is out of the question.
    pub(crate) nominated_is_unresolvable: bool,
    /// Who refused.
    pub(crate) plugins: PluginSet,
    /// Who of them waits for something that was begun.
    pub(crate) pending: PluginSet,
    /// What came of trying to make room.
    pub(crate) after: String,
}

impl Diagnosis {
    /// How many nodes there are.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// A pod that had found its node, where somebody refused it.
    pub(crate) fn of_one_node(by: Option<usize>, rejection: &Rejection) -> Self {
        let mut diagnosis = Self { nodes: 1, ..Self::default() };
        if let Some(by) = by {
            diagnosis.note(by, rejection);
        }
        diagnosis.reasons.add(rejection);
        diagnosis
    }

    /// Notes who has refused.
    pub(crate) fn note(&mut self, by: usize, rejection: &Rejection) {
        self.plugins.insert(by);
        if rejection.code == Code::Pending {
            self.pending.insert(by);
        }
    }

    /// Notes that a node was refused.
    pub(crate) fn refuse(&mut self, node: NodeIndex, rejection: &Rejection) {
        self.reasons.add(rejection);
        self.refused += 1;
        if rejection.is_resolvable() {
            self.resolvable.push(node);
        }
    }
}

impl fmt::Display for Diagnosis {
    /// As upstream words it: `0/3 nodes are available: 1 Too many pods, 2 Insufficient cpu.`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0/{} nodes are available:", self.nodes)?;
        if let Some(rejection) = &self.before_nodes {
            write!(f, " {rejection}.")?;
        } else {
            let mut reasons = self.reasons.clone();
            if let Some(unseen) = &self.unseen
                && self.nodes > self.refused
            {
                reasons.count(unseen.clone(), self.nodes - self.refused);
            }
            if !reasons.0.is_empty() {
                write!(f, " {reasons}.")?;
            }
        }
        if !self.after.is_empty() {
            write!(f, " {}", self.after)?;
        }
        Ok(())
    }
}

/// The longest text an event may have.
const MAX_NOTE: usize = 1024;

/// A text that fits into an event.
pub(crate) fn shortened(text: &str) -> String {
    const MORE: &str = " ...";
    if text.len() <= MAX_NOTE {
        return text.to_owned();
    }
    let mut end = MAX_NOTE - MORE.len();
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{MORE}", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_are_told_as_upstream_tells_them() {
        let mut diagnosis = Diagnosis { nodes: 4, ..Diagnosis::default() };
        assert_eq!(diagnosis.to_string(), "0/4 nodes are available:");
        let short = Rejection::resolvable("Insufficient cpu");
        for slot in 0..2 {
            diagnosis.refuse(NodeIndex::new_for_test(slot), &short);
        }
        let both = short.and("Insufficient memory");
        diagnosis.refuse(NodeIndex::new_for_test(2), &both);
        diagnosis.refuse(NodeIndex::new_for_test(3), &Rejection::unresolvable("node(s) were unschedulable"));
        assert_eq!(
            diagnosis.to_string(),
            "0/4 nodes are available: 1 Insufficient memory, 1 node(s) were unschedulable, 3 Insufficient cpu."
        );
        assert_eq!(diagnosis.resolvable.len(), 3);
        diagnosis.after = "preemption: not eligible due to preemptionPolicy=Never..".to_owned();
        assert!(
            diagnosis
                .to_string()
                .ends_with("3 Insufficient cpu. preemption: not eligible due to preemptionPolicy=Never..")
        );
    }

    #[test]
    fn nodes_that_were_not_looked_at_are_told_of_too() {
        let unseen = Some("node(s) didn't satisfy plugin(s) [NodeAffinity]".into());
        let mut diagnosis = Diagnosis { nodes: 3, unseen, ..Diagnosis::default() };
        diagnosis.refuse(NodeIndex::new_for_test(0), &Rejection::resolvable("Too many pods"));
        assert_eq!(
            diagnosis.to_string(),
            "0/3 nodes are available: 1 Too many pods, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]."
        );
        let before = Some(Rejection::unresolvable("pod has unbound immediate PersistentVolumeClaims"));
        let diagnosis = Diagnosis { nodes: 3, before_nodes: before, ..Diagnosis::default() };
        assert_eq!(
            diagnosis.to_string(),
            "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims."
        );
    }

    #[test]
    fn what_is_too_long_for_an_event_is_cut() {
        assert_eq!(shortened("short"), "short");
        let long = shortened(&"ä".repeat(MAX_NOTE));
        assert!(long.len() <= MAX_NOTE && long.ends_with("ä ..."));
    }
}
