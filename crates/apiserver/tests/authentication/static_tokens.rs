//! Tokens of the token file.

use serde_json::json;

use crate::site::{PROBE, STATIC_TOKEN, Site};

#[tokio::test]
async fn token_of_the_file_is_authenticated_as_its_user() {
    let site = Site::new().await;
    assert_eq!(site.with_token(STATIC_TOKEN, PROBE).await.code, 200);
    let status = site.review(STATIC_TOKEN, json!([])).await;
    let user =
        json!({"username": "jane", "uid": "7", "groups": ["dev", "system:masters", "system:authenticated"]});
    assert_eq!(status, json!({"authenticated": true, "user": user, "audiences": [crate::site::ISSUER]}));
}

#[tokio::test]
async fn malformed_token_is_rejected() {
    let site = Site::new().await;
    let upper = STATIC_TOKEN.to_uppercase();
    let cut = &STATIC_TOKEN[..STATIC_TOKEN.len() - 1];
    for token in [upper.as_str(), cut, "", "jane"] {
        assert!(!site.is_known(token).await, "{token}");
    }
    assert!(site.is_known("other-token").await);
}

#[tokio::test]
async fn a_token_is_only_for_this_server() {
    let site = Site::new().await;
    let status = site.review(STATIC_TOKEN, json!(["https://elsewhere.example"])).await;
    assert_eq!(status, json!({"user": {}, "error": "invalid bearer token"}));
}

#[tokio::test]
async fn too_long_token_is_rejected() {
    let site = Site::new().await;
    assert!(!site.is_known(&"a".repeat(1 << 20)).await);
}

#[tokio::test]
async fn two_authorization_headers_are_refused() {
    let site = Site::new().await;
    let (good, bad) = (format!("Bearer {STATIC_TOKEN}"), "Bearer nonsense");
    for pair in [[good.as_str(), bad], [bad, &good], [&good, &good], ["Basic eDp5", &good]] {
        let headers = pair.map(|value| ("authorization", value));
        assert_eq!(site.with_headers(&headers, PROBE).await.code, 401, "{pair:?}");
    }
}

#[tokio::test]
async fn a_space_too_many_is_told() {
    let site = Site::new().await;
    let answer = site.with_headers(&[("authorization", &format!("Bearer  {STATIC_TOKEN}"))], PROBE).await;
    assert_eq!(answer.code, 401);
    let warning = answer.headers["warning"].to_str().unwrap();
    assert!(warning.contains("contains extra space before the bearer token"), "{warning}");
}

#[tokio::test]
async fn a_websocket_may_carry_its_token_as_a_protocol() {
    use base64::Engine as _;
    let site = Site::new().await;
    let encode = |token: &str| base64::prelude::BASE64_URL_SAFE_NO_PAD.encode(token);
    let ask = async |token: &str, upgrade: &str| {
        let protocols = format!("base64url.bearer.authorization.k8s.io.{}, v4.channel.k8s.io", encode(token));
        let headers =
            [("connection", "Upgrade"), ("upgrade", upgrade), ("sec-websocket-protocol", protocols.as_str())];
        site.with_headers(&headers, PROBE).await.code
    };
    assert_eq!(ask(STATIC_TOKEN, "websocket").await, 200);
    assert_eq!(ask("nonsense", "websocket").await, 401);
    assert_eq!(ask(STATIC_TOKEN, "h2c").await, 401);
}
