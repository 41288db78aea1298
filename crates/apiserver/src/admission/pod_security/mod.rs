//! PodSecurity: pods keep the standard that the labels of their namespace ask for.
//!
//! What is enforced is refused for pods; workloads are only warned of what their pods would violate. The
//! labels themselves are checked when a namespace is written, and who makes them stricter is told which
//! pods violate them already. Nobody is exempt, which is upstream's default. What
//! the labels ask to be noted goes to the audit log, where there is one.

mod checks;
mod evaluate;
mod existing;
mod metrics;
mod pod;
mod policy;
#[cfg(test)]
mod tests;

use coracle_base::metrics::Metrics;
use coracle_meta::field::ErrorList;
use coracle_meta::status::Status;
use coracle_registry::admission::{Attributes, BoxFuture, Operation};
use coracle_registry::kinds::core::namespace::Namespace;
use coracle_registry::{Error, Result, Subject, view};
use serde_json::Value;

use super::PODS;
use super::plugin::{Plugin, Rule, forbidden, name_of};
use evaluate::{Violation, details, violations};
use metrics::{Mode, PodSecurityMetrics};
use pod::Pod;
use policy::{PREFIX, Policy, Standard};

const NAMESPACES: &str = "namespaces";

/// Parts of pods that say nothing about how they run.
const IGNORED_PARTS: &[&str] =
    &["exec", "attach", "binding", "eviction", "log", "portforward", "proxy", "status"];

/// Kinds that make pods, and where their template is.
const TEMPLATES: &[(&str, &str, &[&str])] = &[
    ("", "podtemplates", &["template"]),
    ("", "replicationcontrollers", &["spec", "template"]),
    ("apps", "replicasets", &["spec", "template"]),
    ("apps", "deployments", &["spec", "template"]),
    ("apps", "statefulsets", &["spec", "template"]),
    ("apps", "daemonsets", &["spec", "template"]),
    ("batch", "jobs", &["spec", "template"]),
    ("batch", "cronjobs", &["spec", "jobTemplate", "spec", "template"]),
];

/// The plugin.
pub(super) struct PodSecurity {
    metrics: PodSecurityMetrics,
}

impl PodSecurity {
    pub(super) fn new(metrics: &Metrics) -> Self {
        Self { metrics: PodSecurityMetrics::new(metrics) }
    }

    async fn check_pod(
        &self,
        attributes: &Attributes<'_>,
        pod: &Value,
        warnings: &mut Vec<String>,
    ) -> Result<()> {
        // An update that could not violate more than before needs no policy, so it is admitted also in a namespace that is
        // gone. Without that nobody could remove the finalizers of a pod there.
        let insignificant = attributes.old.is_some_and(|old| !is_significant(pod, old));
        if IGNORED_PARTS.contains(&attributes.write.subresource) || insignificant {
            return Ok(());
        }
        let Some((policy, mistakes)) = policy_of(attributes).await? else {
            self.metrics.note_error(attributes, true);
            return Err(missing_namespace(attributes));
        };
        let fully_privileged =
            [policy.enforce, policy.audit, policy.warn].iter().all(|mode| mode.is_privileged());
        if mistakes.is_empty() && fully_privileged {
            self.metrics.note_evaluation(attributes, Mode::Enforce, policy.enforce, false);
            return Ok(());
        }
        let pod_view = Pod::of(pod);
        attributes.annotate(&noted("enforce-policy"), || policy.enforce.to_string());
        self.audit(attributes, &policy, &mistakes, &pod_view);
        let enforced = violations(policy.enforce, &pod_view);
        self.metrics.note_evaluation(attributes, Mode::Enforce, policy.enforce, !enforced.is_empty());
        if !enforced.is_empty() {
            let message = format!("violates PodSecurity \"{}\": {}", policy.enforce, details(&enforced));
            return Err(forbidden(attributes, pod, message));
        }
        self.warn(attributes, policy.warn, &pod_view, warnings);
        Ok(())
    }

    async fn check_template(
        &self,
        attributes: &Attributes<'_>,
        object: &Value,
        warnings: &mut Vec<String>,
    ) -> Result<()> {
        let declaration = attributes.write.kind.declaration();
        let here = |(group, resource, _): &&(&str, &str, _)| {
            *group == declaration.group && *resource == declaration.plural
        };
        let template = TEMPLATES.iter().find(here).and_then(|(_, _, path)| view::at(object, path));
        // A workload is let in whatever its namespace says: its pods are not.
        if let (Some(template), Some((policy, mistakes))) = (template, policy_of(attributes).await?) {
            let pod = Pod::of(template);
            self.audit(attributes, &policy, &mistakes, &pod);
            self.warn(attributes, policy.warn, &pod, warnings);
        }
        Ok(())
    }

