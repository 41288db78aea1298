//! Projected and downward API volumes, made of other objects and of the pod's own fields.

use std::collections::BTreeSet;

use coracle_meta::field::{ErrorList, FieldError, Path};
use serde_json::Value;

use super::{check, env, volume};
use crate::kinds::ratchet;
use crate::view;

/// Fields of a pod that a volume may contain.
const FIELDS: &[&str] =
    &["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];
const MIN_TOKEN_SECONDS: i64 = 10 * 60;
const MAX_TOKEN_SECONDS: i64 = 1 << 32;

/// Validates a projected volume, which merges several sources into one directory.
pub(super) fn validate(source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    check::file_mode(source, "defaultMode", path, errors);
    let sources = path.child("sources");
    let mut paths = Paths { seen: BTreeSet::new(), path };
    for (index, source) in view::items(source, &["sources"]).iter().enumerate() {
        let source_path = sources.index(index);
        let kinds = ["secret", "configMap", "downwardAPI", "serviceAccountToken"];
        let found = kinds.iter().filter(|kind| source.get(kind).is_some()).count();
        keys(source, "secret", &mut paths, &source_path, errors);
        keys(source, "configMap", &mut paths, &source_path, errors);
        if let Some(downward) = source.get("downwardAPI") {
            downward_items(downward, &mut paths, &source_path.child("downwardAPI"), errors);
        }
        if let Some(token) = source.get("serviceAccountToken") {
            service_account_token(token, path, &source_path.child("serviceAccountToken"), errors);
        }
        if found > 1 {
            let message = "may not specify more than 1 volume type per source";
            errors.push(FieldError::forbidden(&source_path, message));
        }
    }
}

/// File paths of all sources together, which must be unique.
struct Paths<'a> {
    seen: BTreeSet<&'a str>,
    path: &'a Path<'a>,
}

impl<'a> Paths<'a> {
    fn add(&mut self, file: &'a str, reported: &str, errors: &mut ErrorList) {
        if !file.is_empty() && !self.seen.insert(file) {
            errors.push(FieldError::invalid(self.path, reported, "conflicting duplicate paths"));
        }
    }
}

fn keys<'a>(source: &'a Value, kind: &str, paths: &mut Paths<'a>, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(projection) = source.get(kind) else { return };
    let path = path.child(kind);
    let name = check::required(projection, "name", &path, errors);
    let items = path.child("items");
    for (index, item) in view::items(projection, &["items"]).iter().enumerate() {
        volume::key_to_path(item, &items.index(index), errors);
        paths.add(view::text(item, &["path"]), name, errors);
    }
}

fn downward_items<'a>(source: &'a Value, paths: &mut Paths<'a>, path: &Path<'_>, errors: &mut ErrorList) {
    for file in view::items(source, &["items"]) {
        downward_file(file, path, errors);
        let target = view::text(file, &["path"]);
        paths.add(target, target, errors);
    }
}

/// Validates a service account token. kube-apiserver reports its file path beside the sources, not within its own.
fn service_account_token(token: &Value, volume: &Path<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let seconds = view::integer(token, &["expirationSeconds"]).unwrap_or(0);
    let seconds_path = path.child("expirationSeconds");
    if seconds < MIN_TOKEN_SECONDS {
        let message = "may not specify a duration less than 10 minutes";
        errors.push(FieldError::invalid(&seconds_path, seconds, message));
    }
    if seconds > MAX_TOKEN_SECONDS {
        let message = "may not specify a duration larger than 2^32 seconds";
        errors.push(FieldError::invalid(&seconds_path, seconds, message));
    }
    let target = check::required(token, "path", volume, errors);
    errors.ratcheted(ratchet::TOKEN_PATH, |errors| {
        check::non_reserved_path(target, &volume.child("path"), errors);
    });
}

/// Validates a downward API volume, whose files contain fields of the pod.
pub(super) fn validate_downward_api(source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    check::file_mode(source, "defaultMode", path, errors);
    for file in view::items(source, &["items"]) {
        downward_file(file, path, errors);
    }
}

/// Validates a file; `path` is that of the volume, since kube-apiserver omits the index of the file.
fn downward_file(file: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let target = check::required(file, "path", path, errors);
    check::non_reserved_path(target, &path.child("path"), errors);
    match (file.get("fieldRef"), file.get("resourceFieldRef")) {
        (Some(field), resource) => {
            env::field_reference(field, FIELDS, &path.child("fieldRef"), errors);
            if resource.is_some() {
                let message = "fieldRef and resourceFieldRef can not be specified simultaneously";
                errors.push(FieldError::invalid(path, "resource", message));
            }
        }
        (None, Some(resource)) => {
            let container = view::text(resource, &["containerName"]);
            env::resource_reference(resource, container.is_empty(), &path.child("resourceFieldRef"), errors);
        }
        (None, None) => {
            let message = "one of fieldRef and resourceFieldRef is required";
            errors.push(FieldError::required(path, message));
        }
    }
    check::file_mode(file, "mode", path, errors);
}
