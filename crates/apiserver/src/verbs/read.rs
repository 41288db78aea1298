//! GET of one object, and LIST.

use coracle_meta::status::Status;
use coracle_registry::lifecycle::{ListOptions, Object, Page};
use coracle_registry::{Error, Revision};
use http::Response;

use super::ResourceRequest;
use crate::body::ResponseBody;
use crate::negotiate;
use crate::options::{revision_number, unexplained};
use crate::status::Refusal;

impl ResourceRequest {
    pub(super) async fn get(self) -> Result<Response<ResponseBody>, Refusal> {
        if self.query.flag("export") {
            let message = "the export parameter, deprecated since v1.14, is no longer supported";
            return Err(Refusal::bad_request(message));
        }
        negotiate::object(&self.encoding()?, &self.read().await?)
    }

    /// Reads the object of the path, not older than the requested `resourceVersion`.
    pub(super) async fn read(&self) -> Result<Object, Refusal> {
        let group_resource = self.kind.declaration().group_resource();
        let unreadable = |why: String| match &*group_resource {
            // kube-apiserver has no watch cache of events. Errors of its storage include the cause, those of its cache
            // do not.
            "events" | "events.events.k8s.io" => invalid_revision(&why),
            _ => unexplained(why),
        };
        let number = revision_number(self.query.text("resourceVersion")).map_err(unreadable)?;
        let ResourceRequest { cluster, path, kind, .. } = self;
        Ok(cluster.get(&**kind, &path.namespace, &path.name, number.map(Revision::new)).await?)
    }

    pub(super) async fn list(self) -> Result<Response<ResponseBody>, Refusal> {
        let options = self.list_options()?;
        let page = match self.cluster.list(&*self.kind, &self.path.namespace, &options).await {
            Err(Error::Expired { .. }) => return Err(Status::list_expired().into()),
            outcome => outcome?,
        };
        self.note_list(&options, &page);
        negotiate::page(&self.encoding()?, page, &self.shared.messages)
    }

    /// Records the objects of a list; flow control estimates the cost of later lists from them. Only the first
    /// page of a list without selectors gives the total number of objects.
    pub(super) fn note_list(&self, options: &ListOptions, page: &Page) {
        if options.continue_token.is_some() || !options.selection.is_everything() {
            return;
        }
        let declaration = self.kind.declaration();
        let is_all = self.path.namespace.is_empty();
        self.components.flow.note_list(
            &self.cluster,
            [&declaration.group, &declaration.plural],
            &page.entries,
            page.remaining.unwrap_or(0),
            is_all,
        );
    }

    pub(super) fn list_options(&self) -> Result<ListOptions, Refusal> {
        let query = self.query.list_query(false)?;
        let selection = self.query.selection(&*self.kind, &self.path.version)?;
        let continue_token = Some(query.continue_token).filter(|token| !token.is_empty());
        let continued = continue_token.is_some();
        if continued && !matches!(&*query.resource_version, "" | "0") {
            let message = "specifying resource version is not allowed when using continue";
            return Err(Refusal::bad_request(message));
        }
        let revision = revision_number(&query.resource_version).map_err(|why| invalid_revision(&why))?;
        let revision = revision.map(Revision::new);
        let limit = match query.limit {
            // Any state satisfies resource version 0, so the whole list is returned instead of pages.
            _ if query.resource_version == "0" && !continued => 0,
            limit => usize::try_from(limit).unwrap_or(0),
        };
        let exact = match &*query.resource_version_match {
            "Exact" => true,
            // The behavior before `resourceVersionMatch` existed: a page of a given revision is of exactly that
            // revision.
            "" => limit > 0,
            _ => false,
        };
        Ok(ListOptions {
            selection,
            limit,
            continue_token,
            exact: revision.filter(|_| exact),
            not_older_than: revision.filter(|_| !exact),
        })
    }
}

fn invalid_revision(why: &str) -> Refusal {
    Refusal::bad_request(format!("invalid resource version: {why}"))
}
