//! All checks in all their versions, and their evaluation.

use super::checks::{baseline as b, host as h, restricted as r};
use super::pod::Pod;
use super::policy::{Level, Standard, Version};

/// A violation that a check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Violation {
    /// The reason in a few words.
    pub(super) reason: String,
    /// The fields and values.
    pub(super) detail: String,
}

impl Violation {
    pub(super) fn new(reason: impl Into<String>, detail: impl Into<String>) -> Option<Self> {
        Some(Self { reason: reason.into(), detail: detail.into() })
    }
}

type Run = fn(&Pod<'_>) -> Option<Violation>;

/// A revision of a check, valid from a minor version until the next revision.
struct Revision {
    since: u32,
    run: Run,
}

/// A check of one control.
struct Check {
    level: Level,
    revisions: &'static [Revision],
    /// The version since which a check of the restricted level replaces this one.
    replaced_since: Option<u32>,
}

const fn since(since: u32, run: Run) -> Revision {
    Revision { since, run }
}

const fn baseline(revisions: &'static [Revision]) -> Check {
    Check { level: Level::Baseline, revisions, replaced_since: None }
}

/// A check that a restricted one replaces since a version.
const fn baseline_until(replaced_since: u32, revisions: &'static [Revision]) -> Check {
    Check { level: Level::Baseline, revisions, replaced_since: Some(replaced_since) }
}

const fn restricted(revisions: &'static [Revision]) -> Check {
    Check { level: Level::Restricted, revisions, replaced_since: None }
}

/// In kube-apiserver's order: by level and then by its ids of the checks.
const CHECKS: &[Check] = &[
    baseline(&[since(0, b::app_armor_profile)]),
    baseline_until(22, &[since(0, b::capabilities)]),
    baseline(&[since(0, h::namespaces)]),
    baseline_until(0, &[since(0, h::path_volumes)]),
    baseline(&[since(0, h::ports)]),
    baseline(&[since(34, h::probes_and_lifecycle)]),
    baseline(&[since(0, b::privileged)]),
    baseline_until(35, &[since(0, b::proc_mount), since(35, b::proc_mount_of_own_users)]),
    baseline(&[since(0, b::selinux_options), since(31, b::selinux_options_with_engine)]),
    baseline_until(19, &[since(0, b::seccomp_annotations), since(19, b::seccomp_profile)]),
    baseline(&[
        since(0, b::sysctls),
        since(27, b::sysctls_since_27),
        since(29, b::sysctls_since_29),
        since(32, b::sysctls_since_32),
    ]),
    baseline(&[since(0, h::windows_process)]),
    restricted(&[since(8, r::privilege_escalation), since(25, r::privilege_escalation_not_windows)]),
    restricted(&[since(22, r::capabilities), since(25, r::capabilities_not_windows)]),
    restricted(&[since(35, b::proc_mount)]),
    restricted(&[since(0, r::volume_types)]),
    restricted(&[since(0, r::run_as_non_root), since(35, r::run_as_non_root_or_own_users)]),
    restricted(&[since(23, r::run_as_user), since(35, r::run_as_user_or_own_users)]),
    restricted(&[since(19, r::seccomp_profile), since(25, r::seccomp_profile_not_windows)]),
];

/// All violations of a standard.
pub(super) fn violations(standard: Standard, pod: &Pod<'_>) -> Vec<Violation> {
    if standard.is_privileged() {
        return Vec::new();
    }
    CHECKS
        .iter()
        .filter(|check| check.level <= standard.level)
        .filter_map(|check| check.revision(standard))
        .filter_map(|run| run(pod))
        .collect()
}

impl Check {
    /// The revision for a standard, if the check applies.
    fn revision(&self, standard: Standard) -> Option<Run> {
        let reached = |minor: u32| standard.version >= Version::Minor(minor);
        if standard.level == Level::Restricted && self.replaced_since.is_some_and(reached) {
            return None;
        }
        self.revisions.iter().rev().find(|revision| reached(revision.since)).map(|revision| revision.run)
    }
}

/// The reasons of violations, for messages about several pods.
pub(super) fn reasons(violations: &[Violation]) -> String {
    let reasons: Vec<&str> = violations.iter().map(|violation| &*violation.reason).collect();
    reasons.join(", ")
}

/// The reasons and details of violations, for messages about one pod.
pub(super) fn details(violations: &[Violation]) -> String {
    let told: Vec<String> = violations
        .iter()
        .map(|Violation { reason, detail }| match detail.is_empty() {
            true => reason.clone(),
            false => format!("{reason} ({detail})"),
        })
        .collect();
    told.join(", ")
}
