//! Constructors of `Status` for specific requests, with kube-apiserver's messages.

use super::{Cause, Details, ListMeta, Reason, Status};
use crate::field::{BadValue, FieldError, Path, quoted};
use crate::gvk::{GroupKind, GroupResource};

/// The message of a conflict with a concurrent update.
pub const MODIFIED_MESSAGE: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

const CONTINUE_EXPIRED: &str = "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.";

/// An authorization denial, for the message of a 403.
#[derive(Clone, Copy, Debug, Default)]
pub struct Denied<'a> {
    /// The name of the user.
    pub user: &'a str,
    /// The verb in lower case.
    pub verb: &'a str,
    /// Empty for the core group.
    pub group: &'a str,
    /// The resource; empty for a non-resource path.
    pub resource: &'a str,
    /// Empty for the object itself.
    pub subresource: &'a str,
    /// Empty for cluster scope.
    pub namespace: &'a str,
    /// Empty for a collection.
    pub name: &'a str,
    /// The path of a non-resource request.
    pub path: &'a str,
    /// The authorizer's reason; may be empty.
    pub reason: &'a str,
}

/// A failed precondition of a request.
#[derive(Clone, Copy, Debug)]
pub struct Precondition<'a> {
    /// `UID` or `ResourceVersion`.
    pub what: &'static str,
    /// The object's storage key, such as `/pods/default/web`.
    pub key: &'a str,
    /// The value that the client requires.
    pub wanted: &'a str,
    /// The actual value.
    pub found: &'a str,
}

impl Denied<'_> {
    fn message(&self) -> String {
        let (user, verb) = (quoted(self.user), self.verb);
        if self.resource.is_empty() {
            return format!("User {user} cannot {verb} path {}", quoted(self.path));
        }
        let slash = if self.subresource.is_empty() { "" } else { "/" };
        let resource = format!("{}{slash}{}", self.resource, self.subresource);
        let (resource, group) = (quoted(&resource), quoted(self.group));
        let what = format!("User {user} cannot {verb} resource {resource} in API group {group}");
        if self.namespace.is_empty() {
            format!("{what} at the cluster scope")
        } else {
            format!("{what} in the namespace {}", quoted(self.namespace))
        }
    }
}

impl Status {
    /// 403: the authorizer denied the request.
    pub fn denied(denied: &Denied<'_>) -> Self {
        // Escaped, so that browsers do not interpret the message as HTML.
        let mut why = denied.message().replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        if !denied.reason.is_empty() {
            why.push_str(": ");
            why.push_str(denied.reason);
        }
        let resource = GroupResource::new(denied.group.to_owned(), denied.resource.to_owned());
        Self::forbidden(&resource, denied.name, why)
    }

    /// 409: the update is based on an outdated version of the object.
    pub fn modified(resource: &GroupResource, name: &str) -> Self {
        Self::conflict(resource, name, MODIFIED_MESSAGE)
    }

    /// 409: the object's uid or resource version differs from the precondition.
    pub fn precondition_failed(resource: &GroupResource, name: &str, failed: &Precondition<'_>) -> Self {
        let (what, Precondition { key, wanted, found, .. }) = (failed.what, failed);
        Self::conflict(
            resource,
            name,
            format_args!(
                "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: \
                 Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}"
            ),
        )
    }

    /// 422: an update without resource version of a kind that requires one.
    pub fn resource_version_required(resource: &GroupResource, name: &str) -> Self {
        let path = Path::root("metadata.resourceVersion");
        let zero = BadValue::Int(0);
        let error = FieldError::invalid(&path, zero, "must be specified for an update");
        // kube-apiserver puts the resource in place of the kind.
        let kind = GroupKind::new(resource.group.clone(), resource.resource.clone());
        Self::invalid(&kind, name, &error.into())
    }

