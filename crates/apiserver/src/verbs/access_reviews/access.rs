//! SubjectAccessReview, LocalSubjectAccessReview, SelfSubjectAccessReview and SelfSubjectRulesReview.

use coracle_registry::{Identity, view};
use serde_json::{Value, json};

use super::super::ResourceRequest;
use super::selectors;
use crate::authorization::{Attributes, Decision, ResourceTarget, Rules, Target};
use crate::negotiate::to_value;
use crate::status::Refusal;

impl ResourceRequest {
    /// Evaluates an access review. Returns its status.
    pub(super) async fn review_access(&self, question: &Value) -> Result<Value, Refusal> {
        let spec = question.get("spec").unwrap_or(&Value::Null);
        let asked_for;
        let identity = if self.kind.declaration().kind == "SelfSubjectAccessReview" {
            &*self.identity
        } else {
            asked_for = subject(spec);
            &asked_for
        };
        let resource = spec.get("resourceAttributes").unwrap_or(&Value::Null);
        let (fields, labels) = (selectors::of_fields(resource), selectors::of_labels(resource));
        let mut attributes = attributes(spec);
        if let Target::Resource(target) = &mut attributes.target {
            target.field_selector = &fields.requirements;
            target.label_selector = &labels.requirements;
        }
        let authorizer = &self.components.authorizer;
        let decision = authorizer.authorize(&self.cluster, identity, &attributes).await?;
        let problems = [fields.problem("fieldSelector"), labels.problem("labelSelector")];
        Ok(status(decision, problems.into_iter().flatten()))
    }

    /// Evaluates a SelfSubjectRulesReview. The response does not repeat the spec.
    pub(super) async fn what_may_i(&self, question: &Value) -> Result<Value, Refusal> {
        let namespace = view::text(question, &["spec", "namespace"]);
        if namespace.is_empty() {
            return Err(Refusal::bad_request("no namespace on request"));
        }
        let permissions = self.components.authorizer.permissions(&self.cluster).await?;
        let rules = permissions.rules(&self.identity, namespace);
        let Rules { resource_rules, non_resource_rules, incomplete, evaluation_error } = rules;
        let mut status = json!({
            "resourceRules": to_value(&resource_rules),
            "nonResourceRules": to_value(&non_resource_rules),
            "incomplete": incomplete,
        });
        if !evaluation_error.is_empty() {
            status["evaluationError"] = evaluation_error.into();
        }
        Ok(json!({
            "kind": "SelfSubjectRulesReview",
            "apiVersion": "authorization.k8s.io/v1",
            "metadata": {},
            "spec": {},
            "status": status,
        }))
    }
}

/// Builds the status from the decision and the parse errors of the selectors.
fn status(decision: Decision, problems: impl Iterator<Item = String>) -> Value {
    let Decision { allowed, denied, reason, evaluation_error } = decision;
    let errors = Some(evaluation_error).filter(|error| !error.is_empty()).into_iter().chain(problems);
    let mut status = json!({"allowed": allowed});
    if denied {
        status["denied"] = true.into();
    }
    for (field, text) in [("reason", reason), ("evaluationError", errors.collect::<Vec<_>>().join("; "))] {
        if !text.is_empty() {
            status[field] = text.into();
        }
    }
    status
}

/// Returns the user of a review.
fn subject(spec: &Value) -> Identity {
    let texts = |value: &Value| {
        let items = value.as_array().into_iter().flatten();
        items.filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>()
    };
    Identity {
        name: view::text(spec, &["user"]).to_owned(),
        uid: view::text(spec, &["uid"]).to_owned(),
        groups: spec.get("groups").map(texts).unwrap_or_default(),
        extra: view::fields(spec, &["extra"])
            .map(|(key, values)| (key.to_lowercase(), texts(values)))
            .collect(),
    }
}

/// Returns the attributes of a review: verb, and resource or path.
fn attributes(spec: &Value) -> Attributes<'_> {
    if let Some(path) = spec.get("nonResourceAttributes") {
        return Attributes {
            verb: view::text(path, &["verb"]),
            target: Target::Path(view::text(path, &["path"])),
        };
    }
    let resource = spec.get("resourceAttributes").unwrap_or(&Value::Null);
    let text = |field| view::text(resource, &[field]);
    Attributes {
        verb: text("verb"),
        target: Target::Resource(ResourceTarget {
            group: text("group"),
            version: Some(text("version")).filter(|version| !version.is_empty()).unwrap_or("*"),
            resource: text("resource"),
            subresource: text("subresource"),
            namespace: text("namespace"),
            name: text("name"),
            ..ResourceTarget::default()
        }),
    }
}
