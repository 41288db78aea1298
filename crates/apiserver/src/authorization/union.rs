//! A chain of authorizers: the first with an opinion decides.

use std::sync::Arc;

use coracle_base::metrics::{Counters, Metrics};
use coracle_registry::{Cluster, Identity};

use super::{
    Attributes, Authorizer, AuthorizerLabel, Decision, PendingDecision, PendingPermissions, Permissions,
    Rules,
};

/// Several authorizers, tried in order.
pub struct Union {
    authorizers: Vec<Arc<dyn Authorizer>>,
    decisions: Option<Counters<3>>,
}

impl Union {
    /// Combines the authorizers, in this order.
    pub fn new(authorizers: impl IntoIterator<Item = Arc<dyn Authorizer>>) -> Self {
        Self { authorizers: authorizers.into_iter().collect(), decisions: None }
    }

    /// Counts the decisions of the authorizers that have labels.
    #[must_use]
    pub(crate) fn with_metrics(self, metrics: &Metrics) -> Self {
        let decisions = metrics.counters(
            "apiserver_authorization_decisions_total",
            "Decisions of authorizers that allow or deny.",
            ["decision", "name", "type"],
        );
        Self { decisions: Some(decisions), ..self }
    }
}

impl Authorizer for Union {
    fn forget_cluster(&self, id: &str) {
        self.authorizers.iter().for_each(|authorizer| authorizer.forget_cluster(id));
    }

    fn cached_clusters(&self) -> usize {
        self.authorizers.iter().map(|authorizer| authorizer.cached_clusters()).sum()
    }

    fn permissions<'a>(&'a self, cluster: &'a Cluster) -> PendingPermissions<'a> {
        Box::pin(async move {
            let mut all = Vec::with_capacity(self.authorizers.len());
            for authorizer in &self.authorizers {
                all.push((authorizer.label(), authorizer.permissions(cluster).await?));
            }
            let decisions = self.decisions.clone();
            Ok(Arc::new(UnionPermissions { all, decisions }) as Arc<dyn Permissions>)
        })
    }

    fn authorize<'a>(
        &'a self,
        cluster: &'a Cluster,
        identity: &'a Identity,
        attributes: &'a Attributes<'a>,
    ) -> PendingDecision<'a> {
        Box::pin(async move {
            let mut undecided = Undecided::default();
            for authorizer in &self.authorizers {
                let decision = authorizer.authorize(cluster, identity, attributes).await?;
                if let Some(decision) = undecided.or(decision) {
                    count(self.decisions.as_ref(), authorizer.label(), &decision);
                    return Ok(decision);
                }
            }
            Ok(undecided.into_decision())
        })
    }
}

/// The reasons and errors of the authorizers that had no opinion.
#[derive(Default)]
struct Undecided {
    reasons: Vec<String>,
    errors: Vec<String>,
}

impl Undecided {
    /// Returns the decision if it has an opinion; otherwise records its reason and error.
    fn or(&mut self, decision: Decision) -> Option<Decision> {
        if decision.allowed || decision.denied {
            return Some(decision);
        }
        self.reasons.extend(Some(decision.reason).filter(|reason| !reason.is_empty()));
        self.errors.extend(Some(decision.evaluation_error).filter(|error| !error.is_empty()));
        None
    }

    fn into_decision(self) -> Decision {
        Decision {
            reason: self.reasons.join("\n"),
            evaluation_error: aggregate(self.errors),
            ..Decision::default()
        }
    }
}

struct UnionPermissions {
    all: Vec<(Option<AuthorizerLabel>, Arc<dyn Permissions>)>,
    decisions: Option<Counters<3>>,
}

fn count(decisions: Option<&Counters<3>>, label: Option<AuthorizerLabel>, decision: &Decision) {
    if let (Some(decisions), Some(AuthorizerLabel { kind, name })) = (decisions, label) {
        let decision = if decision.allowed { "allowed" } else { "denied" };
        decisions.with([decision, name, kind]).inc();
    }
}

