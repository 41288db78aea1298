//! Conflicts of server-side apply: fields in the configuration that other managers own.

use std::fmt;

use super::field_set::{FieldSet, Path};
use super::go_format;
use super::managed_fields::{ManagerId, Operation};

/// Maximum total number of steps in the paths of all printed conflicts. A body of 3 MiB can contain
/// 400 000 fields that are nested 1 000 levels deep, whose paths would take gigabytes.
const MAX_PRINTED_STEPS: usize = 100_000;

/// All conflicts of one apply, by manager: the fields that would change although other managers own
/// them. Its `Display` is the message of the `Status`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Conflicts(Vec<(ManagerId, FieldSet)>);

/// An entry of `details.causes` in the `Status` of a conflict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The machine-readable reason.
    pub reason: &'static str,
    /// The message, which names the other manager.
    pub message: String,
    /// The field.
    pub field: String,
}

impl Conflicts {
    /// Creates the conflicts of these field sets, managers in the order in which messages list
    /// them.
    pub(super) fn new(mut by_manager: Vec<(ManagerId, FieldSet)>) -> Self {
        by_manager.sort_by_cached_key(|(manager, _)| manager.sort_key());
        Self(by_manager)
    }

    /// Whether there is no conflict.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the conflicts that concern other fields than `allowed`.
    #[must_use]
    pub(super) fn without(mut self, allowed: &FieldSet) -> Self {
        self.0.retain_mut(|(_, fields)| {
            fields.remove(allowed);
            !fields.is_empty()
        });
        self
    }

    /// Returns the causes for the `Status`.
    pub fn causes(&self) -> Vec<Cause> {
        let causes = self.printed().flat_map(|(manager, paths)| {
            let message = format!("conflict with {}", describe(manager));
            let cause = move |path: Path| Cause {
                reason: "FieldManagerConflict",
                message: message.clone(),
                field: path.to_string(),
            };
            paths.into_iter().map(cause)
        });
        causes.collect()
    }

    /// Returns the number of conflicting fields of all managers.
    fn len(&self) -> usize {
        self.0.iter().map(|(_, fields)| fields.len()).sum()
    }

    /// Returns the fields to print, by manager.
    fn printed(&self) -> impl Iterator<Item = (&ManagerId, Vec<Path>)> {
        let mut steps_left = MAX_PRINTED_STEPS;
        self.0.iter().map(move |(manager, fields)| (manager, fields.paths_within(&mut steps_left)))
    }
}

impl fmt::Display for Conflicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.len();
        if count == 1 {
            let (manager, fields) = &self.0[0];
            let name = describe(manager);
            return write!(f, "Apply failed with 1 conflict: conflict with {name}: {fields}");
        }
        write!(f, "Apply failed with {count} conflicts: ")?;
        let mut newline = "";
        for (manager, paths) in self.printed().filter(|(_, paths)| !paths.is_empty()) {
            write!(f, "{newline}conflicts with {}:", describe(manager))?;
            paths.iter().try_for_each(|path| write!(f, "\n- {path}"))?;
            newline = "\n";
        }
        Ok(())
    }
}

/// Formats a manager for messages. kube-apiserver's format can also contain the time of the write,
/// but its caller never passes one.
fn describe(manager: &ManagerId) -> String {
    let mut text = go_format::quoted(&manager.manager);
    if !manager.subresource.is_empty() {
        text += &format!(" with subresource {}", go_format::quoted(&manager.subresource));
    }
    if manager.operation == Operation::Update {
        text += &format!(" using {}", manager.api_version);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(manager: &str, operation: Operation, subresource: &str) -> ManagerId {
        ManagerId::new(manager, operation, "apps/v1", subresource)
    }

    #[test]
    fn conflict_message_matches_kube_apiserver() {
        let replicas = FieldSet::of_fields(&[&["spec", "replicas"]]);
        let two = FieldSet::of_fields(&[&["spec", "replicas"], &["spec", "paused"]]);
        let update = id("kubectl-edit", Operation::Update, "");
        let status = id("hpa", Operation::Update, "status");
        let apply = id("a\"b", Operation::Apply, "");
        for (by_manager, expected) in [
            (
                vec![(update.clone(), replicas.clone())],
                "Apply failed with 1 conflict: conflict with \"kubectl-edit\" using apps/v1: .spec.replicas",
            ),
            (
                vec![(status.clone(), replicas.clone())],
                "Apply failed with 1 conflict: conflict with \"hpa\" with subresource \"status\" using apps/v1: .spec.replicas",
            ),
            (
                vec![(apply.clone(), replicas.clone())],
                "Apply failed with 1 conflict: conflict with \"a\\\"b\": .spec.replicas",
            ),
            (
                vec![(update.clone(), two), (apply, replicas)],
                "Apply failed with 3 conflicts: conflicts with \"a\\\"b\":\n- .spec.replicas\nconflicts with \"kubectl-edit\" using apps/v1:\n- .spec.paused\n- .spec.replicas",
            ),
        ] {
            assert_eq!(Conflicts::new(by_manager).to_string(), expected);
        }
    }

    #[test]
    fn conflicts_of_deep_fields_are_all_counted_but_printed_up_to_a_limit() {
        let parents = vec!["parent"; 999];
        let names: Vec<String> = (0..1_000).map(|index| format!("n{index}")).collect();
        let paths: Vec<Vec<&str>> =
            names.iter().map(|name| parents.iter().copied().chain([name.as_str()]).collect()).collect();
        let fields = FieldSet::of_fields(&paths.iter().map(Vec::as_slice).collect::<Vec<_>>());
        let conflicts = Conflicts::new(vec![(id("m", Operation::Apply, ""), fields)]);
        let message = conflicts.to_string();
        assert!(message.starts_with("Apply failed with 1000 conflicts: conflicts with \"m\":\n- .parent"));
        assert_eq!(message.lines().count(), 1 + MAX_PRINTED_STEPS / 1_000);
        assert_eq!(conflicts.causes().len(), MAX_PRINTED_STEPS / 1_000);
    }

    #[test]
    fn cause_contains_field_and_manager() {
        let fields = FieldSet::of_fields(&[&["spec", "replicas"]]);
        let causes = Conflicts::new(vec![(id("m", Operation::Update, "scale"), fields)]).causes();
        let message = "conflict with \"m\" with subresource \"scale\" using apps/v1".to_owned();
        let field = ".spec.replicas".to_owned();
        assert_eq!(causes, [Cause { reason: "FieldManagerConflict", message, field }]);
    }
}
