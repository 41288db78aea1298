//! Rejections of nodes, and the diagnosis that is published for an unschedulable pod.

use std::borrow::Cow;
use std::fmt;

use super::profile::PluginSet;
use crate::cache::NodeIndex;

/// Status code of a rejection, under kube-scheduler's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    /// Preemption may help.
    Unschedulable,
    /// Preemption cannot help.
    UnschedulableAndUnresolvable,
    /// The pod waits for an operation in progress. It is retried without backoff when the plugin's hint
    /// returns true.
    Pending,
    /// The plugin failed. The pod is retried after a backoff.
    Error,
}

/// Why a plugin rejected one node or all nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    pub(crate) first: Cow<'static, str>,
    /// Empty for most rejections, which therefore do not allocate.
    pub(crate) more: Vec<Cow<'static, str>>,
    pub(crate) code: Code,
}

impl Rejection {
    /// A rejection with this code.
    pub fn new(code: Code, reason: impl Into<Cow<'static, str>>) -> Self {
        Self { first: reason.into(), more: Vec::new(), code }
    }

    /// A rejection that preemption may resolve.
    pub fn resolvable(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::Unschedulable, reason)
    }

    /// A rejection that preemption cannot resolve.
    pub fn unresolvable(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::UnschedulableAndUnresolvable, reason)
    }

    /// An error of the plugin.
    pub fn error(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::Error, message)
    }

    /// Adds a reason.
    #[must_use]
    pub fn and(mut self, reason: impl Into<Cow<'static, str>>) -> Self {
        self.more.push(reason.into());
        self
    }

    /// The status code.
    pub fn code(&self) -> Code {
        self.code
    }

    /// True if preemption may help.
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

/// Number of nodes by rejection reason.
#[derive(Clone, Debug, Default)]
pub(crate) struct Histogram(Vec<(Cow<'static, str>, usize)>);

impl Histogram {
    pub(crate) fn add(&mut self, rejection: &Rejection) {
        for reason in rejection.reasons() {
            self.count(reason.clone(), 1);
        }
    }

    pub(crate) fn count(&mut self, reason: Cow<'static, str>, times: usize) {
        // There are few different reasons, and most often it is the same as for the previous node.
        match self.0.iter_mut().find(|(existing, _)| *existing == reason) {
            Some((_, count)) => *count += times,
            None => self.0.push((reason, times)),
        }
    }
}

impl fmt::Display for Histogram {
    /// Sorted by text, as kube-scheduler sorts it: `10 a, 2 b`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines: Vec<String> =
            self.0.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        lines.sort_unstable();
        f.write_str(&lines.join(", "))
    }
}

/// Why a pod could not be scheduled.
#[derive(Clone, Debug, Default)]
pub struct Diagnosis {
    /// Number of nodes in the cluster.
    pub(crate) nodes: usize,
    /// The PreFilter rejection that applies to all nodes.
    pub(crate) before_nodes: Option<Rejection>,
    pub(crate) reasons: Histogram,
    /// Number of nodes that were examined and rejected.
    pub(crate) refused: usize,
    /// Reason for the nodes that were not examined.
    pub(crate) unseen: Option<Cow<'static, str>>,
    /// Nodes on which preemption may help.
    pub(crate) resolvable: Vec<NodeIndex>,
    /// True if preemption cannot help on the nominated node.
    pub(crate) nominated_is_unresolvable: bool,
    /// Plugins that rejected the pod.
    pub(crate) plugins: PluginSet,
    /// The subset of those that wait for an operation in progress.
    pub(crate) pending: PluginSet,
    /// Message of the PostFilter plugins.
    pub(crate) after: String,
}

impl Diagnosis {
    /// Number of nodes in the cluster.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// The diagnosis of a pod that was rejected after a node had been chosen.
    pub(crate) fn of_one_node(by: Option<usize>, rejection: &Rejection) -> Self {
        let mut diagnosis = Self { nodes: 1, ..Self::default() };
        if let Some(by) = by {
            diagnosis.note(by, rejection);
        }
        diagnosis.reasons.add(rejection);
        diagnosis
    }

    /// Records the plugin of a rejection.
    pub(crate) fn note(&mut self, by: usize, rejection: &Rejection) {
        self.plugins.insert(by);
        if rejection.code == Code::Pending {
            self.pending.insert(by);
        }
    }

    /// Records the rejection of a node.
    pub(crate) fn refuse(&mut self, node: NodeIndex, rejection: &Rejection) {
        self.reasons.add(rejection);
        self.refused += 1;
        if rejection.is_resolvable() {
            self.resolvable.push(node);
        }
    }
}

impl fmt::Display for Diagnosis {
    /// In kube-scheduler's wording: `0/3 nodes are available: 1 Too many pods, 2 Insufficient cpu.`
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

/// Maximum length of an event's message.
const MAX_NOTE: usize = 1024;

/// Truncates a text to the length of an event's message.
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
    fn diagnosis_has_the_wording_of_kube_scheduler() {
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
    fn diagnosis_includes_nodes_that_were_not_examined() {
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
    fn note_longer_than_an_event_allows_is_truncated() {
        assert_eq!(shortened("short"), "short");
        let long = shortened(&"ä".repeat(MAX_NOTE));
        assert!(long.len() <= MAX_NOTE && long.ends_with("ä ..."));
    }
}
