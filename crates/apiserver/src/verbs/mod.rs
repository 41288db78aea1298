//! What is done with resources: one function for each verb, for all kinds.

mod create;
mod delete;
mod patch;
mod read;
mod update;
mod watch;

use std::sync::Arc;

use bytes::Bytes;
use coracle_meta::status::Status;
use coracle_registry::lifecycle::Write;
use coracle_registry::{Cluster, Kind, Scope, Verbs};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use serde_json::Value;

use crate::body::ResponseBody;
use crate::negotiate::{Encoding, Wanted};
use crate::options::{FieldValidation, Query};
use crate::route::ResourcePath;
use crate::service::Shared;
use crate::status::Refusal;

/// A request for a resource, with its body.
pub(crate) struct ResourceRequest {
    pub(crate) method: Method,
    pub(crate) headers: HeaderMap,
    pub(crate) query: Query,
    pub(crate) body: Bytes,
    pub(crate) cluster: Cluster,
    pub(crate) path: ResourcePath,
    pub(crate) kind: &'static dyn Kind,
    /// Seconds since the epoch.
    pub(crate) now: i64,
    /// What all requests share.
    pub(crate) shared: Arc<Shared>,
}

impl ResourceRequest {
    /// Does what the request asks for.
    pub(crate) async fn answer(self) -> Result<Response<ResponseBody>, Refusal> {
        self.check_scope()?;
        let one = !self.path.name.is_empty();
        let watching = self.path.watch || !one && self.query.flag("watch");
        match (&self.method, one) {
            (&Method::GET, _) if watching => self.allow(Verbs::WATCH)?.watch().await,
            (&Method::GET, true) => self.allow(Verbs::GET)?.get().await,
            (&Method::GET, false) => self.allow(Verbs::LIST)?.list().await,
            (&Method::POST, false) => self.allow(Verbs::CREATE)?.create().await,
            (&Method::PUT, true) => self.allow(Verbs::UPDATE)?.update().await,
            (&Method::PATCH, true) => self.allow(Verbs::PATCH)?.patch().await,
            (&Method::DELETE, true) => self.allow(Verbs::DELETE)?.delete().await,
            (&Method::DELETE, false) => self.allow(Verbs::DELETE_COLLECTION)?.delete_collection().await,
            _ => Err(Refusal::method_not_allowed()),
        }
    }

    /// Namespaced kinds are reached through a namespace, others are not.
    fn check_scope(&self) -> Result<(), Refusal> {
        let namespaced = self.kind.declaration().scope == Scope::Namespaced;
        let in_namespace = !self.path.namespace.is_empty();
        let writes_many = self.path.name.is_empty() && self.method != Method::GET;
        let declared = self.kind.declaration().verbs;
        // Collections that cannot be listed are only there in a namespace, to be posted to.
        let unlisted = !declared.contain(Verbs::LIST) && !self.path.watch;
        let everywhere = namespaced && !in_namespace;
        if in_namespace && !namespaced || everywhere && (!self.path.name.is_empty() || unlisted) {
            return Err(Refusal::not_found());
        }
        if everywhere && writes_many {
            return Err(Refusal::method_not_allowed());
        }
        let of_one = [Verbs::GET, Verbs::UPDATE, Verbs::PATCH, Verbs::DELETE];
        let named = !self.path.name.is_empty() && self.path.subresource.is_empty();
        if named && !of_one.into_iter().any(|verb| declared.contain(verb)) {
            return Err(Refusal::not_found());
        }
        if self.path.name.contains('%') {
            let message = format!("Name parameter invalid: {:?}: may not contain '%'", self.path.name);
            return Err(Refusal::bad_request(message));
        }
        Ok(())
    }

    fn allow(self, verb: Verbs) -> Result<Self, Refusal> {
        let declaration = self.kind.declaration();
        let offered = match &*self.path.subresource {
            "" => declaration.verbs,
            name => declaration.subresource(name).ok_or_else(Refusal::not_found)?.verbs,
        };
        if !offered.contain(verb) {
            return Err(Refusal::method_not_allowed());
        }
        self.query.check_timeout(verb == Verbs::WATCH)?;
        self.wanted()?;
        self.query.check_write(&self.method, self.body.is_empty())?;
        match self.missing() {
            None => Ok(self),
            Some(what) => Err(Status::service_unavailable(format!("{what} is not served yet")).into()),
        }
    }

    /// What is declared but cannot be answered yet: saying so is better than a wrong answer.
    fn missing(&self) -> Option<String> {
        let declaration = self.kind.declaration();
        let plural = &declaration.plural;
        let stored = declaration.verbs.contain(Verbs::GET);
        let name = &self.path.subresource;
        let of_own_kind =
            declaration.subresource(name).is_none_or(|part| part.kind == declaration.kind && name != "log");
        if !of_own_kind {
            return Some(format!("{plural}/{name}"));
        }
        // Questions that are posted, and answered without being kept.
        (!stored).then(|| declaration.group_resource())
    }

    /// An object of the body, as it is stored.
    fn stored(&self, object: Value) -> Value {
        let version = &self.path.version;
        if self.kind.declaration().is_converted(version) {
            self.kind.convert_in(version, object)
        } else {
            object
        }
    }

    /// An object of the store, as the client of this version knows it.
    fn served(&self, object: Value) -> Value {
        let version = &self.path.version;
        if self.kind.declaration().is_converted(version) {
            self.kind.convert_out(version, object)
        } else {
            object
        }
    }

    /// Who owns what is written: as the client says, or the name of its program.
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
            kind: self.kind,
            api_version,
            namespace: &self.path.namespace,
            subresource: &self.path.subresource,
            manager: self.manager(),
            dry_run: self.query.dry_run(),
        })
    }

    /// In which form the answer is wanted.
    fn wanted(&self) -> Result<Wanted, Refusal> {
        Wanted::of_resource(&self.headers, &self.query, self.path.name.is_empty())
    }

    fn encoding(&self) -> Result<Encoding<'_>, Refusal> {
        let wanted = self.wanted()?;
        Ok(Encoding { kind: self.kind, version: &self.path.version, wanted, now: self.now })
    }

    fn validation(&self) -> FieldValidation {
        self.query.field_validation()
    }
}

/// Adds the headers by which clients are warned.
fn warn(response: &mut Response<ResponseBody>, warnings: &[String]) {
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
