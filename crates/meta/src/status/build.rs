//! Constructors of `Status`, one per reason, with kube-apiserver's messages.

use std::fmt::Display;

use super::{Cause, Details, ListMeta, Reason, Status};
use crate::field::{ErrorList, quoted};
use crate::gvk::{GroupKind, GroupResource};

impl Status {
    /// Creates a failure with the default code of the reason and without details.
    pub fn failure(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            kind: "Status".to_owned(),
            api_version: "v1".to_owned(),
            metadata: ListMeta::default(),
            status: Self::FAILURE.to_owned(),
            message: message.into(),
            code: reason.code(),
            reason,
            details: None,
        }
    }

    /// Creates a success, optionally with details of an object.
    pub fn success(code: u16, details: Option<Details>) -> Self {
        let plain = Self::failure(Reason::Unknown, "");
        Self { status: Self::SUCCESS.to_owned(), details, code, ..plain }
    }

    fn about(reason: Reason, resource: &GroupResource, name: &str, message: String) -> Self {
        Self { details: Some(Details::of(resource, name)), ..Self::failure(reason, message) }
    }

    /// 404: the object does not exist.
    pub fn not_found(resource: &GroupResource, name: &str) -> Self {
        Self::about(Reason::NotFound, resource, name, format!("{resource} {} not found", quoted(name)))
    }

    /// 409: an object of this name exists.
    pub fn already_exists(resource: &GroupResource, name: &str) -> Self {
        let message = format!("{resource} {} already exists", quoted(name));
        Self::about(Reason::AlreadyExists, resource, name, message)
    }

    /// 409: all generated names are in use.
    pub fn generate_name_conflict(resource: &GroupResource, name: &str, retry_after_seconds: u32) -> Self {
        let message = format!(
            "{resource} {} already exists, the server was not able to generate a unique name for the object",
            quoted(name)
        );
        Self::about(Reason::AlreadyExists, resource, name, message).with_retry_after(retry_after_seconds)
    }

    /// 401: the client is not authenticated.
    pub fn unauthorized(message: &str) -> Self {
        Self::failure(Reason::Unauthorized, if message.is_empty() { "not authorized" } else { message })
    }

    /// 403: the client is not authorized. Resource and name may be empty.
    pub fn forbidden(resource: &GroupResource, name: &str, why: impl Display) -> Self {
        let message = if resource.is_empty() {
            format!("forbidden: {why}")
        } else if name.is_empty() {
            format!("{resource} is forbidden: {why}")
        } else {
            format!("{resource} {} is forbidden: {why}", quoted(name))
        };
        Self::about(Reason::Forbidden, resource, name, message)
    }

    /// 409: the change conflicts with the current state of the object.
    pub fn conflict(resource: &GroupResource, name: &str, why: impl Display) -> Self {
        let message = format!("Operation cannot be fulfilled on {resource} {}: {why}", quoted(name));
        Self::about(Reason::Conflict, resource, name, message)
    }

    /// 409: other managers own fields that an apply would change.
    pub fn apply_conflict(causes: Vec<Cause>, message: impl Into<String>) -> Self {
        let details = Some(Details { causes, ..Details::default() });
        Self { details, ..Self::failure(Reason::Conflict, message) }
    }

    /// 410: the resource does not exist any more.
    pub fn gone(message: impl Into<String>) -> Self {
        Self::failure(Reason::Gone, message)
    }

    /// 410: the revision has been compacted.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::failure(Reason::Expired, message)
    }

    /// 422: the object is invalid.
    pub fn invalid(kind: &GroupKind, name: &str, errors: &ErrorList) -> Self {
        let cause = |error: &crate::field::FieldError| {
            Cause::new(error.kind.reason(), error.body(), error.field.clone())
        };
        let details = Details {
            name: name.to_owned(),
            group: kind.group.to_string(),
            kind: kind.kind.to_string(),
            causes: errors.iter().map(cause).collect(),
            ..Details::default()
        };
        let mut message = format!("{kind} {} is invalid", quoted(name));
        if !errors.is_empty() {
            message.push_str(&format!(": {errors}"));
        }
        Self { details: Some(details), ..Self::failure(Reason::Invalid, message) }
    }

    /// 400: the request is malformed.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::failure(Reason::BadRequest, message)
    }

    /// 429: the client should retry after this time.
    pub fn too_many_requests(message: impl Into<String>, retry_after_seconds: u32) -> Self {
        Self::failure(Reason::TooManyRequests, message).with_retry_after(retry_after_seconds)
    }

    /// 429: the server is overloaded.
    pub fn overloaded(why: impl Display) -> Self {
        Self::failure(Reason::TooManyRequests, format!("Too many requests: {why}"))
    }

    /// 503: the server is unavailable.
    pub fn service_unavailable(message: impl Into<String>) -> Self {
        Self::failure(Reason::ServiceUnavailable, message)
    }

    /// 405: the resource does not support the action.
    pub fn method_not_supported(resource: &GroupResource, action: &str) -> Self {
        let resource_text = resource.to_string();
        let message = format!("{action} is not supported on resources of kind {}", quoted(&resource_text));
        Self::about(Reason::MethodNotAllowed, resource, "", message)
    }

    /// 500: the operation timed out and had no effect.
    pub fn server_timeout(resource: &GroupResource, operation: &str, retry_after_seconds: u32) -> Self {
        let message = format!(
            "The {operation} operation against {resource} could not be completed at this time, please try again."
        );
        Self::about(Reason::ServerTimeout, resource, operation, message).with_retry_after(retry_after_seconds)
    }

    /// 500: internal error.
    pub fn internal_error(why: impl Display) -> Self {
        let message = format!("Internal error occurred: {why}");
        Self::failure(Reason::InternalError, message).with_cause(Cause::new("", why.to_string(), ""))
    }

    /// 504: the operation timed out, but may still take effect.
    pub fn timeout(why: impl Display, retry_after_seconds: u32) -> Self {
        Self::failure(Reason::Timeout, format!("Timeout: {why}")).with_retry_after(retry_after_seconds)
    }

    /// 413: the request body is too large.
    pub fn request_entity_too_large(why: impl Display) -> Self {
        Self::failure(Reason::RequestEntityTooLarge, format!("Request entity too large: {why}"))
    }

    /// 406: the server supports none of the media types in `Accept`.
    pub fn not_acceptable(offered: &[&str]) -> Self {
        let message = format!("only the following media types are accepted: {}", offered.join(", "));
        Self::failure(Reason::NotAcceptable, message)
    }

    /// 406: the object cannot be converted to a table or another requested representation.
    pub fn not_acceptable_conversion(target: &str, offered: &[&str]) -> Self {
        let offered = offered.join(", ");
        let message =
            format!("only the following media types are accepted when converting to {target}: {offered}");
        Self::failure(Reason::NotAcceptable, message)
    }

    /// 415: the media type of the request body is not supported.
    pub fn unsupported_media_type(accepted: &[&str]) -> Self {
        let accepted = accepted.join(", ");
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {accepted}"
        );
        Self::failure(Reason::UnsupportedMediaType, message)
    }
}

