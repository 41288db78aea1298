//! Reading and writing the objects of one kind, in any cluster of the server.
//!
//! What is sent and what comes back are whatever the caller needs: a view of a few fields, JSON, or a whole
//! object. Where it lies is said by an [`ObjectKey`], so a controller that follows many clusters writes to
//! the right one without a client for each.

use kube::Client;
use kube::Resource;
use kube::api::{DeleteParams, GetParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::request::{Error as RequestError, Request as Requests};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};

use crate::key::{ClusterId, ObjectKey};
use crate::response;

/// The code of what is not there.
const NOT_FOUND: u16 = 404;

/// Where the objects of a kind are in the API.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ResourcePath {
    /// Up to the version, as `/apis/apps/v1`.
    base: Box<str>,
    plural: Box<str>,
}

impl ResourcePath {
    /// That of a kind known when the program was written.
    pub fn of<K: Resource<DynamicType = ()>>() -> Self {
        Self::new(&K::group(&()), &K::version(&()), &K::plural(&()))
    }

    /// That of any other kind; the group is empty for the first of all groups.
    pub fn new(group: &str, version: &str, plural: &str) -> Self {
        let base =
            if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
        Self { base: base.into(), plural: plural.into() }
    }

    /// The path of all objects in a namespace, or of all there are if it is empty.
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

/// The objects of one kind, for whoever reads and writes them. Cheap to clone.
///
/// Updates and patches answer with the object as it is then, in the form the caller asks for;
/// [`Written`] is enough for most.
#[derive(Clone)]
pub struct Objects {
    client: Client,
    path: ResourcePath,
    manager: Option<&'static str>,
}

/// Which version of an object was written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Written {
    /// Which object, and its version.
    pub metadata: WrittenMetadata,
}

/// See [`Written`].
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct WrittenMetadata {
    /// Its name, which the server may have made.
    pub name: Box<str>,
    /// Its identity.
    pub uid: Box<str>,
    /// The version.
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
    /// Those of a kind known when the program was written.
    pub fn of<K: Resource<DynamicType = ()>>(client: &Client) -> Self {
        Self::at(client, ResourcePath::of::<K>())
    }

    /// Those at a path.
    pub fn at(client: &Client, path: ResourcePath) -> Self {
        Self { client: client.clone(), path, manager: None }
    }

    /// Writes them under another name than the program's: what is written belongs to this manager. Patches
    /// say theirs themselves.
    #[must_use]
    pub fn managed_by(self, manager: &'static str) -> Self {
        Self { manager: Some(manager), ..self }
    }

    /// Where they are.
    pub fn path(&self) -> &ResourcePath {
        &self.path
    }

    /// One object; none if it is not there.
    ///
    /// # Errors
    /// Whatever the server refuses, and all that can go wrong on the way.
    pub async fn get<T: DeserializeOwned>(&self, key: &ObjectKey) -> kube::Result<Option<T>> {
        match self.send(self.requests(key).get(key.name(), &GetParams::default())).await {
            Err(kube::Error::Api(status)) if status.code == NOT_FOUND => Ok(None),
            answer => answer.map(Some),
        }
    }

    /// A part of an object, such as `scale`; none if the object is not there.
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

    /// All objects in the namespace of `beside`, or of its cluster if it is in none, that `params` select.
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

    /// As [`Objects::list`], some at a time: as many as `params` say, or as the server thinks fit.
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

    /// Makes an object in the cluster and the namespace of `beside`. Its name is what `object` says.
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

    /// Posts to a part of an object, such as `binding` or `eviction`.
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

    /// Replaces a part of an object, such as `status`.
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

    /// Changes an object.
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

    /// Changes a part of an object, such as `status`.
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

    /// Begins to delete an object. One that is not there is deleted already.
    ///
    /// # Errors
    /// As for [`Objects::get`], and a conflict if it is not the one that `params` mean.
    pub async fn delete(&self, key: &ObjectKey, params: &DeleteParams) -> kube::Result<()> {
        match self.send::<IgnoredAny>(self.requests(key).delete(key.name(), params)).await {
            Err(kube::Error::Api(status)) if status.code == NOT_FOUND => Ok(()),
            answer => answer.map(drop),
        }
    }

    /// Begins to delete all objects in the namespace of `beside` that `which` selects.
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
    fn paths_say_cluster_group_and_namespace() {
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
