//! Probes and lifecycle hooks of containers.

use coracle_meta::field::{ErrorList, FieldError, Path};
use coracle_meta::name;
use serde_json::Value;

use super::check;
use super::spec::Context;
use crate::view;

const PROBES: [&str; 3] = ["livenessProbe", "readinessProbe", "startupProbe"];

/// Validates the hooks and probes of a container that may have them.
pub(super) fn validate(container: &Value, context: &Context<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    for hook in ["postStart", "preStop"] {
        if let Some(handler) = view::at(container, &["lifecycle", hook]) {
            let lifecycle = path.child("lifecycle");
            let kinds = &["exec", "httpGet", "tcpSocket", "sleep"];
            action(handler, kinds, context.grace_period_s, &lifecycle.child(hook), errors);
        }
    }
    for field in PROBES {
        if let Some(found) = container.get(field) {
            probe(found, field, &path.child(field), errors);
        }
    }
}

/// Rejects hooks and probes on containers that run only once.
pub(super) fn forbid(container: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    for field in ["lifecycle"].into_iter().chain(PROBES) {
        if container.get(field).is_some() {
            let message = "may not be set for init containers without restartPolicy=Always";
            errors.push(FieldError::forbidden(&path.child(field), message));
        }
    }
}

fn probe(probe: &Value, field: &str, path: &Path<'_>, errors: &mut ErrorList) {
    action(probe, &["exec", "httpGet", "tcpSocket", "grpc"], None, path, errors);
    for number in
        ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
    {
        check::non_negative(probe, number, path, errors);
    }
    let grace_period = view::integer(probe, &["terminationGracePeriodSeconds"]);
    let grace_path = path.child("terminationGracePeriodSeconds");
    if let Some(seconds) = grace_period
        && seconds <= 0
    {
        errors.push(FieldError::invalid(&grace_path, seconds, "must be greater than 0"));
    }
    if field == "readinessProbe" {
        if let Some(seconds) = grace_period {
            let message = "must not be set for readinessProbes";
            errors.push(FieldError::invalid(&grace_path, seconds, message));
        }
        return;
    }
    let threshold = view::integer(probe, &["successThreshold"]).unwrap_or(0);
    if threshold != 1 {
        errors.push(FieldError::invalid(&path.child("successThreshold"), threshold, "must be 1"));
    }
}

/// Requires exactly one of these kinds of action.
fn action(
    handler: &Value,
    kinds: &[&str],
    grace_period_s: Option<i64>,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let mut found = false;
    for kind in kinds {
        let Some(action) = handler.get(kind) else { continue };
        let path = path.child(kind);
        if found {
            errors.push(FieldError::forbidden(&path, "may not specify more than 1 handler type"));
            continue;
        }
        found = true;
        match *kind {
            "exec" if view::items(action, &["command"]).is_empty() => {
                errors.push(FieldError::required(&path.child("command"), ""));
            }
            "httpGet" => http_get(action, &path, errors),
            "tcpSocket" | "grpc" => check::port(action.get("port"), &path.child("port"), errors),
            "sleep" => sleep(action, grace_period_s, &path, errors),
            _ => {}
        }
    }
    if !found {
        errors.push(FieldError::required(path, "must specify a handler type"));
    }
}

fn http_get(action: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    check::required(action, "path", path, errors);
    check::port(action.get("port"), &path.child("port"), errors);
    check::supported(view::text(action, &["scheme"]), &["HTTP", "HTTPS"], &path.child("scheme"), errors);
    for header in check::names(view::items(action, &["httpHeaders"])) {
        check::push_all(header, name::http_header_name(header), &path.child("httpHeaders"), errors);
    }
}

fn sleep(action: &Value, grace_period_s: Option<i64>, path: &Path<'_>, errors: &mut ErrorList) {
    let seconds = view::integer(action, &["seconds"]).unwrap_or(0);
    if let Some(grace_period_s) = grace_period_s
        && !(0..=grace_period_s).contains(&seconds)
    {
        let message =
            format!("must be non-negative and less than terminationGracePeriodSeconds ({grace_period_s})");
        errors.push(FieldError::invalid(path, seconds, message));
    }
}
