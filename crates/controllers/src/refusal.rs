//! Refusals of the server that need no second attempt.

/// What upstream's admission calls the reason why nothing may be created in a namespace that is being
/// deleted (`NamespaceTerminatingCause` in k8s.io/api/core/v1).
const NAMESPACE_TERMINATING: &str = "NamespaceTerminating";

/// Whether what was to be created is there after all, by another hand.
pub(crate) fn exists_already(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409 && status.reason == "AlreadyExists")
}

/// Whether there is nowhere to put it any more.
pub(crate) fn namespace_is_going(error: &kube::Error) -> bool {
    is_missing(error) || is_terminating(error)
}

/// Whether nothing may be created because the namespace is being deleted.
pub(crate) fn is_terminating(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    let terminating = |details: &kube::core::response::StatusDetails| {
        details.causes.iter().any(|cause| cause.reason == NAMESPACE_TERMINATING)
    };
    status.details.as_ref().is_some_and(terminating)
}

/// Whether there is no such object.
pub(crate) fn is_missing(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

/// Whether the object is not, or no longer, as was supposed.
pub(crate) fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409 && status.reason == "Conflict")
}

/// Whether what is known of the object is old: it has changed, or is gone.
pub(crate) fn is_outdated(error: &kube::Error) -> bool {
    is_conflict(error) || is_missing(error)
}

/// The result of a write by a possibly stale cache: conflicts and missing objects are no errors, since the event of
/// the change reconciles the object again.
pub(crate) fn unless_outdated<T>(written: kube::Result<T>) -> kube::Result<()> {
    match written {
        Err(error) if !is_outdated(&error) => Err(error),
        _ => Ok(()),
    }
}

/// Whether what was sent cannot be.
pub(crate) fn is_invalid(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 422)
}

/// Whether it is known that nothing was done: the server said so itself. Whoever hears nothing, or that it took
/// too long, cannot know.
pub(crate) fn is_certain(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code < 500)
}

/// What the server said, as people are to read it in events and conditions.
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
    fn refusals_are_told_apart() {
        let exists = api(json!({"code": 409, "reason": "AlreadyExists"}));
        let conflict = api(json!({"code": 409, "reason": "Conflict"}));
        let missing = api(json!({"code": 404, "reason": "NotFound"}));
        let causes = json!([{"reason": "NamespaceTerminating", "field": "metadata.namespace"}]);
        let terminating = api(json!({"code": 403, "reason": "Forbidden", "details": {"causes": causes}}));
        let forbidden = api(json!({"code": 403, "reason": "Forbidden"}));
        assert!(exists_already(&exists) && !exists_already(&conflict) && !exists_already(&missing));
        assert!(namespace_is_going(&missing) && namespace_is_going(&terminating));
        assert!(!namespace_is_going(&forbidden) && !namespace_is_going(&exists));
        assert!(is_terminating(&terminating) && !is_terminating(&missing) && is_missing(&missing));
        assert!(is_conflict(&conflict) && !is_conflict(&exists));
        let invalid = api(json!({"code": 422, "reason": "Invalid", "message": "so not"}));
        assert!(is_invalid(&invalid) && !is_invalid(&conflict));
        assert_eq!(message(&invalid), "so not");
        let timeout = api(json!({"code": 504, "reason": "Timeout"}));
        assert!(
            is_certain(&invalid)
                && !is_certain(&timeout)
                && !is_certain(&kube::Error::LinesCodecMaxLineLengthExceeded)
        );
    }
}
