//! Issuers of tokens: each cluster has its own, so that a token is never valid in another cluster, whatever audiences
//! are configured.

use std::borrow::Cow;

use coracle_registry::DEFAULT_CLUSTER;

/// The issuer of a cluster's tokens on a server whose configured issuer is `base`: `base` itself for the default
/// cluster, `<base>/clusters/<id>` for others. If `base` is not a URL, the result is not one either, but still unique.
pub(crate) fn of_cluster<'a>(base: &'a str, cluster: &str) -> Cow<'a, str> {
    if cluster == DEFAULT_CLUSTER {
        return base.into();
    }
    format!("{}/clusters/{cluster}", base.trim_end_matches('/')).into()
}

/// The URL of the key set of a cluster, if that of the default cluster is `base`. A URL that does not end with the path
/// of this server was configured for another location, which is the same for all clusters.
pub(crate) fn key_set_uri<'a>(base: &'a str, cluster: &str) -> Cow<'a, str> {
    match base.strip_suffix(KEY_SET_PATH) {
        Some(server) if cluster != DEFAULT_CLUSTER => {
            format!("{server}/clusters/{cluster}{KEY_SET_PATH}").into()
        }
        _ => base.into(),
    }
}

/// The path of the key set within a cluster.
const KEY_SET_PATH: &str = "/openid/v1/jwks";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cluster_has_its_own_issuer() {
        for (base, cluster, expected) in [
            ("https://a.example", "default", "https://a.example"),
            ("https://a.example", "t1", "https://a.example/clusters/t1"),
            ("https://a.example/", "t1", "https://a.example/clusters/t1"),
            ("https://a.example/x", "t1", "https://a.example/x/clusters/t1"),
            ("kubernetes", "t1", "kubernetes/clusters/t1"),
        ] {
            assert_eq!(of_cluster(base, cluster), expected);
        }
    }

    #[test]
    fn key_set_of_a_cluster_is_below_its_path() {
        for (base, cluster, expected) in [
            ("https://a:1/openid/v1/jwks", "default", "https://a:1/openid/v1/jwks"),
            ("https://a:1/openid/v1/jwks", "t1", "https://a:1/clusters/t1/openid/v1/jwks"),
            ("https://keys.example/all", "t1", "https://keys.example/all"),
        ] {
            assert_eq!(key_set_uri(base, cluster), expected);
        }
    }
}