    /// 400: the namespaces in body and URL differ.
    pub fn namespace_mismatch() -> Self {
        Self::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        )
    }

    /// 400: the names in the body of an update and in the URL differ.
    pub fn name_mismatch(in_body: &str, in_url: &str) -> Self {
        Self::bad_request(format!(
            "the name of the object ({in_body}) does not match the name on the URL ({in_url})"
        ))
    }

    /// 400: the namespaces in the body of an update and in the URL differ.
    pub fn update_namespace_mismatch(in_body: &str, in_url: &str) -> Self {
        Self::bad_request(format!(
            "the namespace of the object ({in_body}) does not match the namespace on the request ({in_url})"
        ))
    }

    /// 413: the request body exceeds a limit.
    pub fn body_too_large(limit_bytes: usize) -> Self {
        Self::request_entity_too_large(format_args!("limit is {limit_bytes}"))
    }

    /// 404: the namespace of an object to create does not exist.
    pub fn namespace_not_found(namespace: &str) -> Self {
        Self::not_found(&GroupResource::from_static("", "namespaces"), namespace)
    }

    /// 403: the namespace of an object to create is being deleted.
    pub fn namespace_terminating(resource: &GroupResource, name: &str, namespace: &str) -> Self {
        let why =
            format!("unable to create new content in namespace {namespace} because it is being terminated");
        let message = format!("namespace {namespace} is being terminated");
        let cause = Cause::new(Cause::NAMESPACE_TERMINATING, message, "metadata.namespace");
        Self::forbidden(resource, name, why).with_cause(cause)
    }

    /// 403: system namespaces cannot be deleted.
    pub fn namespace_protected(namespace: &str) -> Self {
        let namespaces = GroupResource::from_static("", "namespaces");
        Self::forbidden(&namespaces, namespace, "this namespace may not be deleted")
    }

    /// 504: the requested revision is in the future.
    pub fn resource_version_too_large(wanted: u64, current: u64, retry_after_seconds: u32) -> Self {
        let why = format!("Too large resource version: {wanted}, current: {current}");
        let cause = Cause::new(Cause::RESOURCE_VERSION_TOO_LARGE, "Too large resource version", "");
        Self::timeout(why, retry_after_seconds).with_cause(cause)
    }

    /// 410: the revision of a list has been compacted.
    pub fn list_expired() -> Self {
        Self::expired("The resourceVersion for the provided list is too old.")
    }

    /// 410: the start revision of a watch has been compacted; `compacted` is the last compacted
    /// revision.
    pub fn watch_expired(wanted: u64, compacted: u64) -> Self {
        Self::expired(format!("too old resource version: {wanted} ({compacted})"))
    }

    /// 410: the revision of a list's first page has been compacted. `continue_token` continues the
    /// list at the current revision.
    pub fn continue_expired(continue_token: impl Into<String>) -> Self {
        let metadata = ListMeta { continue_token: continue_token.into(), ..ListMeta::default() };
        Self { metadata, ..Self::expired(CONTINUE_EXPIRED) }
    }

    /// Returns the status for a denial by an admission webhook, based on the status in its
    /// response.
    #[must_use]
    pub fn denied_by_webhook(webhook: &str, answer: Option<Self>) -> Self {
        let denied = format!("admission webhook {} denied the request", quoted(webhook));
        let default_status = || Self { reason: Reason::Unknown, code: 0, ..Self::bad_request("") };
        let mut status = answer.unwrap_or_else(default_status);
        status.message = match (status.message.as_str(), status.reason.as_str()) {
            ("", "") => format!("{denied} without explanation"),
            ("", reason) => format!("{denied}: {reason}"),
            (message, _) => format!("{denied}: {message}"),
        };
        status.code = status.code.max(400);
        if status.status.is_empty() || status.status == Self::SUCCESS {
            status.status = Self::FAILURE.to_owned();
        }
        (status.kind, status.api_version) = ("Status".to_owned(), "v1".to_owned());
        status
    }

    /// 200: the object has been deleted.
    pub fn deleted(resource: &GroupResource, name: &str, uid: &str) -> Self {
        let mut status =
            Self::success(200, Some(Details { uid: uid.to_owned(), ..Details::of(resource, name) }));
        // kube-apiserver omits the code in this response.
        status.code = 0;
        status
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PODS: &GroupResource = &GroupResource::from_static("", "pods");
    const ROLES: &GroupResource = &GroupResource::from_static("rbac.authorization.k8s.io", "roles");

    #[test]
    fn denied_message_names_user_verb_and_resource() {
        let list = Denied { user: "u", verb: "list", resource: "pods", ..Denied::default() };
        for (denied, expected) in [
            (
                Denied { namespace: "n", ..list },
                r#"pods is forbidden: User "u" cannot list resource "pods" in API group "" in the namespace "n""#,
            ),
            (
                list,
                r#"pods is forbidden: User "u" cannot list resource "pods" in API group "" at the cluster scope"#,
            ),
            (
                Denied { subresource: "log", name: "x", verb: "get", reason: "why", ..list },
                r#"pods "x" is forbidden: User "u" cannot get resource "pods/log" in API group "" at the cluster scope: why"#,
            ),
            (
                Denied { user: "<u>", verb: "get", path: "/x", ..Denied::default() },
                r#"forbidden: User "&lt;u&gt;" cannot get path "/x""#,
            ),
        ] {
            let status = Status::denied(&denied);
            assert_eq!((status.code, status.message.as_str()), (403, expected));
        }
    }

    #[test]
    fn conflict_messages_match_kube_apiserver() {
        assert_eq!(
            Status::modified(PODS, "x").message,
            "Operation cannot be fulfilled on pods \"x\": the object has been modified; please apply your changes to the latest version and try again"
        );
        let failed = Precondition { what: "UID", key: "/pods/n/x", wanted: "a", found: "b" };
        assert_eq!(
            Status::precondition_failed(PODS, "x", &failed).message,
            "Operation cannot be fulfilled on pods \"x\": StorageError: invalid object, Code: 4, Key: /pods/n/x, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: a, UID in object meta: b"
        );
        assert_eq!(
            Status::resource_version_required(ROLES, "x").message,
            "roles.rbac.authorization.k8s.io \"x\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update"
        );
    }

    #[test]
    fn revision_errors_match_kube_apiserver() {
        let status = Status::resource_version_too_large(9, 5, 1);
        let text = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Timeout: Too large resource version: 9, current: 5","reason":"Timeout","details":{"causes":[{"reason":"ResourceVersionTooLarge","message":"Too large resource version"}],"retryAfterSeconds":1},"code":504}"#;
        assert_eq!(serde_json::to_string(&status).unwrap(), text);
        assert!(status.has_cause(Cause::RESOURCE_VERSION_TOO_LARGE));
        assert_eq!(status.retry_after_seconds(), Some(1));
        assert_eq!(Status::watch_expired(3, 7).message, "too old resource version: 3 (7)");
        let status = Status::continue_expired("token");
        assert_eq!((status.code, status.metadata.continue_token.as_str()), (410, "token"));
    }

    #[test]
    fn namespace_errors_match_kube_apiserver() {
        let status = Status::namespace_terminating(PODS, "x", "n");
        assert_eq!(
            status.message,
            "pods \"x\" is forbidden: unable to create new content in namespace n because it is being terminated"
        );
        assert!(status.has_cause(Cause::NAMESPACE_TERMINATING));
        assert_eq!(Status::namespace_not_found("n").message, "namespaces \"n\" not found");
        assert_eq!(
            Status::name_mismatch("a", "b").message,
            "the name of the object (a) does not match the name on the URL (b)"
        );
    }

    #[test]
    fn webhook_denial_without_explanation_has_default_message() {
        let check = |answer: Option<Status>, code: u16, message: &str| {
            let status = Status::denied_by_webhook("w", answer);
            assert_eq!((status.code, status.message.as_str()), (code, message));
            assert!(status.is_failure());
        };
        check(None, 400, "admission webhook \"w\" denied the request without explanation");
        let default_status = Status::failure(Reason::Forbidden, "");
        check(Some(default_status), 403, "admission webhook \"w\" denied the request: Forbidden");
        let confused = Status { message: "no".to_owned(), ..Status::success(200, None) };
        check(Some(confused), 400, "admission webhook \"w\" denied the request: no");
    }

    #[test]
    fn deleted_status_names_object() {
        let text = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","details":{"name":"x","group":"rbac.authorization.k8s.io","kind":"roles","uid":"1"}}"#;
        assert_eq!(serde_json::to_string(&Status::deleted(ROLES, "x", "1")).unwrap(), text);
    }
}
