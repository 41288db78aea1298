//! Tokens by which nodes join.

use coracle_apiserver::{AuthenticationConfig, TokenPolicy};
use serde_json::{Value, json};

use crate::site::{Site, secret_data};

const TOKEN: &str = "abcdef.0123456789abcdef";
const SECRETS: &str = "/api/v1/namespaces/kube-system/secrets";

/// A secret of a good token, with one value changed.
async fn plant(site: &Site, key: &str, value: &str) {
    let mut data = secret_data(&[
        ("token-id", "abcdef"),
        ("token-secret", "0123456789abcdef"),
        ("usage-bootstrap-authentication", "true"),
        ("expiration", "2100-01-01T00:00:00Z"),
        ("auth-extra-groups", "system:bootstrappers:worker"),
    ]);
    data[key] = secret_data(&[(key, value)])[key].clone();
    let secret = json!({
        "metadata": {"name": "bootstrap-token-abcdef"}, "type": "bootstrap.kubernetes.io/token", "data": data,
    });
    site.create(SECRETS, secret).await;
}

#[tokio::test]
async fn a_node_joins_with_its_token() {
    let site = Site::new().await;
    plant(&site, "description", "for a test").await;
    assert!(site.is_known(TOKEN).await);
    let status = site.review(TOKEN, json!([])).await;
    let groups = json!(["system:bootstrappers", "system:bootstrappers:worker", "system:authenticated"]);
    assert_eq!(status["user"], json!({"username": "system:bootstrap:abcdef", "groups": groups}));
}

#[tokio::test]
async fn a_bootstrap_token_that_is_not_good_is_refused() {
    for (key, value) in [
        ("expiration", "2027-01-15T07:59:59Z"),
        ("expiration", "never"),
        ("usage-bootstrap-authentication", "false"),
        ("usage-bootstrap-authentication", ""),
        ("token-secret", "fedcba9876543210"),
        ("token-id", "fedcba"),
        ("auth-extra-groups", "system:masters"),
    ] {
        let site = Site::new().await;
        plant(&site, key, value).await;
        assert!(!site.is_known(TOKEN).await, "{key}={value}");
        assert_eq!(site.review(TOKEN, json!([])).await["authenticated"], Value::Null);
    }
}

#[tokio::test]
async fn a_bootstrap_token_ends_with_its_secret_and_in_time() {
    let site = Site::new().await;
    plant(&site, "expiration", "2027-01-15T08:00:10Z").await;
    assert!(site.is_known(TOKEN).await);
    assert!(!site.is_known("abcdef.0123456789abcdee").await);
    site.time.advance(std::time::Duration::from_secs(10));
    assert!(!site.is_known(TOKEN).await);

    let site = Site::new().await;
    plant(&site, "description", "").await;
    assert!(site.is_known(TOKEN).await);
    site.delete(&format!("{SECRETS}/bootstrap-token-abcdef")).await;
    assert!(!site.is_known(TOKEN).await);
}

#[tokio::test]
async fn secrets_elsewhere_or_of_another_type_are_no_tokens() {
    let site = Site::new().await;
    let data = secret_data(&[
        ("token-id", "abcdef"),
        ("token-secret", "0123456789abcdef"),
        ("usage-bootstrap-authentication", "true"),
    ]);
    let name = json!({"name": "bootstrap-token-abcdef"});
    let elsewhere = json!({"metadata": name, "type": "bootstrap.kubernetes.io/token", "data": data});
    site.create("/api/v1/namespaces/default/secrets", elsewhere).await;
    site.create(SECRETS, json!({"metadata": name, "type": "Opaque", "data": data})).await;
    assert!(!site.is_known(TOKEN).await);
}

#[tokio::test]
async fn a_bootstrap_token_is_of_one_cluster() {
    let site = Site::new().await;
    plant(&site, "description", "").await;
    let answer = site.with_token(TOKEN, "/clusters/other/api/v1/namespaces/default/pods").await;
    assert_eq!(answer.code, 401);
}

#[tokio::test]
async fn joining_can_be_turned_off() {
    let config = AuthenticationConfig { bootstrap_tokens: false, ..AuthenticationConfig::default() };
    let site = Site::with(config, TokenPolicy::default()).await;
    plant(&site, "description", "").await;
    assert!(!site.is_known(TOKEN).await);
}
