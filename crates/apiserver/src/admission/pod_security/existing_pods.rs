//! Warnings about existing pods when the standard of their namespace becomes stricter.

use std::collections::BTreeMap;

use coracle_registry::admission::Attributes;
use coracle_registry::kinds::core::pod::Pod as PodKind;
use coracle_registry::lifecycle::{ListOptions, tree};
use coracle_registry::{Result, view};
use serde_json::Value;

use super::evaluate::{reasons, violations};
use super::pod::Pod;
use super::policy::Standard;

/// The number of pods that are checked (`defaultNamespaceMaxPodsToCheck` in kube-apiserver). If there are more, a
/// warning says so.
const MAX_PODS: usize = 3000;

/// The warnings for a new enforced standard.
pub(super) async fn warnings(
    attributes: &Attributes<'_>,
    namespace: &str,
    standard: Standard,
) -> Vec<String> {
    match pods(attributes, namespace).await {
        Ok((pods, total)) => format_warnings(namespace, standard, &pods, total),
        Err(_) => vec!["failed to list pods while checking new PodSecurity enforce level".to_owned()],
    }
}

/// The pods that are checked, and the total number.
async fn pods(attributes: &Attributes<'_>, namespace: &str) -> Result<(Vec<Value>, usize)> {
    let options = ListOptions { limit: MAX_PODS, ..ListOptions::default() };
    let page = attributes.cluster.list(&PodKind, namespace, &options).await?;
    let pods: Vec<Value> = page.entries.iter().map(tree).collect::<Result<_>>()?;
    let remaining = page.remaining.and_then(|remaining| usize::try_from(remaining).ok()).unwrap_or(0);
    let total = pods.len() + remaining;
    Ok((pods, total))
}

fn format_warnings(namespace: &str, standard: Standard, pods: &[Value], total: usize) -> Vec<String> {
    // The first name and the number of pods, by their violations.
    let mut by_reasons: BTreeMap<String, (&str, usize)> = BTreeMap::new();
    for pod in pods {
        let found = violations(standard, &Pod::of(pod));
        if !found.is_empty() {
            let name = view::name(pod);
            let (first, count) = by_reasons.entry(reasons(&found)).or_insert((name, 0));
            *first = name.min(*first);
            *count += 1;
        }
    }
    let mut warnings = Vec::new();
    if pods.len() < total {
        let checked = pods.len();
        warnings.push(format!(
            "new PodSecurity enforce level only checked against the first {checked} of {total} existing pods"
        ));
    }
    if !by_reasons.is_empty() {
        warnings.push(format!(
            "existing pods in namespace {namespace:?} violate the new PodSecurity enforce level \"{standard}\""
        ));
    }
    let mut of_pods: Vec<String> = by_reasons
        .into_iter()
        .map(|(reasons, (name, count))| match count {
            1 => format!("{name}: {reasons}"),
            2 => format!("{name} (and 1 other pod): {reasons}"),
            _ => format!("{name} (and {} other pods): {reasons}", count - 1),
        })
        .collect();
    of_pods.sort();
    warnings.extend(of_pods);
    warnings
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::policy::{Level, Version};
    use super::*;

    #[test]
    fn pods_with_equal_violations_share_a_warning() {
        let standard = Standard { level: Level::Baseline, version: Version::Latest };
        let pod = |name: &str, field: &str| json!({"metadata": {"name": name}, "spec": {field: true}});
        let pods = [
            pod("c", "hostPID"),
            pod("b", "hostPID"),
            pod("a", "none"),
            json!({"metadata": {"name": "d"}, "spec": {"containers": [
                {"name": "x", "ports": [{"hostPort": 1}]}
            ]}}),
            pod("e", "hostIPC"),
        ];
        assert_eq!(
            format_warnings("n", standard, &pods, 7),
            [
                "new PodSecurity enforce level only checked against the first 5 of 7 existing pods",
                "existing pods in namespace \"n\" violate the new PodSecurity enforce level \"baseline:latest\"",
                "b (and 2 other pods): host namespaces",
                "d: hostPort",
            ]
        );
        assert!(format_warnings("n", standard, &pods[2..3], 1).is_empty());
    }
}
