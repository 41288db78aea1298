//! Selection of the objects that an informer watches, and its list and watch requests.

use http::Request;
use kube::Resource;
use kube::api::{ListParams, WatchParams};
use kube::core::request::{Error, Request as Requests};

use crate::key::ClusterId;
use crate::objects::ResourcePath;

/// Page size of lists. Each page is decoded in one piece, so larger pages need more memory, and only once.
const PAGE: u32 = 500;

/// Duration of a watch before it is renewed: as long as clients may assume that a silent watch is alive. Renewing
/// does not relist.
const WATCH_SECONDS: u32 = 290;

/// Whole objects, or `PartialObjectMetadata`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Whole,
    Metadata,
}

/// Selects objects of a kind, in all namespaces. Equal selections share an informer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    path: String,
    form: Form,
    fields: Option<String>,
    page: u32,
}

impl Selection {
    /// Selects all objects of a kind, whole.
    ///
    /// ```
    /// use coracle_runtime::Selection;
    /// use k8s_openapi::api::core::v1::ServiceAccount;
    ///
    /// let defaults = Selection::of::<ServiceAccount>().metadata_only().with_fields("metadata.name=default");
    /// ```
    pub fn of<K: Resource<DynamicType = ()>>() -> Self {
        Self { path: K::url_path(&(), None), form: Form::Whole, fields: None, page: PAGE }
    }

    /// Selects all objects at a path, whole.
    pub fn at(path: &ResourcePath) -> Self {
        let path = path.collection(&ClusterId::default(), "");
        Self { path, form: Form::Whole, fields: None, page: PAGE }
    }

    /// Requests metadata only.
    #[must_use]
    pub fn metadata_only(self) -> Self {
        Self { form: Form::Metadata, ..self }
    }

    /// Restricts the selection to a field selector.
    #[must_use]
    pub fn with_fields(self, selector: &str) -> Self {
        Self { fields: Some(selector.to_owned()), ..self }
    }

    /// Sets the page size of lists, for kinds with large objects.
    #[must_use]
    pub fn in_pages_of(self, page: u32) -> Self {
        Self { page, ..self }
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Request for the page of a list after `token`, of one cluster or of all.
    pub(super) fn list(&self, cluster: &ClusterId, token: Option<&str>) -> Result<Request<Vec<u8>>, Error> {
        let params = ListParams {
            field_selector: self.fields.clone(),
            limit: Some(self.page),
            continue_token: token.map(str::to_owned),
            ..ListParams::default()
        };
        let requests = Requests::new(format!("{}{}", cluster.path(), self.path));
        match self.form {
            Form::Whole => requests.list(&params),
            Form::Metadata => requests.list_metadata(&params),
        }
    }

    /// Request for a watch from `revision` on, of one cluster or of all; without `revision`, with initial events.
    pub(super) fn watch(
        &self,
        cluster: &ClusterId,
        revision: Option<&str>,
    ) -> Result<Request<Vec<u8>>, Error> {
        let params = WatchParams {
            field_selector: self.fields.clone(),
            timeout: Some(WATCH_SECONDS),
            // Bookmarks advance the revision while no object of this kind changes, so that a renewed watch does not
            // start from compacted history.
            bookmarks: true,
            send_initial_events: revision.is_none(),
            ..WatchParams::default()
        };
        let requests = Requests::new(format!("{}{}", cluster.path(), self.path));
        let revision = revision.unwrap_or_default();
        match self.form {
            Form::Whole => requests.watch(&params, revision),
            Form::Metadata => requests.watch_metadata(&params, revision),
        }
    }
}

#[cfg(test)]
mod tests {
    use http::header::ACCEPT;
    use k8s_openapi::api::apps::v1::Deployment;
    use k8s_openapi::api::core::v1::ServiceAccount;

    use super::*;

    #[test]
    fn list_and_watch_requests_use_the_same_selection_and_form() {
        let selection =
            Selection::of::<ServiceAccount>().metadata_only().with_fields("metadata.name=default");
        let cluster = ClusterId::default();
        let list = selection.list(&cluster, None).unwrap();
        assert_eq!(list.uri(), "/api/v1/serviceaccounts?&fieldSelector=metadata.name%3Ddefault&limit=500");
        let watch = selection.watch(&cluster, Some("7")).unwrap();
        let query = watch.uri().query().unwrap();
        for part in ["fieldSelector=metadata.name%3Ddefault", "allowWatchBookmarks=true", "resourceVersion=7"]
        {
            assert!(query.contains(part), "{query}");
        }
        let everywhere = selection.watch(ClusterId::all_clusters(), Some("7")).unwrap();
        assert!(everywhere.uri().path().starts_with("/clusters/*/api/v1/serviceaccounts"));
        let state = selection.watch(&cluster, None).unwrap();
        let query = state.uri().query().unwrap();
        assert!(query.contains("sendInitialEvents=true&resourceVersionMatch=NotOlderThan"), "{query}");
        for request in [list, watch, state] {
            assert!(request.headers()[ACCEPT].to_str().unwrap().contains("as=PartialObjectMetadata"));
        }
    }

    #[test]
    fn path_contains_group_of_non_core_kind() {
        assert_eq!(Selection::of::<Deployment>().path(), "/apis/apps/v1/deployments");
    }
}