    fn warn(
        &self,
        attributes: &Attributes<'_>,
        standard: Standard,
        pod: &Pod<'_>,
        warnings: &mut Vec<String>,
    ) {
        if let Some(violations) = would_violate(standard, pod) {
            self.metrics.note_evaluation(attributes, Mode::Warn, standard, true);
            warnings.push(violations);
        }
    }

    /// Notes what the audit log should know of a pod.
    fn audit(&self, attributes: &Attributes<'_>, policy: &Policy, mistakes: &ErrorList, pod: &Pod<'_>) {
        if !mistakes.is_empty() {
            self.metrics.note_error(attributes, false);
            attributes.annotate(&noted("error"), || format!("Failed to parse policy: {mistakes}"));
        }
        if let Some(violations) = would_violate(policy.audit, pod) {
            self.metrics.note_evaluation(attributes, Mode::Audit, policy.audit, true);
            attributes.annotate(&noted("audit-violations"), || violations);
        }
    }
}

impl Plugin for PodSecurity {
    fn name(&self) -> &str {
        "PodSecurity"
    }

    fn validates(&self) -> Vec<Rule> {
        let writes = [Operation::Create, Operation::Update];
        let templates = TEMPLATES.iter().map(|(group, resource, _)| Rule::new(*group, *resource, &writes));
        [Rule::new("", NAMESPACES, &writes), Rule::new("", PODS, &writes).of_subresource("*")]
            .into_iter()
            .chain(templates)
            .collect()
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: &'a Value,
        warnings: &'a mut Vec<String>,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            match &*attributes.write.kind.declaration().plural {
                NAMESPACES => check_namespace(attributes, object, warnings).await,
                PODS => self.check_pod(attributes, object, warnings).await,
                _ => self.check_template(attributes, object, warnings).await,
            }
        })
    }
}

/// Refuses labels that mean nothing, unless they did so before, and tells of pods that a stricter
/// standard would not let in any more.
async fn check_namespace(
    attributes: &Attributes<'_>,
    namespace: &Value,
    warnings: &mut Vec<String>,
) -> Result<()> {
    let (policy, errors) = Policy::of_namespace(namespace);
    let before = attributes.old.map(Policy::of_namespace);
    if !errors.is_empty() && before.as_ref().is_none_or(|(_, known)| *known != errors) {
        let name = name_of(attributes, namespace);
        let subject = Box::new(Subject::of(attributes.write.kind.declaration(), name));
        return Err(Error::Invalid { subject, errors });
    }
    if let Some((before, _)) = before
        && is_stricter(policy.enforce, before.enforce)
    {
        warnings.extend(existing::warnings(attributes, view::name(namespace), policy.enforce).await);
    }
    Ok(())
}

/// Whether pods may be there that were let in by one standard and violate the other.
fn is_stricter(new: Standard, old: Standard) -> bool {
    new != old && !new.is_privileged() && (new.version != old.version || new.level > old.level)
}

/// Refuses a pod of which no policy is known. For an update that is kube-apiserver's answer from NamespaceLifecycle.
fn missing_namespace(attributes: &Attributes<'_>) -> Error {
    let namespace = attributes.write.namespace;
    Error::Refused(Box::new(match attributes.operation {
        Operation::Update => Status::namespace_not_found(namespace),
        _ => Status::internal_error(format!("failed to lookup namespace {namespace:?}")),
    }))
}

fn would_violate(standard: Standard, pod: &Pod<'_>) -> Option<String> {
    let found: Vec<Violation> = violations(standard, pod);
    (!found.is_empty()).then(|| format!("would violate PodSecurity \"{standard}\": {}", details(&found)))
}

/// The key of a note.
fn noted(what: &str) -> String {
    format!("{PREFIX}{what}")
}

/// What the namespace of a write asks for, and what is wrong with its labels, if it is there.
async fn policy_of(attributes: &Attributes<'_>) -> Result<Option<(Policy, ErrorList)>> {
    let namespace = attributes.cluster.find(&Namespace, "", attributes.write.namespace).await?;
    Ok(namespace.map(|namespace| Policy::of_namespace(&namespace)))
}

/// Whether a pod that changes could do more than before: another image, or another container. What
/// else matters cannot change.
fn is_significant(pod: &Value, old: &Value) -> bool {
    let image = |container: &Value| view::text(container, &["image"]).to_owned();
    let images = |pod: &Value, list: &str| -> Vec<String> {
        view::items(pod, &["spec", list]).iter().map(image).collect()
    };
    if ["containers", "initContainers"].into_iter().any(|list| images(pod, list) != images(old, list)) {
        return true;
    }
    let list = ["spec", "ephemeralContainers"];
    view::items(pod, &list).iter().any(|container| {
        let same = view::items(old, &list).iter().find(|known| known["name"] == container["name"]);
        same.is_none_or(|known| image(known) != image(container))
    })
}
