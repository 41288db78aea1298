//! Searches responses and debug output for planted secrets.

use std::fmt::Write as _;

use serde_json::json;

use crate::site::{PROBE, STATIC_TOKEN, Site, config, secret_data};

#[tokio::test]
async fn secrets_are_in_no_response_and_no_debug_output() {
    let site = Site::new().await;
    let data = secret_data(&[("token-id", "abcdef"), ("token-secret", "planted0bootstra")]);
    let body = json!({
        "metadata": {"name": "bootstrap-token-abcdef"}, "type": "bootstrap.kubernetes.io/token", "data": data,
    });
    site.create("/api/v1/namespaces/kube-system/secrets", body).await;
    let account = site.token("default", json!({})).await;
    let signature = account.rsplit('.').next().unwrap().to_owned();

    let mut told = format!("{:?} {:?}", config(), site.signer);
    for token in [STATIC_TOKEN, "abcdef.planted0bootstra", &account, "planted-and-wrong"] {
        for path in [PROBE, "/healthz", "/nothing", "/metrics", "/api/v1/namespaces/default/pods/none"] {
            let answer = site.with_token(token, path).await;
            write!(told, "{:?} {}", answer.headers, answer.text).unwrap();
        }
    }
    for token in ["planted-and-wrong", "abcdef.planted0bootstra", &format!("{account}x")] {
        write!(told, "{}", site.review(token, json!([])).await).unwrap();
    }
    for secret in [STATIC_TOKEN, "planted0bootstra", "planted-and-wrong", &signature] {
        assert!(!told.contains(secret), "{secret} is told");
    }
}
