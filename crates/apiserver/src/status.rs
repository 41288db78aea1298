//! The `Status` object: the only module that turns an error into a status code.

use coracle_api::codec::DecodeError;
use coracle_base::ErrorChain;
use coracle_base::tasks::TaskError;
use coracle_meta::gvk::GroupResource;
use coracle_meta::patch::{ErrorClass, PatchError};
use coracle_meta::status::{Cause, Details, Precondition, Reason, Status};
use coracle_registry::{DEFAULT_CLUSTER, Error, StoreFailure};
use http::{HeaderValue, Response, StatusCode, header};

use crate::body::{MAX_REQUEST_BODY_BYTES, ResponseBody, full};
use crate::negotiate::{self, ResponseFormat};
use crate::served_kinds::has_built_in_group;
use crate::verbs::warn;

/// The kind in the details of errors about a cluster of this server. No resource of Kubernetes has this name.
const CLUSTER_KIND: &str = "clusters";

/// Seconds until a client should retry a request for a revision that does not exist yet.
const RETRY_AFTER_S: u32 = 1;

/// Seconds until a client should retry a request that was rejected with 429, as in kube-apiserver.
const BUSY_RETRY_AFTER_S: u32 = 1;

/// Seconds until a client should retry a request that failed in the store. client-go retries up to ten times by itself,
/// which outlasts a leader election in etcd.
const STORE_RETRY_AFTER_S: u32 = 1;

/// Seconds until a client should retry a request that reached a server during shutdown, as in kube-apiserver
/// (`with_retry_after.go`): by then a supervisor has started the next one.
const SHUTDOWN_RETRY_AFTER_S: u32 = 5;

/// A request that is rejected or failed, as it is reported to the client.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    status: Box<Status>,
    /// If set, the response is this plain text instead of a `Status`.
    plain: Option<&'static str>,
    /// Warnings for the client, sent beside the status.
    warnings: Vec<String>,
    /// Set if the browser must not guess the type of the body, which repeats names from the request.
    nosniff: bool,
}

impl From<Status> for Refusal {
    fn from(status: Status) -> Self {
        Self { status: Box::new(status), plain: None, warnings: Vec::new(), nosniff: false }
    }
}

impl Refusal {
    /// 404 for a path of the API.
    pub(crate) fn not_found() -> Self {
        Self::generic(Reason::NotFound, "the server could not find the requested resource")
    }

    /// 404 for a path outside of the API.
    pub(crate) fn no_page() -> Self {
        Self { plain: Some("404 page not found\n"), ..Self::not_found() }
    }

    /// 404 for a path that may be one of the API or not.
    pub(crate) fn unserved(path: &str) -> Self {
        let mut segments = path.split('/').skip(1);
        let of_api = match segments.next() {
            Some("api") => true,
            Some("apis") => segments.next().is_some_and(has_built_in_group),
            _ => false,
        };
        if of_api { Self::not_found() } else { Self::no_page() }
    }

    /// 503 for a server of an APIService that cannot be reached, with the text of kube-aggregator.
    pub(crate) fn unavailable() -> Self {
        const TEXT: &str = "service unavailable\n";
        Self { plain: Some(TEXT), ..Status::service_unavailable(TEXT.trim_end()).into() }
    }

    /// 429 with kube-apiserver's text.
    pub(crate) fn too_many_requests() -> Self {
        const TEXT: &str = "Too many requests, please try again later.\n";
        let status = Status::too_many_requests(TEXT.trim_end(), BUSY_RETRY_AFTER_S);
        Self { plain: Some(TEXT), ..status.into() }
    }

    /// The server is shutting down and accepts no new requests. Code, text and header are those of kube-apiserver.
    pub(crate) fn shutting_down() -> Self {
        const TEXT: &str = "The apiserver is shutting down, please try again later.\n";
        let status = Status::too_many_requests(TEXT.trim_end(), SHUTDOWN_RETRY_AFTER_S);
        Self { plain: Some(TEXT), ..status.into() }
    }

