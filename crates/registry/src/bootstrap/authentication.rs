//! What others need to know to recognise clients of this server.

use coracle_meta::time::Time;
use serde_json::json;

use super::objects::{SYSTEM, Seed};
use crate::kinds::core::config_map::ConfigMap;

/// Whom extension servers trust.
const CLIENT_AUTHORITIES: &str = "extension-apiserver-authentication";

/// Since when unused tokens of service accounts have been noticed.
const TOKEN_TRACKING: &str = "kube-apiserver-legacy-service-account-token-tracking";

pub(super) fn seeds(now: Time, client_ca: Option<&str>) -> Vec<Seed> {
    let config_map = |name: &str, key: &str, value: &str| {
        Seed::new(&ConfigMap, SYSTEM, json!({"metadata": {"name": name}, "data": {key: value}}))
    };
    let date = now.to_string().chars().take("2006-01-02".len()).collect::<String>();
    let tracking = config_map(TOKEN_TRACKING, "since", &date);
    let authorities = client_ca.map(|pem| config_map(CLIENT_AUTHORITIES, "client-ca-file", pem));
    std::iter::once(tracking).chain(authorities).collect()
}
