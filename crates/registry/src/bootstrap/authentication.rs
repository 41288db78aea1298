//! ConfigMaps for authentication: client CAs for extension API servers, and token tracking.

use coracle_meta::time::Time;
use serde_json::{Value, json};

use super::ServerInfo;
use super::objects::{SYSTEM, Seed};
use crate::kinds::core::config_map::ConfigMap;

/// ConfigMap with the client CAs that extension API servers trust.
const CLIENT_AUTHORITIES: &str = "extension-apiserver-authentication";

/// ConfigMap with the time since which the use of legacy service account tokens has been tracked.
const TOKEN_TRACKING: &str = "kube-apiserver-legacy-service-account-token-tracking";

pub(super) fn seeds(now: Time, server_info: &ServerInfo) -> Vec<Seed> {
    let config_map = |name: &str, data: Value| {
        Seed::new(&ConfigMap, SYSTEM, json!({"metadata": {"name": name}, "data": data}))
    };
    let date = now.to_string().chars().take("2006-01-02".len()).collect::<String>();
    let tracking = config_map(TOKEN_TRACKING, json!({"since": date}));
    let mut data = server_info.front_proxy.clone();
    data.extend(server_info.client_ca.clone().map(|pem| ("client-ca-file".to_owned(), pem)));
    let authorities = (!data.is_empty()).then(|| config_map(CLIENT_AUTHORITIES, json!(data)));
    std::iter::once(tracking).chain(authorities).collect()
}
