//! LIST and WATCH of the objects of all clusters at once, for controllers that serve all of them.

use coracle_registry::Registry;
use coracle_registry::lifecycle::{ObjectWatch, WatchOptions};
use http::Response;

use super::ResourceRequest;
use crate::body::ResponseBody;
use crate::negotiate;
use crate::status::Refusal;

impl ResourceRequest {
    pub(super) async fn list_all_clusters(
        &self,
        registry: &Registry,
    ) -> Result<Response<ResponseBody>, Refusal> {
        self.check_all_clusters()?;
        let options = self.list_options()?;
        let token = options.continue_token.as_deref();
        let page = registry.list_all_clusters(&*self.kind, &options.selection, options.limit, token).await?;
        negotiate::page_all_clusters(&self.encoding()?, page)
    }

    pub(super) async fn watch_all_clusters(
        &self,
        registry: &Registry,
        options: WatchOptions,
    ) -> Result<ObjectWatch, Refusal> {
        self.check_all_clusters()?;
        Ok(registry.watch_all_clusters(self.kind.clone(), options).await?)
    }

    /// Returns 404 for a path with a namespace or a name and for a custom kind: each of these exists within one
    /// cluster.
    fn check_all_clusters(&self) -> Result<(), Refusal> {
        let of_all = self.path.namespace.is_empty() && self.path.name.is_empty();
        if of_all && self.kind.depends_on().is_none() { Ok(()) } else { Err(Refusal::not_found()) }
    }
}