    /// 504: the body of the request did not arrive in time.
    pub(crate) fn too_slow() -> Self {
        Status::timeout("request did not complete within the allotted timeout", 0).into()
    }

    /// 405: the path is served, but not for this method.
    pub(crate) fn method_not_allowed() -> Self {
        Self::generic(
            Reason::MethodNotAllowed,
            "the server does not allow this method on the requested resource",
        )
    }

    /// 415: the content type is not that of a known patch format.
    pub(crate) fn unsupported_patch() -> Self {
        Self::generic(Reason::UnsupportedMediaType, "415: Unsupported Media Type")
    }

    /// An error about no object: its details are present and empty.
    fn generic(reason: Reason, message: &str) -> Self {
        Status { details: Some(Details::default()), ..Status::failure(reason, message) }.into()
    }

    /// 413: the body exceeds [`MAX_REQUEST_BODY_BYTES`].
    pub(crate) fn too_large() -> Self {
        Status::body_too_large(MAX_REQUEST_BODY_BYTES).into()
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Status::bad_request(message).into()
    }

    /// 403: an authorizer or the impersonation rules forbid the request. It has the header that kube-apiserver sets
    /// only here (`Forbidden` in `handlers/responsewriters`).
    pub(crate) fn unauthorized_action(status: Status) -> Self {
        Self { nosniff: true, ..status.into() }
    }

    /// 400 for invalid impersonation headers, with the same header as
    /// [`unauthorized_action`](Self::unauthorized_action).
    pub(crate) fn bad_impersonation(message: impl Into<String>) -> Self {
        Self { nosniff: true, ..Self::bad_request(message) }
    }

    /// 406 of the router: the client accepts none of the offered media types. The text is that of go-restful.
    pub(crate) fn not_representable(offered: &[&str]) -> Self {
        let message = format!("406: Not Acceptable\n\nAvailable representations: {}", offered.join(", "));
        Self::generic(Reason::NotAcceptable, &message)
    }

    /// 403 for a reason other than permissions.
    pub(crate) fn forbidden(message: &str) -> Self {
        Self::generic(Reason::Forbidden, message)
    }

    /// 401: authentication failed.
    pub(crate) fn unauthorized() -> Self {
        Status::unauthorized("Unauthorized").into()
    }

    /// 500: authorization failed because of an error.
    pub(crate) fn undecided() -> Self {
        Status::internal_error("the request could not be authorized; the server's log says why").into()
    }

    /// 500 for an internal error, whose details are withheld from the client.
    pub(crate) fn internal(error: &Error) -> Self {
        internal_of(error).into()
    }

    /// Returns true if kube-apiserver's router rejects the request, before a handler could add a warning.
    pub(crate) fn is_of_router(&self) -> bool {
        let reasons =
            [Reason::NotFound, Reason::MethodNotAllowed, Reason::NotAcceptable, Reason::UnsupportedMediaType];
        reasons.contains(&self.status.reason) && self.status.details == Some(Details::default())
    }

    /// Returns true if the error is a conflict with the current state of an object, which may have changed by the time
    /// of a retry.
    pub(crate) fn is_conflict(&self) -> bool {
        self.status.reason == Reason::Conflict
    }

    /// Adds a warning for the client.
    pub(crate) fn warned(mut self, warning: &str) -> Self {
        self.warnings.push(warning.to_owned());
        self
    }

    /// Adds several warnings for the client.
    pub(crate) fn warned_of(mut self, warnings: impl IntoIterator<Item = String>) -> Self {
        self.warnings.extend(warnings);
        self
    }

    /// The `Status` object, for a stream that has begun already.
    pub(crate) fn status(&self) -> &Status {
        &self.status
    }

