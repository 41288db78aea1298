//! Containers of a pod: regular, init and ephemeral ones.

use std::collections::BTreeSet;

use coracle_meta::field::{BadValue, ErrorList, FieldError, Path};
use coracle_meta::name;
use serde_json::Value;

use super::spec::Context;
use super::{check, env, handler, mount, resources, security};
use crate::{internal_types, view};

/// The lists of containers, in the order in which kube-apiserver visits them.
pub(crate) const LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// Fields that ephemeral containers may have; all others are for regular containers.
const EPHEMERAL_FIELDS: &[&str] = &[
    "args",
    "command",
    "env",
    "envFrom",
    "image",
    "imagePullPolicy",
    "name",
    "securityContext",
    "stdin",
    "stdinOnce",
    "targetContainerName",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "tty",
    "volumeDevices",
    "volumeMounts",
    "workingDir",
];

/// Calls `visit` with each container and its path.
pub(crate) fn for_each(spec: &Value, path: &Path<'_>, mut visit: impl FnMut(&Value, &Path<'_>)) {
    for list in LISTS {
        let list_path = path.child(list);
        for (index, container) in view::items(spec, &[list]).iter().enumerate() {
            visit(container, &list_path.index(index));
        }
    }
}

/// Returns true for a restartable init container (sidecar), which keeps running beside the regular ones.
pub(crate) fn is_restartable(container: &Value) -> bool {
    view::text(container, &["restartPolicy"]) == "Always"
}

/// Validates all containers of a spec.
pub(super) fn validate_all(context: &Context<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    regular(context, &path.child("containers"), errors);
    init(context, &path.child("initContainers"), errors);
    ephemeral(context, &path.child("ephemeralContainers"), errors);
}

fn regular(context: &Context<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let containers = view::items(context.spec, &["containers"]);
    if containers.is_empty() {
        return errors.push(FieldError::required(path, ""));
    }
    let mut names = BTreeSet::new();
    for (index, container) in containers.iter().enumerate() {
        let path = path.index(index);
        any_container(container, context, &path, errors);
        let name = view::text(container, &["name"]);
        if !names.insert(name) {
            errors.push(FieldError::duplicate(&path.child("name"), name));
        }
        handler::validate(container, context, &path, errors);
        restart_policy(container, &path, errors);
    }
    host_port_conflicts(containers, path, errors);
}

fn init(context: &Context<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let mut names: BTreeSet<&str> = check::names(view::items(context.spec, &["containers"])).collect();
    for (index, container) in view::items(context.spec, &["initContainers"]).iter().enumerate() {
        let container_path = path.index(index);
        any_container(container, context, &container_path, errors);
        restart_policy(container, &container_path, errors);
        let name = view::text(container, &["name"]);
        if names.contains(name) {
            errors.push(FieldError::duplicate(&container_path.child("name"), name));
        } else if !name.is_empty() {
            names.insert(name);
        }
        // Init containers run one after the other, so they cannot conflict with each other.
        host_port_conflicts(std::slice::from_ref(container), path, errors);
        if is_restartable(container) {
            handler::validate(container, context, &container_path, errors);
        } else {
            handler::forbid(container, &container_path, errors);
            no_restart_on_resize(container, &container_path, errors);
        }
    }
}

fn no_restart_on_resize(container: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let list = path.child("resizePolicy");
    for (index, policy) in view::items(container, &["resizePolicy"]).iter().enumerate() {
        let value = view::text(policy, &["restartPolicy"]);
        if value == "RestartContainer" {
            let message = "must not be set to 'RestartContainer' for non-sidecar initContainers";
            let path = list.index(index);
            errors.push(FieldError::invalid(&path.child("restartPolicy"), BadValue::named(value), message));
        }
    }
}

