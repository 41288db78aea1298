//! Conflicts of server-side apply: fields in the configuration that other managers own.

use std::fmt;

use super::field_set::{FieldSet, Path};
use super::go_format;
use super::managed_fields::{ManagerId, Operation};

/// A field that would change although another manager owns it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The manager that owns the field.
    pub manager: ManagerId,
    /// The field.
    pub path: Path,
}

/// All conflicts of one apply, by manager. Its `Display` is the message of the `Status`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Conflicts(pub Vec<Conflict>);

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
        let conflicts = by_manager.into_iter().flat_map(|(manager, fields)| {
            let paths = fields.paths().into_iter();
            paths.map(move |path| Conflict { manager: manager.clone(), path })
        });
        Self(conflicts.collect())
    }

    /// Returns the causes for the `Status`.
    pub fn causes(&self) -> Vec<Cause> {
        let causes = self.0.iter().map(|conflict| Cause {
            reason: "FieldManagerConflict",
            message: format!("conflict with {}", describe(&conflict.manager)),
            field: conflict.path.to_string(),
        });
        causes.collect()
    }

    /// Returns the conflicting fields of all managers.
    pub fn fields(&self) -> FieldSet {
        self.0.iter().map(|conflict| &conflict.path).collect()
    }
}

impl fmt::Display for Conflicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.0.as_slice() {
            return write!(
                f,
                "Apply failed with 1 conflict: conflict with {}: {}",
                describe(&only.manager),
                only.path
            );
        }
        write!(f, "Apply failed with {} conflicts: ", self.0.len())?;
        let mut newline = "";
        for group in self.0.chunk_by(|a, b| a.manager == b.manager) {
            write!(f, "{newline}conflicts with {}:", describe(&group[0].manager))?;
            group.iter().try_for_each(|conflict| write!(f, "\n- {}", conflict.path))?;
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
    fn cause_contains_field_and_manager() {
        let fields = FieldSet::of_fields(&[&["spec", "replicas"]]);
        let causes = Conflicts::new(vec![(id("m", Operation::Update, "scale"), fields)]).causes();
        let message = "conflict with \"m\" with subresource \"scale\" using apps/v1".to_owned();
        let field = ".spec.replicas".to_owned();
        assert_eq!(causes, [Cause { reason: "FieldManagerConflict", message, field }]);
    }
}
