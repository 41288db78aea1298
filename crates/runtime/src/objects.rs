//! Reads and writes the objects of one kind, in any cluster of the server.
//!
//! Callers choose the types of requests and responses: a view of a few fields, JSON, or the whole object. The
//! [`ObjectKey`] determines the cluster, so a controller of many clusters does not need a client for each.

use kube::Client;
use kube::Resource;
use kube::api::{DeleteParams, GetParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::request::{Error as RequestError, Request as Requests};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};

use crate::key::{ClusterId, ObjectKey};
use crate::response;

const NOT_FOUND: u16 = 404;

/// Location of a kind's objects in the API.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ResourcePath {
    /// Path up to the version, such as `/apis/apps/v1`.
    base: Box<str>,
    plural: Box<str>,
}

impl ResourcePath {
    /// Path of a kind of `k8s-openapi`.
    pub fn of<K: Resource<DynamicType = ()>>() -> Self {
        Self::new(&K::group(&()), &K::version(&()), &K::plural(&()))
    }

    /// Path of any kind; `group` is empty for the core group.
    pub fn new(group: &str, version: &str, plural: &str) -> Self {
        let base =
            if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
        Self { base: base.into(), plural: plural.into() }
    }

    /// Path of the collection in a namespace, or of all objects if `namespace` is empty.
    pub fn collection(&self, cluster: &ClusterId, namespace: &str) -> String {
        let Self { base, plural } = self;
        let cluster = cluster.path();
        if namespace.is_empty() {
            format!("{cluster}{base}/{plural}")
        } else {
            format!("{cluster}{base}/namespaces/{namespace}/{plural}")
        }
    }
}

/// Typed access to the objects of one kind. Cheap to clone.
///
/// Writes return the resulting object decoded as the type that the caller chooses; [`Written`] is enough for most.
#[derive(Clone)]
pub struct Objects {
    client: Client,
    path: ResourcePath,
    manager: Option<&'static str>,
}

/// Response of a write, reduced to the object's identity and version.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Written {
    /// Identity and version of the object.
    pub metadata: WrittenMetadata,
}

/// Metadata of [`Written`].
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct WrittenMetadata {
    /// Name, which the server may have generated.
    pub name: Box<str>,
    /// Uid of the object.
    pub uid: Box<str>,
    /// Resource version after the write.
    pub resource_version: Box<str>,
}

#[derive(Deserialize)]
#[serde(bound = "T: DeserializeOwned")]
struct Items<T> {
    #[serde(default)]
    metadata: ListMetadata,
    items: Vec<T>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ListMetadata {
    r#continue: String,
}

impl Objects {
    /// Access to a kind of `k8s-openapi`.
    pub fn of<K: Resource<DynamicType = ()>>(client: &Client) -> Self {
        Self::at(client, ResourcePath::of::<K>())
    }

    /// Access to the kind at a path.
    pub fn at(client: &Client, path: ResourcePath) -> Self {
        Self { client: client.clone(), path, manager: None }
    }

    /// Sets the field manager of creates and updates. Patches carry theirs in [`PatchParams`].
    #[must_use]
    pub fn managed_by(self, manager: &'static str) -> Self {
        Self { manager: Some(manager), ..self }
    }

    /// Path of the kind.
    pub fn path(&self) -> &ResourcePath {
        &self.path
    }

    /// Returns an object, or `None` if it does not exist.
    ///
    /// # Errors
    /// If the server rejects the request, or the request fails on the way.
    pub async fn get<T: DeserializeOwned>(&self, key: &ObjectKey) -> kube::Result<Option<T>> {
        match self.send(self.requests(key).get(key.name(), &GetParams::default())).await {
            Err(kube::Error::Api(status)) if status.code == NOT_FOUND => Ok(None),
            answer => answer.map(Some),
        }
    }

    /// Returns a subresource, such as `scale`, or `None` if the object does not exist.
    ///
    /// # Errors
    /// As for [`Objects::get`].
    pub async fn get_subresource<T: DeserializeOwned>(
        &self,
        key: &ObjectKey,
        subresource: &str,
    ) -> kube::Result<Option<T>> {
        match self.send(self.requests(key).get_subresource(subresource, key.name())).await {
            Err(kube::Error::Api(status)) if status.code == NOT_FOUND => Ok(None),
            answer => answer.map(Some),
        }
    }

    /// Lists the objects that `params` select in the namespace of `beside`, or in its cluster if it has no namespace.
    ///
    /// # Errors
    /// As for [`Objects::get`].
    pub async fn list<T: DeserializeOwned>(
        &self,
        beside: &ObjectKey,
        params: &ListParams,
    ) -> kube::Result<Vec<T>> {
        let list: Items<T> = self.send(self.requests(beside).list(params)).await?;
        Ok(list.items)
    }

    /// Like [`Objects::list`], in pages of the size that `params` set, or that the server chooses.
    ///
    /// # Errors
    /// As for [`Objects::get`].
    pub async fn list_pages<T: DeserializeOwned>(
        &self,
        beside: &ObjectKey,
        params: &ListParams,
        mut each: impl FnMut(Vec<T>),
    ) -> kube::Result<()> {
        let mut params = params.clone();
        loop {
            let list: Items<T> = self.send(self.requests(beside).list(&params)).await?;
            each(list.items);
            if list.metadata.r#continue.is_empty() {
                return Ok(());
            }
            params.continue_token = Some(list.metadata.r#continue);
        }
    }