    /// The whole response, in the negotiated format if there is one.
    pub(crate) fn into_response(self, wanted: Option<ResponseFormat>) -> Response<ResponseBody> {
        let mut response = match self.plain {
            Some(text) => plain(text),
            None => negotiate::status(wanted, &self.status),
        };
        *response.status_mut() =
            StatusCode::from_u16(self.status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        warn(&mut response, &self.warnings);
        if self.nosniff {
            let nosniff = HeaderValue::from_static("nosniff");
            response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, nosniff);
        }
        if let Some(seconds) = self.status.retry_after_seconds() {
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        let status = match &error {
            Error::NotFound(subject) => Status::not_found(&subject.resource, &subject.name),
            Error::AlreadyExists(subject) => Status::already_exists(&subject.resource, &subject.name),
            Error::BeingDeleted(subject) => {
                let exists = Status::already_exists(&subject.resource, &subject.name);
                Status { message: format!("object is being deleted: {}", exists.message), ..exists }
            }
            Error::NoFreeName(subject) => {
                Status::generate_name_conflict(&subject.resource, &subject.name, RETRY_AFTER_S)
            }
            Error::Modified(subject) => Status::modified(&subject.resource, &subject.name),
            Error::ResourceVersionRequired(subject) => {
                Status::resource_version_required(&subject.resource, &subject.name)
            }
            Error::PreconditionFailed { subject, namespace, dry_run, field, expected, found } => {
                let within = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
                let root = if *dry_run { "" } else { "/registry" };
                let key = format!("{root}/{}/{within}{}", storage_prefix(&subject.resource), subject.name);
                let failed = Precondition { what: field, key: &key, wanted: expected, found };
                Status::precondition_failed(&subject.resource, &subject.name, &failed)
            }
            Error::Conflict { subject, reason } => Status::conflict(&subject.resource, &subject.name, reason),
            Error::Invalid { subject, errors } => Status::invalid(&subject.kind, &subject.name, errors),
            Error::Forbidden { subject, message } => {
                Status::forbidden(&subject.resource, &subject.name, message)
            }
            Error::Exhausted(message) => Status::internal_error(message),
            Error::Refused(status) => (**status).clone(),
            Error::ApplyConflict(conflicts) => {
                let causes = conflicts
                    .causes()
                    .into_iter()
                    .map(|cause| Cause::new(cause.reason, cause.message, cause.field));
                Status::apply_conflict(causes.collect(), conflicts.to_string())
            }
            Error::BadRequest(message) => Status::bad_request(message.clone()),
            Error::Unspecific(message) => Status::failure(Reason::Unknown, message.clone()),
            Error::NamespaceMismatch(_) => Status::namespace_mismatch(),
            Error::ContinueExpired { fresh } => Status::continue_expired(fresh.clone()),
            Error::Expired { requested, oldest } => Status::watch_expired(requested.get(), oldest.get()),
            Error::TooLargeRevision { requested, current } => {
                Status::resource_version_too_large(requested.get(), current.get(), RETRY_AFTER_S)
            }
            Error::UnknownCluster { id } => cluster_status(Reason::NotFound, id, error.to_string()),
            Error::ClusterExists { id, .. } => cluster_status(Reason::AlreadyExists, id, error.to_string()),
            Error::InvalidClusterId { id, .. } => cluster_status(Reason::Invalid, id, error.to_string()),
            Error::DefaultClusterUndeletable => {
                cluster_status(Reason::Forbidden, DEFAULT_CLUSTER, error.to_string())
            }
            Error::ClusterFull { id, .. } => cluster_status(Reason::Forbidden, id, error.to_string()),
            // Not a conflict, because clients retry conflicts.
            Error::Fenced { .. } => Status::failure(Reason::Forbidden, error.to_string()),
            _ => internal_of(&error),
        };
        status.into()
    }
}

impl From<PatchError> for Refusal {
    fn from(error: PatchError) -> Self {
        let message = error.to_string();
        match error.class() {
            ErrorClass::BadRequest => Status::bad_request(message),
            ErrorClass::TooLarge => Status::request_entity_too_large(message),
            ErrorClass::Unprocessable => Status::generic(422, &message),
            // kube-apiserver does not map this error, so it becomes an unknown one.
            _ => Status::failure(Reason::Unknown, message),
        }
        .into()
    }
}

impl From<DecodeError> for Refusal {
    fn from(error: DecodeError) -> Self {
        match error.is_too_large() {
            true => Status::request_entity_too_large(error.to_string()).into(),
            false => Self::bad_request(error.to_string()),
        }
    }
}

impl From<TaskError> for Refusal {
    fn from(error: TaskError) -> Self {
        internal(&error).into()
    }
}

/// Answers malformed HTTP as Go's server does, and closes the connection.
pub(crate) fn malformed_request(text: &'static str) -> Response<ResponseBody> {
    let mut response = Response::new(full(text));
    *response.status_mut() = StatusCode::BAD_REQUEST;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

fn plain(text: &'static str) -> Response<ResponseBody> {
    let mut response = Response::new(full(text));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// An error about a cluster. Controllers detect by its details that a cluster was deleted.
fn cluster_status(reason: Reason, id: &str, message: String) -> Status {
    let details = Details { kind: CLUSTER_KIND.to_owned(), name: id.to_owned(), ..Details::default() };
    Status { details: Some(details), ..Status::failure(reason, message) }
}

/// Maps a failure of the store by its cause, and anything else like [`internal`]. Both log the whole error.
fn internal_of(error: &Error) -> Status {
    let Some(failure) = error.store_failure() else { return internal(error) };
    tracing::error!(error = %ErrorChain(error), "the store could not carry out a request");
    store_failure(failure)
}

/// The message to clients about a failing store: the cause, without paths, addresses or numbers of the machine.
///
/// Codes follow client-go, which retries 5xx by itself if, and only if, there is a `Retry-After`. If the write may have
/// been carried out there is none, because a repeated create with `generateName` would create a second object. 507
/// would describe a full disk best, but no Kubernetes client handles it.
fn store_failure(failure: StoreFailure) -> Status {
    let unavailable = |message| Status::service_unavailable(message).with_retry_after(STORE_RETRY_AFTER_S);
    match failure {
        StoreFailure::DiskFull => {
            unavailable("the store refuses writes: no space left on the disk of the data directory")
        }
        StoreFailure::ReadOnly => Status::service_unavailable(
            "the store refuses writes: a write to its files failed; the server has to be restarted",
        ),
        StoreFailure::Unavailable => unavailable("the store is unavailable: etcd does not answer"),
        StoreFailure::OutcomeUnknown => Status::timeout(
            "the store did not confirm the write in time; it may or may not have been carried out",
            0,
        ),
        StoreFailure::Closed => unavailable("the store is closed: the server is shutting down"),
        // Failures that a later version adds.
        _ => Status::service_unavailable("the store failed"),
    }
}

/// Logs an internal error and hides its details from the client.
fn internal(error: &dyn std::error::Error) -> Status {
    tracing::error!(error = %ErrorChain(error), "a request failed");
    Status::internal_error("the request could not be carried out; the server's log says why")
}

/// The storage prefix of a resource in kube-apiserver, which some of its messages contain.
fn storage_prefix(resource: &GroupResource) -> String {
    let GroupResource { group, resource } = resource;
    match (&**group, &**resource) {
        ("", "services" | "endpoints") => {
            format!("services/{}", if **resource == *"services" { "specs" } else { "endpoints" })
        }
        ("", "nodes") => "minions".to_owned(),
        ("", "replicationcontrollers") => "controllers".to_owned(),
        ("networking.k8s.io", "ingresses") => "ingress".to_owned(),
        (group, _) if has_built_in_group(group) && !SEPARATE_SERVERS.contains(&group) => resource.to_string(),
        _ => format!("{group}/{resource}"),
    }
}

/// API groups of the other servers within kube-apiserver (apiextensions-apiserver and kube-aggregator), which store
/// objects under the name of the group.
const SEPARATE_SERVERS: [&str; 2] = ["apiextensions.k8s.io", "apiregistration.k8s.io"];

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    async fn check(refusal: Refusal, code: u16, reason: &str) {
        let wanted = ResponseFormat::of_refusal(&http::HeaderMap::new(), "");
        let response = refusal.into_response(wanted);
        assert_eq!(response.status().as_u16(), code);
        assert_eq!(response.headers()[header::CONTENT_TYPE], "application/json");
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let status: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(
            (&status["kind"], &status["apiVersion"], &status["status"]),
            (&"Status".into(), &"v1".into(), &"Failure".into())
        );
        assert_eq!((&status["code"], &status["reason"]), (&code.into(), &reason.into()));
    }

    #[tokio::test]
    async fn every_refusal_has_its_code_and_body() {
        check(Refusal::not_found(), 404, "NotFound").await;
        check(Refusal::method_not_allowed(), 405, "MethodNotAllowed").await;
        check(Refusal::too_large(), 413, "RequestEntityTooLarge").await;
        check(Refusal::bad_request("no"), 400, "BadRequest").await;
        check(Refusal::unauthorized(), 401, "Unauthorized").await;
        let id = || "t1".to_owned();
        check(Error::UnknownCluster { id: id() }.into(), 404, "NotFound").await;
        check(Error::ClusterExists { id: id(), deleting: false }.into(), 409, "AlreadyExists").await;
        check(Error::InvalidClusterId { id: id(), problems: Vec::new() }.into(), 422, "Invalid").await;
        check(Error::DefaultClusterUndeletable.into(), 403, "Forbidden").await;
        let full = Error::ClusterFull { id: id(), resource: "bytes", limit: 1, used: 1, growth: 1 };
        check(full.into(), 403, "Forbidden").await;
        check(Error::ContinueExpired { fresh: "x".into() }.into(), 410, "Expired").await;
        let chosen = Status::failure(Reason::Other("Tired".into()), "no");
        check(Error::Refused(Box::new(chosen)).into(), 500, "Tired").await;
    }

    #[test]
    fn is_of_router_recognizes_rejections_of_the_router_only() {
        let of_router = [Refusal::not_found(), Refusal::method_not_allowed(), Refusal::unsupported_patch()];
        assert!(of_router.iter().all(Refusal::is_of_router));
        let resource = GroupResource { group: "".into(), resource: "endpoints".into() };
        let of_handlers = [Status::not_found(&resource, "x").into(), Refusal::bad_request("x")];
        assert!(!of_handlers.iter().any(Refusal::is_of_router));
    }

    #[test]
    fn storage_prefix_is_that_of_kube_apiserver() {
        for (group, resource, prefix) in [
            ("", "services", "services/specs"),
            ("", "endpoints", "services/endpoints"),
            ("", "nodes", "minions"),
            ("", "pods", "pods"),
            ("apps", "deployments", "deployments"),
            ("apiregistration.k8s.io", "apiservices", "apiregistration.k8s.io/apiservices"),
            ("example.com", "boats", "example.com/boats"),
        ] {
            let resource = GroupResource { group: group.into(), resource: resource.into() };
            assert_eq!(storage_prefix(&resource), prefix);
        }
    }

    #[test]
    fn store_failure_has_retry_after_only_if_nothing_was_written() {
        for (failure, code, retry, cause) in [
            (StoreFailure::DiskFull, 503, Some(1), "no space left"),
            (StoreFailure::ReadOnly, 503, None, "has to be restarted"),
            (StoreFailure::Unavailable, 503, Some(1), "etcd does not answer"),
            (StoreFailure::OutcomeUnknown, 504, None, "may or may not have been carried out"),
            (StoreFailure::Closed, 503, Some(1), "shutting down"),
        ] {
            let status = store_failure(failure);
            assert_eq!((status.code, status.retry_after_seconds()), (code, retry), "{failure:?}");
            assert!(status.message.contains(cause), "{}", status.message);
        }
    }

    #[tokio::test]
    async fn path_outside_the_api_is_not_found_in_plain_text() {
        for (path, plain) in
            [("/foo", true), ("/apis/foo", true), ("/api/v1/foos", false), ("/apis/apps/v9", false)]
        {
            let response = Refusal::unserved(path).into_response(None);
            assert_eq!(response.status(), StatusCode::NOT_FOUND);
            let is_plain = response.headers()[header::CONTENT_TYPE] == "text/plain; charset=utf-8";
            assert_eq!(is_plain, plain, "{path}");
        }
    }
}
