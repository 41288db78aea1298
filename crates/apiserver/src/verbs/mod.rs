//! Handlers of resource requests: one function per verb, for all kinds.

mod access_reviews;
mod all_clusters;
mod component_status;
mod create;
mod delete;
mod issuance;
mod pace;
mod patch;
mod patch_result;
mod read;
mod resource_metrics;
mod respond;
mod subresources;
mod update;
mod watch;

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use coracle_meta::gvk::GroupResource;
use coracle_meta::status::Status;
use coracle_registry::form::ObjectForm;
use coracle_registry::kinds::metrics;
use coracle_registry::lifecycle::{SentBody, Write};
use coracle_registry::{
    AuditAnnotations, Cluster, Error, Identity, KindRef, Registry, Scope, Subject, Verbs,
};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use serde_json::Value;

use crate::body::ResponseBody;
use crate::decode_memory::Reservations;
use crate::flow::Unread;
use crate::negotiate::{self, Encoding, Offer, ResponseFormat, media_type};
use crate::options::{FieldValidation, Query};
use crate::request_info::ResourcePath;
use crate::service::{Components, Shared};
use crate::status::Refusal;

/// Largest body that is decoded a second time, which prints empty lists and maps of an invalid object as they were
/// sent. [`crate::decode_memory`] does not reserve memory for this decoding: it takes at most the 3 MiB of a small
/// body.
const MAX_REREAD_BYTES: usize = 16 * 1024;

/// A request for a resource, with its body.
pub(crate) struct ResourceRequest {
    pub(crate) method: Method,
    pub(crate) headers: HeaderMap,
    pub(crate) query: Arc<Query>,
    /// True if the path or the query requests a watch.
    pub(crate) is_watch: bool,
    pub(crate) body: Bytes,
    pub(crate) cluster: Cluster,
    pub(crate) path: Arc<ResourcePath>,
    pub(crate) kind: KindRef,
    /// The authenticated user.
    pub(crate) identity: Arc<Identity>,
    /// True for a request over the network, false for one from within the process.
    pub(crate) is_remote: bool,
    /// True if the connection of the request can be upgraded to another protocol.
    pub(crate) is_upgradable: bool,
    /// Annotations of the audit event of the request, if there is an audit log.
    pub(crate) audit: Option<AuditAnnotations>,
    pub(crate) components: Arc<Components>,
    /// Seconds since the epoch.
    pub(crate) now: i64,
    /// State shared by all requests.
    pub(crate) shared: Arc<Shared>,
    /// Memory of the decoded body.
    pub(crate) reserved: Reservations,
    /// Counts the bytes of the response that its client has not read; `None` within the process.
    pub(crate) unread: Option<Arc<Unread>>,
    /// The registry of all clusters, if the request is for all of them and not for a single one.
    pub(crate) all_clusters: Option<Box<Registry>>,
}

impl ResourceRequest {
    /// Handles the request. Adds a warning and a metric if the kind's version is deprecated.
    pub(crate) async fn answer(self) -> Result<Response<ResponseBody>, Refusal> {
        self.note_body();
        let Some(deprecated) = self.kind.declaration().deprecated.clone() else {
            return self.carry_out().await;
        };
        let (shared, kind) = (Arc::clone(&self.shared), self.kind.clone());
        let (version, subresource) = (self.path.version.clone(), self.path.subresource.clone());
        let answer = self.carry_out().await;
        if answer.as_ref().is_err_and(Refusal::is_of_router) {
            return answer;
        }
        let (declaration, metrics) = (kind.declaration(), shared.metrics.server());
        metrics.note_deprecated(&declaration.group, &version, &declaration.plural, &subresource);
        let mut response = answer.map_err(|refusal| refusal.warned(&deprecated))?;
        warn(&mut response, &[deprecated.into_owned()]);
        Ok(response)
    }

    /// Records the size of the body in the metrics.
    fn note_body(&self) {
        let verb = match self.method {
            Method::POST => "create",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::DELETE => "delete",
            _ => return,
        };
        let declaration = self.kind.declaration();
        let metrics = self.shared.metrics.server();
        metrics.note_body(&declaration.group, &declaration.plural, verb, self.body.len());
    }

    /// Records that an object was created or deleted; flow control estimates the cost of lists from the object count.
    fn note_change(&self, is_created: bool) {
        let declaration = self.kind.declaration();
        let resource = [&*declaration.group, &*declaration.plural];
        self.components.flow.note_change(&self.cluster, resource, is_created);
    }

