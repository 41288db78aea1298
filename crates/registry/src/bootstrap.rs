//! What every cluster has from its beginning.

use serde_json::json;

use crate::catalog;
use crate::cluster::Cluster;
use crate::error::{Error, Result};
use crate::lifecycle::Write;

/// The namespaces that are always there.
const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// Who owns the fields of what is made here.
const MANAGER: &str = "kube-apiserver";

impl Cluster {
    /// Makes what is missing of what every cluster has. What is there is left as it is.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn bootstrap(&self) -> Result<()> {
        let Some(kind) = catalog::find("", "v1", "namespaces") else { return Ok(()) };
        let write = Write {
            kind,
            api_version: "v1",
            namespace: "",
            subresource: "",
            manager: MANAGER,
            dry_run: false,
        };
        for name in NAMESPACES {
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            match self.create(&write, namespace).await {
                Ok(_) | Err(Error::AlreadyExists(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
