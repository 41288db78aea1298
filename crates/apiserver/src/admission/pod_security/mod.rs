//! PodSecurity: enforces the Pod Security Standard that the labels of a namespace select.
//!
//! Pods that violate the enforced standard are rejected; workloads only get warnings about their pod template. The
//! labels are validated when a namespace is written, and a stricter standard warns about existing pods that violate it.
//! There are no exemptions, as by default in Kubernetes. Audit annotations go to the audit log, where there is one.

mod checks;
mod evaluate;
mod existing_pods;
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

/// Subresources of pods that do not affect how a pod runs.
const IGNORED_PARTS: &[&str] =
    &["exec", "attach", "binding", "eviction", "log", "portforward", "proxy", "status"];

/// Kinds with a pod template, and its path.
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
        // An update that cannot add violations needs no policy, so it is admitted even if the namespace is deleted.
        // Otherwise the finalizers of a pod there could not be removed.
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
        // A workload is always admitted; only its pods are rejected.
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

    /// Adds the audit annotations of a pod.
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

/// Rejects invalid labels, unless they were stored before, and warns about pods that violate a stricter standard.
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
        warnings.extend(existing_pods::warnings(attributes, view::name(namespace), policy.enforce).await);
    }
    Ok(())
}

/// Returns true if existing pods may violate the new standard.
fn is_stricter(new: Standard, old: Standard) -> bool {
    new != old && !new.is_privileged() && (new.version != old.version || new.level > old.level)
}

/// Rejects a pod whose namespace does not exist. For an update that is kube-apiserver's answer from NamespaceLifecycle.
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

/// The key of an audit annotation.
fn noted(what: &str) -> String {
    format!("{PREFIX}{what}")
}

/// Returns the policy of the namespace, with the errors in its labels; None if the namespace does not exist.
async fn policy_of(attributes: &Attributes<'_>) -> Result<Option<(Policy, ErrorList)>> {
    let namespace = attributes.cluster.find(&Namespace, "", attributes.write.namespace).await?;
    Ok(namespace.map(|namespace| Policy::of_namespace(&namespace)))
}

/// Returns true if an update of a pod can add violations: a changed image, or a new container. All other relevant
/// fields are immutable.
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