    async fn carry_out(self) -> Result<Response<ResponseBody>, Refusal> {
        self.check_scope()?;
        self.check_subresource()?;
        let verb = if self.kind.declaration().is_custom { self.unrouted_verb()? } else { self.verb()? };
        self.check_allowed(verb)?;
        self.check_name()?;
        let declaration = self.kind.declaration();
        if let Some(part) = declaration.subresource(&self.path.subresource)
            && (part.kind != declaration.kind || part.name == "log")
        {
            return self.answer_subresource(part, verb).await;
        }
        if !declaration.verbs.contain(Verbs::GET) {
            return self.answer_access_review().await;
        }
        if declaration.group == metrics::GROUP {
            return self.answer_metrics();
        }
        if !declaration.verbs.contain(Verbs::WATCH) {
            return self.answer_components().await;
        }
        if let Some(registry) = &self.all_clusters {
            return match verb {
                Verbs::WATCH => self.watch().await,
                Verbs::LIST => self.list_all_clusters(registry).await,
                _ => Err(Refusal::method_not_allowed()),
            };
        }
        match verb {
            Verbs::WATCH => self.watch().await,
            Verbs::GET => self.get().await,
            Verbs::LIST => self.list().await,
            Verbs::CREATE => self.create().await,
            Verbs::UPDATE => self.update().await,
            Verbs::PATCH => self.patch().await,
            Verbs::DELETE => self.delete().await,
            _ => self.delete_collection().await,
        }
    }

    /// Rejects a subresource that the kind does not have, for any method.
    fn check_subresource(&self) -> Result<(), Refusal> {
        let (declaration, name) = (self.kind.declaration(), &*self.path.subresource);
        let is_unknown = !name.is_empty() && declaration.subresource(name).is_none();
        if !declaration.is_custom && is_unknown { Err(Refusal::not_found()) } else { Ok(()) }
    }

    /// Returns the verb of the request, derived from its method and its path.
    fn verb(&self) -> Result<Verbs, Refusal> {
        if self.path.watch && self.method != Method::GET {
            return Err(Refusal::method_not_allowed());
        }
        let one = !self.path.name.is_empty();
        let part = !self.path.subresource.is_empty();
        let watching = self.is_watch;
        match (&self.method, one) {
            (&Method::GET, _) if !part && watching => Ok(Verbs::WATCH),
            (&Method::GET, true) => Ok(Verbs::GET),
            // A later step checks whether there is a backend to proxy to.
            (&Method::HEAD | &Method::OPTIONS, true) if self.path.subresource == "proxy" => Ok(Verbs::GET),
            (&Method::GET, false) => Ok(Verbs::LIST),
            (&Method::POST, one) if one == part => Ok(Verbs::CREATE),
            (&Method::PUT, true) => Ok(Verbs::UPDATE),
            (&Method::PATCH, true) => Ok(Verbs::PATCH),
            (&Method::DELETE, true) => Ok(Verbs::DELETE),
            (&Method::DELETE, false) => Ok(Verbs::DELETE_COLLECTION),
            _ => Err(Refusal::method_not_allowed()),
        }
    }

    /// Returns the verb of a request for a custom resource: one handler serves all of its paths.
    fn unrouted_verb(&self) -> Result<Verbs, Refusal> {
        match (&self.method, self.path.name.is_empty()) {
            (&Method::POST, _) => Ok(Verbs::CREATE),
            (&Method::PUT | &Method::PATCH, true) => Err(Refusal::bad_request("name must be provided")),
            _ => self.verb(),
        }
    }

    /// Rejects a path without a namespace for a namespaced kind, except for lists and watches of all namespaces, and a
    /// path with a namespace for a cluster-scoped kind.
    fn check_scope(&self) -> Result<(), Refusal> {
        if self.kind.declaration().is_custom {
            return self.check_unrouted_scope();
        }
        let namespaced = self.kind.declaration().scope == Scope::Namespaced;
        let in_namespace = !self.path.namespace.is_empty();
        let writes_many = self.path.name.is_empty() && self.method != Method::GET;
        let declared = self.kind.declaration().verbs;
        // A collection of a namespaced kind that cannot be listed exists only within a namespace, for POST.
        let unlisted = !declared.contain(Verbs::LIST) && !self.path.watch;
        let in_all_namespaces = namespaced && !in_namespace;
        if in_namespace && !namespaced || in_all_namespaces && (!self.path.name.is_empty() || unlisted) {
            return Err(Refusal::not_found());
        }
        if in_all_namespaces && writes_many {
            return Err(Refusal::method_not_allowed());
        }
        let of_one = [Verbs::GET, Verbs::UPDATE, Verbs::PATCH, Verbs::DELETE];
        let named = !self.path.name.is_empty() && self.path.subresource.is_empty();
        if named && !of_one.into_iter().any(|verb| declared.contain(verb)) {
            return Err(Refusal::not_found());
        }
        Ok(())
    }

    /// Rejects names that no object can have and that would make the key of another object.
    fn check_name(&self) -> Result<(), Refusal> {
        let why = match &*self.path.name {
            "." => "may not be '.'",
            ".." => "may not be '..'",
            name if name.contains('%') => "may not contain '%'",
            _ => return Ok(()),
        };
        Err(Refusal::bad_request(format!("Name parameter invalid: {:?}: {why}", self.path.name)))
    }

    /// Returns 404 for a namespaced path of a cluster-scoped custom kind, and the reverse.
    fn check_unrouted_scope(&self) -> Result<(), Refusal> {
        let namespaced = self.kind.declaration().scope == Scope::Namespaced;
        let in_namespace = !self.path.namespace.is_empty();
        let reads_many = self.path.name.is_empty() && self.method == Method::GET;
        let elsewhere = if namespaced { !in_namespace && !reads_many } else { in_namespace };
        if elsewhere { Err(Refusal::unserved("/")) } else { Ok(()) }
    }