fn ephemeral(context: &Context<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let others = ["containers", "initContainers"].map(|list| view::items(context.spec, &[list]));
    let targets: BTreeSet<&str> = others.into_iter().flat_map(check::names).collect();
    let mut names = targets.clone();
    for (index, container) in view::items(context.spec, &["ephemeralContainers"]).iter().enumerate() {
        let path = path.index(index);
        any_container(container, context, &path, errors);
        untrimmed_image(container, &path, errors);
        let name = view::text(container, &["name"]);
        if !names.insert(name) {
            errors.push(FieldError::duplicate(&path.child("name"), name));
        }
        let target = view::text(container, &["targetContainerName"]);
        if !target.is_empty() && !targets.contains(target) {
            errors.push(FieldError::not_found(&path.child("targetContainerName"), target));
        }
        ephemeral_fields(container, &path, errors);
    }
}

fn ephemeral_fields(container: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let message = "cannot be set for an Ephemeral Container";
    for field in internal_types::versioned_names("core.EphemeralContainer") {
        let Some(value) = container.get(field) else { continue };
        let is_empty = value.as_array().is_some_and(Vec::is_empty)
            || value.as_object().is_some_and(serde_json::Map::is_empty);
        if !is_empty && !EPHEMERAL_FIELDS.contains(&field) {
            errors.push(FieldError::forbidden(&path.child(field), message));
        }
    }
    let mounts = path.child("volumeMounts");
    for (index, mount) in view::items(container, &["volumeMounts"]).iter().enumerate() {
        for field in ["subPath", "subPathExpr"] {
            if !view::text(mount, &[field]).is_empty() {
                errors.push(FieldError::forbidden(&mounts.index(index).child(field), message));
            }
        }
    }
}

/// Validates what all containers have in common.
fn any_container(container: &Value, context: &Context<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let name = check::required(container, "name", path, errors);
    if !name.is_empty() {
        check::dns_label(name, &path.child("name"), errors);
    }
    check::required(container, "image", path, errors);
    let policies = &["File", "FallbackToLogsOnError"];
    check::one_of(container, "terminationMessagePolicy", policies, path, errors);
    ports(container, &path.child("ports"), errors);
    env::validate(container, path, errors);
    mount::validate(container, context, path, errors);
    check::one_of(container, "imagePullPolicy", &["Always", "IfNotPresent", "Never"], path, errors);
    if let Some(found) = container.get("resources") {
        resources::validate_container(found, &context.claims, &path.child("resources"), errors);
    }
    resize_policy(container, context, &path.child("resizePolicy"), errors);
    if let Some(found) = container.get("securityContext") {
        security::validate_container(found, context.host_users, &path.child("securityContext"), errors);
    }
}

/// Rejects whitespace around the image. It applies to pods, but not to templates.
pub(crate) fn untrimmed_image(container: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let image = view::text(container, &["image"]);
    if image.trim() != image {
        let message = "must not have leading or trailing whitespace";
        errors.push(FieldError::invalid(&path.child("image"), image, message));
    }
}

fn ports(container: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let mut names = BTreeSet::new();
    for (index, port) in view::items(container, &["ports"]).iter().enumerate() {
        let path = path.index(index);
        let name = view::text(port, &["name"]);
        if !name.is_empty() {
            let messages = name::port_name(name);
            if messages.is_empty() && !names.insert(name) {
                errors.push(FieldError::duplicate(&path.child("name"), name));
            }
            check::push_all(name, messages, &path.child("name"), errors);
        }
        match view::integer(port, &["containerPort"]).unwrap_or(0) {
            0 => errors.push(FieldError::required(&path.child("containerPort"), "")),
            number => check::in_range(number, 1, 65_535, &path.child("containerPort"), errors),
        }
        match view::integer(port, &["hostPort"]).unwrap_or(0) {
            0 => {}
            number => check::in_range(number, 1, 65_535, &path.child("hostPort"), errors),
        }
        check::one_of(port, "protocol", &["SCTP", "TCP", "UDP"], &path, errors);
    }
}

