//! Which objects an informer follows, and how it asks for them.

use http::Request;
use kube::Resource;
use kube::api::{ListParams, WatchParams};
use kube::core::request::{Error, Request as Requests};

use crate::key::ClusterId;
use crate::objects::ResourcePath;

/// How many objects one answer holds. Larger pages are decoded in one piece, which costs memory that is
/// needed only once.
const PAGE: u32 = 500;

/// How long a watch lasts before it is renewed. The longest that clients take for a sign of life; nothing
/// is listed again.
const WATCH_SECONDS: u32 = 290;

/// What of an object is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Whole,
    Metadata,
}

/// Which objects of a kind, in all namespaces. The same selection is the same informer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    path: String,
    form: Form,
    fields: Option<String>,
    page: u32,
}

impl Selection {
    /// All objects of a kind, whole.
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

    /// All objects at a path, whole.
    pub fn at(path: &ResourcePath) -> Self {
        let path = path.collection(&ClusterId::default(), "");
        Self { path, form: Form::Whole, fields: None, page: PAGE }
    }

    /// Only the metadata, for those who need names and no content.
    #[must_use]
    pub fn metadata_only(self) -> Self {
        Self { form: Form::Metadata, ..self }
    }

    /// Only objects this field selector selects.
    #[must_use]
    pub fn with_fields(self, selector: &str) -> Self {
        Self { fields: Some(selector.to_owned()), ..self }
    }

    /// In smaller pages, for kinds whose objects are large.
    #[must_use]
    pub fn in_pages_of(self, page: u32) -> Self {
        Self { page, ..self }
    }

    /// Where the objects are.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// The request for the page of a list after `token`, in a cluster or in all.
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

    /// The request for what has changed since `revision`, in a cluster or in all; without one, for what there is
    /// and what changes then.
    pub(super) fn watch(
        &self,
        cluster: &ClusterId,
        revision: Option<&str>,
    ) -> Result<Request<Vec<u8>>, Error> {
        let params = WatchParams {
            field_selector: self.fields.clone(),
            timeout: Some(WATCH_SECONDS),
            // They move the revision on while nothing of this kind changes, so that a renewed watch does
            // not ask for history that is gone.
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
    fn lists_and_watches_ask_for_the_same_objects_in_the_same_form() {
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
    fn groups_other_than_the_first_have_their_own_path() {
        assert_eq!(Selection::of::<Deployment>().path(), "/apis/apps/v1/deployments");
    }
}