impl Details {
    /// Creates the details of an object, or of a collection if the name is empty.
    pub fn of(resource: &GroupResource, name: &str) -> Self {
        Self {
            name: name.to_owned(),
            group: resource.group.to_string(),
            kind: resource.resource.to_string(),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::field::{FieldError, Path};

    const PODS: &GroupResource = &GroupResource::from_static("", "pods");
    const DEPLOYMENTS: &GroupResource = &GroupResource::from_static("apps", "deployments");

    fn check(status: Status, code: u16, reason: &str, message: &str) {
        assert_eq!((status.code, status.reason.as_str(), status.message.as_str()), (code, reason, message));
        assert!(status.is_failure());
    }

    #[test]
    fn status_of_each_reason_has_code_and_message() {
        check(Status::not_found(PODS, "x"), 404, "NotFound", "pods \"x\" not found");
        check(Status::not_found(DEPLOYMENTS, "x"), 404, "NotFound", "deployments.apps \"x\" not found");
        check(Status::already_exists(PODS, "x"), 409, "AlreadyExists", "pods \"x\" already exists");
        check(Status::unauthorized("Unauthorized"), 401, "Unauthorized", "Unauthorized");
        check(Status::forbidden(PODS, "", "why"), 403, "Forbidden", "pods is forbidden: why");
        check(Status::forbidden(PODS, "x", "why"), 403, "Forbidden", "pods \"x\" is forbidden: why");
        let nothing = GroupResource::default();
        check(Status::forbidden(&nothing, "", "why"), 403, "Forbidden", "forbidden: why");
        check(Status::gone("m"), 410, "Gone", "m");
        check(Status::expired("m"), 410, "Expired", "m");
        check(Status::bad_request("m"), 400, "BadRequest", "m");
        check(Status::overloaded("m"), 429, "TooManyRequests", "Too many requests: m");
        check(Status::service_unavailable("m"), 503, "ServiceUnavailable", "m");
        let message = "patch is not supported on resources of kind \"deployments.apps\"";
        check(Status::method_not_supported(DEPLOYMENTS, "patch"), 405, "MethodNotAllowed", message);
        check(Status::timeout("m", 0), 504, "Timeout", "Timeout: m");
        let message = "Request entity too large: limit is 3";
        check(Status::request_entity_too_large("limit is 3"), 413, "RequestEntityTooLarge", message);
        let message = "only the following media types are accepted: a, b";
        check(Status::not_acceptable(&["a", "b"]), 406, "NotAcceptable", message);
        let message = "the body of the request was in an unknown format - accepted media types include: a, b";
        check(Status::unsupported_media_type(&["a", "b"]), 415, "UnsupportedMediaType", message);
        let message =
            "The list operation against pods could not be completed at this time, please try again.";
        check(Status::server_timeout(PODS, "list", 2), 500, "ServerTimeout", message);
        check(Status::internal_error("m"), 500, "InternalError", "Internal error occurred: m");
    }

    #[test]
    fn status_serializes_as_in_kube_apiserver() {
        let status = Status::not_found(PODS, "x");
        let text = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"pods \"x\" not found","reason":"NotFound","details":{"name":"x","kind":"pods"},"code":404}"#;
        assert_eq!(serde_json::to_string(&status).unwrap(), text);
        assert_eq!(serde_json::from_str::<Status>(text).unwrap(), status);
        let text = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"m","reason":"BadRequest","code":400}"#;
        assert_eq!(serde_json::to_string(&Status::bad_request("m")).unwrap(), text);
        let text = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":200}"#;
        assert_eq!(serde_json::to_string(&Status::success(200, None)).unwrap(), text);
    }

    #[test]
    fn invalid_status_lists_field_errors() {
        let kind = GroupKind::from_static("", "Pod");
        let mut errors = ErrorList::new();
        assert_eq!(Status::invalid(&kind, "x", &errors).message, "Pod \"x\" is invalid");
        errors.push(FieldError::required(&Path::root("spec.a"), "why"));
        let one = "Pod \"x\" is invalid: spec.a: Required value: why";
        assert_eq!(Status::invalid(&kind, "x", &errors).message, one);
        errors.push(FieldError::invalid(&Path::root("spec.b"), "v", "no"));
        let status = Status::invalid(&kind, "x", &errors);
        check(
            status.clone(),
            422,
            "Invalid",
            "Pod \"x\" is invalid: [spec.a: Required value: why, spec.b: Invalid value: \"v\": no]",
        );
        let causes = json!([
            {"reason": "FieldValueRequired", "message": "Required value: why", "field": "spec.a"},
            {"reason": "FieldValueInvalid", "message": "Invalid value: \"v\": no", "field": "spec.b"},
        ]);
        assert_eq!(serde_json::to_value(&status.details.unwrap().causes).unwrap(), causes);
    }
}
