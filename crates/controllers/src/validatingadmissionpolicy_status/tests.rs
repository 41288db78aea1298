//! Policies with the results of Kubernetes' type checker.

use coracle_api::openapi::{self, GroupVersion, Resource, Subject};
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicySpec;
use kube::core::GroupVersionKind;
use serde_json::{Value, json};

use super::check::{self, DeclaredKind};
use super::{declare, kinds};

/// Group, version, and its resources with their kinds.
type ServedVersion = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

/// Kinds that the policies match.
const SERVED: &[ServedVersion] = &[
    (
        "",
        "v1",
        &[
            ("pods", "Pod"),
            ("services", "Service"),
            ("configmaps", "ConfigMap"),
            ("secrets", "Secret"),
            ("namespaces", "Namespace"),
            ("events", "Event"),
        ],
    ),
    ("events.k8s.io", "v1", &[("events", "Event")]),
    ("apps", "v1", &[("deployments", "Deployment"), ("statefulsets", "StatefulSet")]),
    ("batch", "v1", &[("cronjobs", "CronJob"), ("jobs", "Job")]),
    ("networking.k8s.io", "v1", &[("ingresses", "Ingress")]),
    ("apiextensions.k8s.io", "v1", &[("customresourcedefinitions", "CustomResourceDefinition")]),
    ("storage.k8s.io", "v1", &[("storageclasses", "StorageClass")]),
    ("autoscaling", "v1", &[("horizontalpodautoscalers", "HorizontalPodAutoscaler")]),
    ("autoscaling", "v2", &[("horizontalpodautoscalers", "HorizontalPodAutoscaler")]),
];

fn served() -> kinds::ServedKinds {
    let items: Vec<Value> = SERVED
        .iter()
        .map(|(group, version, resources)| {
            let resources: Vec<Value> = resources
                .iter()
                .map(|(resource, kind)| {
                    let response = json!({"group": group, "version": version, "kind": kind});
                    json!({
                        "resource": resource, "singularResource": kind.to_lowercase(), "responseKind": response,
                    })
                })
                .collect();
            json!({
                "metadata": {"name": group},
                "versions": [{"version": version, "resources": resources}],
            })
        })
        .collect();
    kinds::ServedKinds::new([serde_json::from_value(json!({"items": items})).unwrap()])
}

/// OpenAPI documents of all groups.
fn documents() -> Vec<(&'static str, &'static str, Value)> {
    let resource = |(name, kind): &(&'static str, &'static str)| Resource {
        name,
        kind,
        namespaced: true,
        verbs: &["get"],
        delete_returns_object: false,
        subresources: &[],
        list_kind: "List",
        definitions: &[],
    };
    SERVED
        .iter()
        .map(|(group, version, resources)| {
            let resources: Vec<_> = resources.iter().map(resource).collect();
            (*group, *version, openapi::v3(Subject::Resources(GroupVersion { group, version }, &resources)))
        })
        .collect()
}

fn declared_kind(documents: &[(&str, &str, Value)], kind: GroupVersionKind) -> Option<DeclaredKind> {
    let (.., document) =
        documents.iter().find(|(group, version, _)| *group == kind.group && *version == kind.version)?;
    let schemas = &document["components"]["schemas"];
    let name = declare::find(schemas, &kind)?;
    Some(DeclaredKind { decl: declare::declaration(schemas, name), kind })
}

#[test]
fn warnings_equal_those_of_kubernetes() {
    let (served, documents) = (served(), documents());
    let mut wrong = Vec::new();
    for case in include_str!("upstream.txt").split("\n\n") {
        let mut lines = case.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        let Some(text) = lines.next().and_then(|line| line.strip_prefix("spec ")) else { continue };
        let expected: Vec<&str> = lines.collect();
        let spec: ValidatingAdmissionPolicySpec = serde_json::from_str(text).unwrap();
        let kinds = kinds::resolve(&kinds::named_resources(&spec), &served);
        let kinds: Vec<_> = kinds.into_iter().filter_map(|kind| declared_kind(&documents, kind)).collect();
        let params = kinds::params(&spec)
            .map(|kind| declared_kind(&documents, kind.clone()).unwrap_or(DeclaredKind { kind, decl: None }));
        let shown = |warning: &Value| {
            let text = |field: &str| warning[field].as_str().unwrap().replace('\n', "\\n");
            format!("warning {} {}", text("fieldRef"), text("warning"))
        };
        let found: Vec<String> = check::warnings(&spec, &kinds, params.as_ref()).iter().map(shown).collect();
        if found != expected {
            let (expected, found) = (expected.join("\n    "), found.join("\n    "));
            wrong.push(format!("{text}\n  expected\n    {expected}\n  found\n    {found}"));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n\n"));
}
