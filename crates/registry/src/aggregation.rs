//! API versions that an APIService delegates to an aggregated API server.
//!
//! This server does not proxy to aggregated API servers yet. It lists their versions, so that requests for them get
//! the response of kube-aggregator for an unavailable server.

use serde_json::Value;

use crate::kinds::apiregistration::api_service::ApiService;
use crate::lifecycle::{ListOptions, tree};
use crate::{Cluster, Result, view};

/// An API version that an aggregated API server serves.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RemoteVersion {
    /// The group.
    pub group: String,
    /// The version.
    pub version: String,
}

impl RemoteVersion {
    /// The group version of an APIService that names a service.
    fn of(api_service: &Value) -> Option<Self> {
        view::at(api_service, &["spec", "service"])?;
        let text = |field| view::text(api_service, &["spec", field]).to_owned();
        Some(Self { group: text("group"), version: text("version") })
    }
}

impl Cluster {
    /// Versions whose APIService names a service, sorted.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn remote_versions(&self) -> Result<Vec<RemoteVersion>> {
        /// Every built-in version has an APIService without a service; those are not parsed.
        const SERVICE: &[u8] = b"\"service\":";
        let page = self.list(&ApiService, "", &ListOptions::default()).await?;
        let mut found = Vec::new();
        for entry in &page.entries {
            if entry.value_bytes().windows(SERVICE.len()).any(|window| window == SERVICE) {
                found.extend(RemoteVersion::of(&tree(entry)?));
            }
        }
        found.sort();
        Ok(found)
    }
}
