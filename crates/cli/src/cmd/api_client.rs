//! API clients for commands that act on a running server.

use std::path::Path;

use anyhow::{Context, Error, Result, anyhow};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use crate::failure::Advice;

/// Cluster of commands without --cluster.
pub(super) const DEFAULT_CLUSTER: &str = "default";

/// Maximum length of a cluster id: that of a DNS label.
const MAX_ID_BYTES: usize = 63;

/// Returns a client of one cluster of the server that the kubeconfig names.
pub(super) async fn connect(kubeconfig: &Path, cluster: &str) -> Result<Client> {
    let unusable = || format!("cannot use {}", kubeconfig.display());
    let read = Kubeconfig::read_from(kubeconfig)
        .with_context(unusable)
        .context(Advice("start the cluster once, or pass --kubeconfig FILE".to_owned()))?;
    let options = KubeConfigOptions::default();
    let mut config = Config::from_custom_kubeconfig(read, &options).await.with_context(unusable)?;
    if cluster != DEFAULT_CLUSTER {
        let server = config.cluster_url.to_string();
        let url = format!("{}/clusters/{cluster}", server.trim_end_matches('/'));
        config.cluster_url = url.parse().with_context(unusable)?;
    }
    Client::try_from(config).with_context(unusable)
}

/// Error of a request that got no response. Libraries wrap the cause several times; the innermost error names it.
pub(super) fn unreachable(error: kube::Error) -> Error {
    let error = Error::new(error);
    let cause = error.root_cause().to_string();
    anyhow!("cannot reach the API server: {cause}")
        .context(Advice("is the cluster running? coracle up starts it".to_owned()))
}

/// Parses a cluster id, which is a DNS label.
pub(super) fn cluster_id(text: &str) -> Result<String, String> {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_label = !text.is_empty() && text.len() <= MAX_ID_BYTES && text.bytes().all(fits);
    if is_label && !text.starts_with('-') && !text.ends_with('-') {
        return Ok(text.to_owned());
    }
    Err("expected the id of a cluster: at most 63 of a-z, 0-9 and -".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cluster_id_is_a_dns_label() {
        for id in ["default", "t1", "a-b", &"x".repeat(MAX_ID_BYTES)] {
            assert_eq!(cluster_id(id).as_deref(), Ok(id));
        }
        for id in ["", "*", "-a", "a-", "A", "a/b", "%2A", "..", &"x".repeat(MAX_ID_BYTES + 1)] {
            assert!(cluster_id(id).is_err(), "{id}");
        }
    }
}