    /// Creates an object in the cluster and namespace of `beside`. The name is taken from `object`.
    ///
    /// # Errors
    /// As for [`Objects::get`].
    pub async fn create<T: DeserializeOwned>(
        &self,
        beside: &ObjectKey,
        object: &impl Serialize,
    ) -> kube::Result<T> {
        self.send(self.requests(beside).create(&self.params(), encode(object)?)).await
    }

    /// Posts to a subresource, such as `binding` or `eviction`.
    ///
    /// # Errors
    /// As for [`Objects::get`].
    pub async fn create_subresource<T: DeserializeOwned>(
        &self,
        key: &ObjectKey,
        subresource: &str,
        body: &impl Serialize,
    ) -> kube::Result<T> {
        let params = self.params();
        self.send(self.requests(key).create_subresource(subresource, key.name(), &params, encode(body)?))
            .await
    }

    /// Replaces an object.
    ///
    /// # Errors
    /// As for [`Objects::get`].
    pub async fn replace<T: DeserializeOwned>(
        &self,
        key: &ObjectKey,
        object: &impl Serialize,
    ) -> kube::Result<T> {
        self.send(self.requests(key).replace(key.name(), &self.params(), encode(object)?)).await
    }

    /// Replaces a subresource, such as `status`.
    ///
    /// # Errors
    /// As for [`Objects::get`].
    pub async fn replace_subresource<T: DeserializeOwned>(
        &self,
        key: &ObjectKey,
        subresource: &str,
        object: &impl Serialize,
    ) -> kube::Result<T> {
        let (params, object) = (self.params(), encode(object)?);
        self.send(self.requests(key).replace_subresource(subresource, key.name(), &params, object)).await
    }

    /// Patches an object.
    ///
    /// # Errors
    /// As for [`Objects::get`].
    pub async fn patch<T: DeserializeOwned>(
        &self,
        key: &ObjectKey,
        params: &PatchParams,
        patch: &Patch<impl Serialize>,
    ) -> kube::Result<T> {
        self.send(self.requests(key).patch(key.name(), params, patch)).await
    }

    /// Patches a subresource, such as `status`.
    ///
    /// # Errors
    /// As for [`Objects::get`].
    pub async fn patch_subresource<T: DeserializeOwned>(
        &self,
        key: &ObjectKey,
        subresource: &str,
        params: &PatchParams,
        patch: &Patch<impl Serialize>,
    ) -> kube::Result<T> {
        self.send(self.requests(key).patch_subresource(subresource, key.name(), params, patch)).await
    }

    /// Deletes an object, or begins to if it has finalizers. An object that does not exist counts as deleted.
    ///
    /// # Errors
    /// As for [`Objects::get`], and a conflict if the preconditions of `params` do not hold.
    pub async fn delete(&self, key: &ObjectKey, params: &DeleteParams) -> kube::Result<()> {
        match self.send::<IgnoredAny>(self.requests(key).delete(key.name(), params)).await {
            Err(kube::Error::Api(status)) if status.code == NOT_FOUND => Ok(()),
            answer => answer.map(drop),
        }
    }

    /// Deletes all objects in the namespace of `beside` that `which` selects, or begins to.
    ///
    /// # Errors
    /// As for [`Objects::get`].
    pub async fn delete_collection(
        &self,
        beside: &ObjectKey,
        params: &DeleteParams,
        which: &ListParams,
    ) -> kube::Result<()> {
        self.send::<IgnoredAny>(self.requests(beside).delete_collection(params, which)).await.map(drop)
    }

    fn params(&self) -> PostParams {
        PostParams { field_manager: self.manager.map(str::to_owned), ..PostParams::default() }
    }

    fn requests(&self, key: &ObjectKey) -> Requests {
        Requests::new(self.path.collection(key.cluster(), key.namespace()))
    }

    async fn send<T: DeserializeOwned>(
        &self,
        request: Result<http::Request<Vec<u8>>, RequestError>,
    ) -> kube::Result<T> {
        response::read(&self.client, request.map_err(kube::Error::BuildRequest)?).await
    }
}

fn encode(object: &impl Serialize) -> kube::Result<Vec<u8>> {
    serde_json::to_vec(object).map_err(kube::Error::SerdeError)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::Deployment;
    use k8s_openapi::api::core::v1::{Node, Pod};

    use super::*;

    #[test]
    fn paths_contain_cluster_group_and_namespace() {
        let (plain, blue) = (ClusterId::default(), ClusterId::new("blue"));
        assert_eq!(ResourcePath::of::<Pod>().collection(&plain, "n"), "/api/v1/namespaces/n/pods");
        assert_eq!(
            ResourcePath::of::<Deployment>().collection(&blue, "n"),
            "/clusters/blue/apis/apps/v1/namespaces/n/deployments"
        );
        assert_eq!(ResourcePath::of::<Node>().collection(&plain, ""), "/api/v1/nodes");
        let boats = ResourcePath::new("example.org", "v1", "boats");
        assert_eq!(boats.collection(&plain, ""), "/apis/example.org/v1/boats");
    }
}