fn host_port_conflicts(containers: &[Value], path: &Path<'_>, errors: &mut ErrorList) {
    let mut taken = BTreeSet::new();
    for (index, container) in containers.iter().enumerate() {
        let container_path = path.index(index);
        let ports = container_path.child("ports");
        for (index, port) in view::items(container, &["ports"]).iter().enumerate() {
            let number = view::integer(port, &["hostPort"]).unwrap_or(0);
            if number == 0 {
                continue;
            }
            let (protocol, address) = (view::text(port, &["protocol"]), view::text(port, &["hostIP"]));
            let text = format!("{protocol}/{address}/{number}");
            if taken.contains(&text) {
                errors.push(FieldError::duplicate(&ports.index(index).child("hostPort"), text));
            } else {
                taken.insert(text);
            }
        }
    }
}

/// Validates resize policies. kube-apiserver reports all errors at the list.
fn resize_policy(container: &Value, context: &Context<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let mut seen = BTreeSet::new();
    for (index, policy) in view::items(container, &["resizePolicy"]).iter().enumerate() {
        let resource = view::text(policy, &["resourceName"]);
        if !seen.insert(resource) {
            errors.push(FieldError::duplicate(&path.index(index), BadValue::named(resource)));
        }
        let restart = view::text(policy, &["restartPolicy"]);
        for (value, allowed) in
            [(resource, &["cpu", "memory"]), (restart, &["NotRequired", "RestartContainer"])]
        {
            if value.is_empty() {
                errors.push(FieldError::required(path, ""));
            } else {
                check::supported(value, allowed, path, errors);
            }
        }
        if view::text(context.spec, &["restartPolicy"]) == "Never" && restart != "NotRequired" {
            let message = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
            errors.push(FieldError::invalid(path, BadValue::named(restart), message));
        }
    }
}

fn restart_policy(container: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let rules = view::items(container, &["restartPolicyRules"]);
    if container.get("restartPolicy").is_none() && !rules.is_empty() {
        let message = "must specify restartPolicy when restart rules are used";
        errors.push(FieldError::required(&path.child("restartPolicy"), message));
    }
    check::one_of_if_set(container, "restartPolicy", &["Always", "Never", "OnFailure"], path, errors);
    let list = path.child("restartPolicyRules");
    if rules.len() > 20 {
        errors.push(FieldError::too_many(&list, rules.len(), 20));
    }
    for (index, rule) in rules.iter().enumerate() {
        let path = list.index(index);
        let actions = &["Restart", "RestartAllContainers"];
        check::supported(view::text(rule, &["action"]), actions, &path.child("action"), errors);
        let codes_path = path.child("exitCodes");
        let Some(codes) = rule.get("exitCodes") else {
            errors.push(FieldError::required(&codes_path, "must be specified"));
            continue;
        };
        let operator = view::text(codes, &["operator"]);
        check::supported(operator, &["In", "NotIn"], &codes_path.child("operator"), errors);
        let values = view::items(codes, &["values"]).len();
        if values > 255 {
            errors.push(FieldError::too_many(&codes_path.child("values"), values, 255));
        }
    }
}

/// Requires that environment files are read from volumes of type `emptyDir`.
pub(super) fn file_references(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let volumes = view::items(spec, &["volumes"]);
    for_each(spec, path, |container, path| {
        let env = path.child("env");
        for (index, variable) in view::items(container, &["env"]).iter().enumerate() {
            let Some(reference) = view::at(variable, &["valueFrom", "fileKeyRef"]) else { continue };
            let name = view::text(reference, &["volumeName"]);
            let path = env.index(index);
            let path = path.child("valueFrom.fileKeyRef.volumeName");
            match volumes.iter().find(|volume| view::text(volume, &["name"]) == name) {
                None => errors.push(FieldError::not_found(&path, name)),
                Some(volume) if volume.get("emptyDir").is_none() => {
                    let message = "referenced volume must be of type emptyDir";
                    errors.push(FieldError::invalid(&path, name, message));
                }
                Some(_) => {}
            }
        }
    });
}
