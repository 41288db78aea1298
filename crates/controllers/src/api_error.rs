//! Classification of API errors that need no retry.

/// Cause of rejected creations in a terminating namespace (`NamespaceTerminatingCause` in k8s.io/api/core/v1).
const NAMESPACE_TERMINATING: &str = "NamespaceTerminating";

/// True if the object to create already exists.
pub(crate) fn already_exists(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409 && status.reason == "AlreadyExists")
}

/// True if the namespace does not exist or is terminating.
pub(crate) fn namespace_is_gone_or_terminating(error: &kube::Error) -> bool {
    is_missing(error) || namespace_is_terminating(error)
}

/// True if nothing can be created because the namespace is terminating.
pub(crate) fn namespace_is_terminating(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    let terminating = |details: &kube::core::response::StatusDetails| {
        details.causes.iter().any(|cause| cause.reason == NAMESPACE_TERMINATING)
    };
    status.details.as_ref().is_some_and(terminating)
}

/// True if the object does not exist.
pub(crate) fn is_missing(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

/// True if a precondition failed because the object has changed.
pub(crate) fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409 && status.reason == "Conflict")
}

/// True if the cached object is outdated: it has changed, or is gone.
pub(crate) fn is_outdated(error: &kube::Error) -> bool {
    is_conflict(error) || is_missing(error)
}

/// The result of a write by a possibly stale cache: conflicts and missing objects are no errors, since the event of
/// the change reconciles the object again.
pub(crate) fn ignore_outdated<T>(written: kube::Result<T>) -> kube::Result<()> {
    match written {
        Err(error) if !is_outdated(&error) => Err(error),
        _ => Ok(()),
    }
}

/// True if the request is invalid.
pub(crate) fn is_invalid(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 422)
}

/// True if the request certainly had no effect, because the server rejected it. After a timeout or a lost response
/// that is unknown.
pub(crate) fn had_no_effect(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code < 500)
}

/// The server's message, for events and conditions.
pub(crate) fn message(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;
    use serde_json::json;

    use super::*;

    fn api(status: serde_json::Value) -> kube::Error {
        kube::Error::Api(Box::new(serde_json::from_value::<Status>(status).unwrap()))
    }

    #[test]
    fn api_errors_are_classified() {
        let exists = api(json!({"code": 409, "reason": "AlreadyExists"}));
        let conflict = api(json!({"code": 409, "reason": "Conflict"}));
        let missing = api(json!({"code": 404, "reason": "NotFound"}));
        let causes = json!([{"reason": "NamespaceTerminating", "field": "metadata.namespace"}]);
        let terminating = api(json!({"code": 403, "reason": "Forbidden", "details": {"causes": causes}}));
        let forbidden = api(json!({"code": 403, "reason": "Forbidden"}));
        assert!(already_exists(&exists) && !already_exists(&conflict) && !already_exists(&missing));
        assert!(namespace_is_gone_or_terminating(&missing) && namespace_is_gone_or_terminating(&terminating));
        assert!(!namespace_is_gone_or_terminating(&forbidden) && !namespace_is_gone_or_terminating(&exists));
        assert!(
            namespace_is_terminating(&terminating)
                && !namespace_is_terminating(&missing)
                && is_missing(&missing)
        );
        assert!(is_conflict(&conflict) && !is_conflict(&exists));
        let invalid = api(json!({"code": 422, "reason": "Invalid", "message": "so not"}));
        assert!(is_invalid(&invalid) && !is_invalid(&conflict));
        assert_eq!(message(&invalid), "so not");
        let timeout = api(json!({"code": 504, "reason": "Timeout"}));
        assert!(
            had_no_effect(&invalid)
                && !had_no_effect(&timeout)
                && !had_no_effect(&kube::Error::LinesCodecMaxLineLengthExceeded)
        );
    }
}