    /// Rejects a request for a custom resource whose subresource does not exist or does not support the verb.
    fn check_unrouted(&self, verb: Verbs) -> Result<(), Refusal> {
        let declaration = self.kind.declaration();
        let offered = match (&*self.path.subresource, declaration.subresource(&self.path.subresource)) {
            ("", _) => declaration.verbs,
            (_, Some(part)) => part.verbs,
            (_, None) => {
                return Err(Error::NotFound(Box::new(Subject::of(declaration, &self.path.name))).into());
            }
        };
        if offered.contain(verb) {
            return Ok(());
        }
        let resource =
            GroupResource { group: declaration.group.clone(), resource: declaration.plural.clone() };
        Err(Status::method_not_supported(&resource, verb.names().next().unwrap_or_default()).into())
    }

    fn check_allowed(&self, verb: Verbs) -> Result<(), Refusal> {
        let declaration = self.kind.declaration();
        if declaration.is_custom {
            self.check_unrouted(verb)?;
        }
        let offered = match &*self.path.subresource {
            "" => declaration.verbs,
            name => declaration.subresource(name).ok_or_else(Refusal::not_found)?.verbs,
        };
        if offered.contain(verb) {
            self.query.check_timeout(verb == Verbs::WATCH)?;
            self.response_format()?;
            return self.query.check_write(&self.method, self.body.is_empty());
        }
        if verb == Verbs::WATCH && offered.contain(Verbs::LIST) {
            let resource =
                GroupResource { group: declaration.group.clone(), resource: declaration.plural.clone() };
            return Err(Status::method_not_supported(&resource, "watch").into());
        }
        // The paths of single objects do not exist for such a kind: 404 instead of 405.
        let nameless = !offered.contain(Verbs::GET) && self.path.subresource.is_empty();
        if nameless && !self.path.name.is_empty() {
            return Err(Refusal::not_found());
        }
        Err(Refusal::method_not_allowed())
    }

    /// The form of the objects that the request and its response contain.
    fn body_form(&self) -> ObjectForm<'_> {
        ObjectForm::new(&*self.kind, &self.path.version, &self.path.subresource)
    }

    /// Converts an object of the body to its stored form.
    fn stored(&self, object: Value) -> Value {
        self.body_form().to_stored(object)
    }

    /// Converts a stored object to the version that the client requested.
    fn served(&self, object: Value) -> Value {
        self.body_form().of_stored(Cow::Owned(object)).into_owned()
    }

    /// The field manager of a write: the `fieldManager` parameter, or else the name in the `User-Agent` header.
    fn manager(&self) -> &str {
        let named = self.query.text("fieldManager");
        if !named.is_empty() {
            return named;
        }
        let agent =
            self.headers.get(header::USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        agent.split('/').next().filter(|name| !name.is_empty()).unwrap_or("unknown")
    }

    fn write<'a>(&'a self, api_version: &'a str) -> Result<Write<'a>, Refusal> {
        Ok(Write {
            kind: &*self.kind,
            api_version,
            served_version: &self.path.version,
            namespace: &self.path.namespace,
            subresource: &self.path.subresource,
            manager: self.manager(),
            requester: &self.identity,
            dry_run: self.query.dry_run(),
            audit: self.audit.as_ref(),
            sent: Some(self),
        })
    }

    /// The format of the response, negotiated from the `Accept` header.
    fn response_format(&self) -> Result<ResponseFormat, Refusal> {
        let offer = Offer {
            collection: self.path.name.is_empty(),
            routed: !self.kind.declaration().is_custom,
            protobuf: self.body_form().type_id().is_some(),
            // Reviews and bindings are not stored, so there is nothing to print as a table.
            tables: self.kind.declaration().verbs.contain(Verbs::GET),
        };
        ResponseFormat::of_resource(&self.headers, &self.query, offer)
    }

    fn encoding(&self) -> Result<Encoding<'_>, Refusal> {
        let format = self.response_format()?;
        Ok(Encoding { kind: &self.kind, version: &self.path.version, format, now: self.now })
    }

    fn validation(&self) -> FieldValidation {
        self.query.field_validation()
    }
}

impl SentBody for ResourceRequest {
    fn untyped(&self) -> Option<Value> {
        let is_object = self.method == Method::POST || self.method == Method::PUT;
        if !is_object || self.body.len() > MAX_REREAD_BYTES {
            return None;
        }
        negotiate::decode_untyped(media_type(&self.headers), &self.body)
    }
}

/// Adds a `Warning` header for each warning.
pub(crate) fn warn(response: &mut Response<ResponseBody>, warnings: &[String]) {
    for warning in warnings {
        let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"").replace(['\n', '\r'], " ");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
}

fn with_status(mut response: Response<ResponseBody>, status: StatusCode) -> Response<ResponseBody> {
    *response.status_mut() = status;
    response
}