impl Permissions for UnionPermissions {
    fn authorize(&self, identity: &Identity, attributes: &Attributes<'_>) -> Decision {
        let mut undecided = Undecided::default();
        let decided = self.all.iter().find_map(|(label, permissions)| {
            let decision = undecided.or(permissions.authorize(identity, attributes))?;
            count(self.decisions.as_ref(), *label, &decision);
            Some(decision)
        });
        decided.unwrap_or_else(|| undecided.into_decision())
    }

    fn rules(&self, identity: &Identity, namespace: &str) -> Rules {
        let mut all = Rules::default();
        let mut errors = Vec::new();
        for (_, permissions) in &self.all {
            let rules = permissions.rules(identity, namespace);
            all.resource_rules.extend(rules.resource_rules);
            all.non_resource_rules.extend(rules.non_resource_rules);
            all.incomplete |= rules.incomplete;
            errors.extend(Some(rules.evaluation_error).filter(|error| !error.is_empty()));
        }
        Rules { evaluation_error: aggregate(errors), ..all }
    }
}

/// Joins several errors like `NewAggregate` of k8s.io/apimachinery (`pkg/util/errors`): each once, and in brackets if
/// there is more than one.
pub(super) fn aggregate(errors: impl IntoIterator<Item = String>) -> String {
    let mut distinct: Vec<String> = Vec::new();
    for error in errors {
        if !distinct.contains(&error) {
            distinct.push(error);
        }
    }
    match distinct.as_slice() {
        [one] => one.clone(),
        [] => String::new(),
        several => format!("[{}]", several.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authorization::{Target, ready};

    /// An authorizer with a fixed decision.
    #[derive(Clone)]
    struct Says(Decision);

    impl Authorizer for Says {
        fn permissions<'a>(&'a self, _cluster: &'a Cluster) -> PendingPermissions<'a> {
            ready(Arc::new(self.clone()))
        }
    }

    impl Permissions for Says {
        fn authorize(&self, _identity: &Identity, _attributes: &Attributes<'_>) -> Decision {
            self.0.clone()
        }

        fn rules(&self, _identity: &Identity, _namespace: &str) -> Rules {
            Rules { incomplete: true, evaluation_error: self.0.reason.clone(), ..Rules::default() }
        }
    }

    fn says(allowed: bool, denied: bool, reason: &str) -> Decision {
        Decision { allowed, denied, reason: reason.to_owned(), evaluation_error: reason.to_owned() }
    }

    async fn decided(answers: &[Decision]) -> Decision {
        let registry = coracle_registry::Registry::in_memory();
        let authorizers = answers.iter().map(|says| Arc::new(Says(says.clone())) as Arc<dyn Authorizer>);
        let union = Union::new(authorizers);
        let cluster = registry.cluster("default").unwrap();
        let permissions = union.permissions(&cluster).await.unwrap();
        let attributes = Attributes { verb: "get", target: Target::Path("/") };
        let decision = permissions.authorize(&Identity::default(), &attributes);
        assert_eq!(union.authorize(&cluster, &Identity::default(), &attributes).await.unwrap(), decision);
        decision
    }

    #[tokio::test]
    async fn first_authorizer_with_an_opinion_decides() {
        let (no_opinion, yes, no) =
            (says(false, false, "a"), says(true, false, "yes"), says(false, true, "no"));
        assert_eq!(decided(&[no_opinion.clone(), yes.clone(), no.clone()]).await, yes);
        assert_eq!(decided(&[no_opinion.clone(), no.clone(), yes.clone()]).await, no);
        let undecided = decided(&[no_opinion.clone(), says(false, false, "b"), no_opinion]).await;
        assert_eq!((undecided.allowed, undecided.denied), (false, false));
        assert_eq!((&*undecided.reason, &*undecided.evaluation_error), ("a\nb\na", "[a, b]"));
        assert_eq!(decided(&[]).await, Decision::default());
    }
}
