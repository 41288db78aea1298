//! Pod specs: the order in which their parts are validated, and the small parts.

use std::collections::{BTreeMap, BTreeSet};

use coracle_meta::field::{ErrorList, FieldError, Path};
use serde_json::Value;

use super::{
    affinity, check, container, network, resources, security, toleration, topology, volume, windows,
};
use crate::{internal_types, view};

/// The object that a spec belongs to.
#[derive(Clone, Copy)]
pub(crate) enum Owner<'a> {
    /// A pod with this metadata.
    Pod(&'a Value),
    /// A template, from which pods are created.
    Template,
}

impl<'a> Owner<'a> {
    /// Name of the pod; empty if it is unknown.
    pub(crate) fn name(self) -> &'a str {
        match self {
            Self::Pod(metadata) => view::text(metadata, &["name"]),
            Self::Template => "",
        }
    }

    /// Returns true for a pod, false for a template.
    pub(crate) fn is_pod(self) -> bool {
        matches!(self, Self::Pod(_))
    }

    fn is_mirror(self) -> bool {
        matches!(self, Self::Pod(metadata)
            if view::at(metadata, &["annotations", "kubernetes.io/config.mirror"]).is_some())
    }
}

/// Parts of a spec on which the validation of its containers depends.
pub(crate) struct Context<'a> {
    pub(crate) spec: &'a Value,
    /// Valid volumes by name.
    pub(crate) volumes: BTreeMap<&'a str, &'a Value>,
    /// Names of the pod's resource claims.
    pub(crate) claims: BTreeSet<&'a str>,
    /// `terminationGracePeriodSeconds` of the pod.
    pub(crate) grace_period_s: Option<i64>,
    /// True if the pod uses the user namespace of the node.
    pub(crate) host_users: bool,
}

/// Validates a spec.
pub(crate) fn validate(spec: &Value, owner: Owner<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let grace_period_s = view::integer(spec, &["terminationGracePeriodSeconds"]);
    if grace_period_s.is_none() {
        errors.push(FieldError::required(&path.child("terminationGracePeriodSeconds"), ""));
    }
    let context = Context {
        spec,
        volumes: volume::validate_all(spec, owner, &path.child("volumes"), errors),
        claims: check::names(view::items(spec, &["resourceClaims"]))
            .filter(|name| !name.is_empty())
            .collect(),
        grace_period_s,
        host_users: view::at(spec, &["hostUsers"]).is_none_or(|value| *value == true),
    };
    resource_claims(spec, owner, &path.child("resourceClaims"), errors);
    container::validate_all(&context, path, errors);
    resources::validate_pod_level(&context, path, errors);
    network::host_ports(spec, owner, path, errors);
    check::one_of(spec, "restartPolicy", &["Always", "OnFailure", "Never"], path, errors);
    network::dns_policy(spec, path, errors);
    check::labels(spec.get("nodeSelector"), &path.child("nodeSelector"), errors);
    security::validate_pod(spec, &path.child("securityContext"), errors);
    affinity::validate(spec.get("affinity"), &path.child("affinity"), errors);
    network::dns_config(spec, &path.child("dnsConfig"), errors);
    gates(spec, path, errors);
    topology::validate(spec, &path.child("topologySpreadConstraints"), errors);
    windows::host_process(spec, path, errors);
    security::host_users(spec, path, errors);
    network::hostname_override(spec, path, errors);
    names(spec, path, errors);
    let tolerations = view::items(spec, &["tolerations"]);
    toleration::validate_tolerations(tolerations, &path.child("tolerations"), errors);
    network::host_aliases(spec, &path.child("hostAliases"), errors);
    scheduling(spec, path, errors);
    windows::operating_system(spec, path, errors);
    container::file_references(spec, path, errors);
}

fn resource_claims(spec: &Value, owner: Owner<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let mut seen = BTreeSet::new();
    for (index, claim) in view::items(spec, &["resourceClaims"]).iter().enumerate() {
        if owner.is_mirror() {
            let message = "static pods do not support resource claims";
            errors.push(FieldError::forbidden(&Path::root(""), message));
            continue;
        }
        let path = path.index(index);
        let name = check::required(claim, "name", &path, errors);
        if !name.is_empty() {
            if seen.insert(name) {
                check::dns_label(name, &path.child("name"), errors);
            } else {
                errors.push(FieldError::duplicate(&path.child("name"), name));
            }
        }
        claim_source(claim, &path, errors);
    }
}

fn claim_source(claim: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let sources = ["resourceClaimName", "resourceClaimTemplateName"];
    match sources.iter().filter(|source| claim.get(source).is_some()).count() {
        0 => {
            let message = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`";
            errors.push(FieldError::invalid(
                path,
                internal_types::printed("@core.PodResourceClaim", Some(claim)),
                message,
            ));
        }
        1 => {}
        _ => {
            let message =
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified";
            errors.push(FieldError::invalid(
                path,
                internal_types::printed("@core.PodResourceClaim", Some(claim)),
                message,
            ));
        }
    }
    for source in sources {
        if let Some(name) = claim.get(source).and_then(Value::as_str) {
            check::dns_subdomain(name, &path.child(source), errors);
        }
    }
}

fn gates(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let readiness = path.child("readinessGates");
    for (index, gate) in view::items(spec, &["readinessGates"]).iter().enumerate() {
        let path = readiness.index(index);
        check::qualified_name(view::text(gate, &["conditionType"]), &path.child("conditionType"), errors);
    }
    let scheduling = path.child("schedulingGates");
    let mut seen = BTreeSet::new();
    for (index, name) in check::names(view::items(spec, &["schedulingGates"])).enumerate() {
        check::qualified_name(name, &scheduling.index(index), errors);
        if !seen.insert(name) {
            errors.push(FieldError::duplicate(&scheduling.index(index), name));
        }
    }
}

/// Validates names of other objects, and the host name of the pod.
fn names(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let subdomain = |field: &str, errors: &mut ErrorList| {
        let name = view::text(spec, &[field]);
        if !name.is_empty() {
            check::dns_subdomain(name, &path.child(field), errors);
        }
    };
    subdomain("serviceAccountName", errors);
    subdomain("nodeName", errors);
    if let Some(deadline) = view::integer(spec, &["activeDeadlineSeconds"]) {
        check::in_range(deadline, 1, i64::from(i32::MAX), &path.child("activeDeadlineSeconds"), errors);
    }
    for field in ["hostname", "subdomain"] {
        let name = view::text(spec, &[field]);
        if !name.is_empty() {
            check::dns_label(name, &path.child(field), errors);
        }
    }
}

fn scheduling(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let class = view::text(spec, &["priorityClassName"]);
    if !class.is_empty() {
        check::dns_subdomain(class, &path.child("priorityClassName"), errors);
    }
    if let Some(class) = spec.get("runtimeClassName").and_then(Value::as_str) {
        check::dns_subdomain(class, &path.child("runtimeClassName"), errors);
    }
    if spec.get("preemptionPolicy").is_some() {
        check::one_of(spec, "preemptionPolicy", &["PreemptLowerPriority", "Never"], path, errors);
    }
    if let Some(overhead) = spec.get("overhead") {
        resources::validate_overhead(overhead, &path.child("overhead"), errors);
    }
}
