//! Asking for tokens.

use std::time::Duration;

use coracle_apiserver::{AuthenticationConfig, TokenPolicy};
use http::Method;
use serde_json::{Value, json};

use crate::site::{ISSUER, NOW_S, Site, claims, config};

const TOKEN: &str = "/api/v1/namespaces/default/serviceaccounts/default/token";

async fn refused(site: &Site, body: Value) -> (u16, String) {
    let answer = site.admin(Method::POST, TOKEN, body).await;
    (answer.code, answer.json()["message"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn a_token_lives_as_long_as_is_asked_for_within_limits() {
    let site = Site::new().await;
    for (seconds, what) in
        [(599, "less than 10 minutes"), ((1_i64 << 32) + 1, "larger than 2^32 seconds"), (-1, "less")]
    {
        let (code, message) = refused(&site, json!({"spec": {"expirationSeconds": seconds}})).await;
        assert_eq!(code, 422);
        assert!(message.contains(what), "{message}");
    }
    for seconds in [600, 1 << 32] {
        let token = site.token("default", json!({"expirationSeconds": seconds})).await;
        assert_eq!(claims(&token)["exp"], NOW_S + seconds);
    }
    assert_eq!(claims(&site.token("default", json!({})).await)["exp"], NOW_S + 3600);
}

#[tokio::test]
async fn the_administrator_may_shorten_tokens() {
    let max_expiration = Some(Duration::from_secs(7200));
    let site = Site::with(config(), TokenPolicy { max_expiration, ..TokenPolicy::default() }).await;
    let answer = site.admin(Method::POST, TOKEN, json!({"spec": {"expirationSeconds": 9000}})).await;
    assert_eq!(answer.code, 201);
    let warning = answer.headers["warning"].to_str().unwrap();
    assert_eq!(warning, "299 - \"requested expiration of 9000 seconds shortened to 7200 seconds\"");
    let answer = answer.json();
    assert_eq!(answer["spec"]["expirationSeconds"], 7200);
    assert_eq!(claims(answer["status"]["token"].as_str().unwrap())["exp"], NOW_S + 7200);
}

#[tokio::test]
async fn tokens_are_for_the_audiences_of_the_server_unless_asked_otherwise() {
    let site = Site::new().await;
    assert_eq!(claims(&site.token("default", json!({})).await)["aud"], json!([ISSUER]));
    let named = AuthenticationConfig { api_audiences: vec!["api".into(), "b".into()], ..config() };
    let site = Site::with(named, TokenPolicy::default()).await;
    let token = site.token("default", json!({})).await;
    assert_eq!(claims(&token)["aud"], json!(["api", "b"]));
    assert!(site.is_known(&token).await);
    // The issuer is no audience then.
    let token = site.token("default", json!({"audiences": [ISSUER]})).await;
    assert!(!site.is_known(&token).await);
    assert!(site.is_known(&site.token("default", json!({"audiences": ["b", "c"]})).await).await);
}

#[tokio::test]
async fn tokens_of_an_earlier_issuer_are_good() {
    let further = AuthenticationConfig { further_issuers: vec!["https://before.example".into()], ..config() };
    let site = Site::with(further, TokenPolicy::default()).await;
    let mut said = claims(&site.token("default", json!({})).await);
    assert_eq!(said["iss"], ISSUER);
    said["iss"] = "https://before.example".into();
    assert!(site.is_known(&site.signed(&site.header(), &said)).await);
}

#[tokio::test]
async fn token_request_with_an_invalid_bound_object_is_rejected() {
    let site = Site::new().await;
    site.account("robot").await;
    let pod = site.pod("p", "robot").await;
    let bound = |kind: &str, version: &str, uid: &str| json!({"spec": {"boundObjectRef": {"kind": kind, "apiVersion": version, "name": "p", "uid": uid}}});
    let (code, message) = refused(&site, bound("Pod", "v1", "")).await;
    assert_eq!(code, 400);
    assert!(message.contains("different serviceaccount name"), "{message}");
    let (code, message) = refused(&site, bound("Deployment", "apps/v1", "")).await;
    assert_eq!((code, &*message), (400, "cannot bind token to object of type apps/v1, Kind=Deployment"));
    assert_eq!(refused(&site, bound("Secret", "v1", "")).await.0, 404);
    let path = TOKEN.replace("/default/token", "/robot/token");
    let answer = site.admin(Method::POST, &path, bound("Pod", "v1", "another")).await;
    assert_eq!(answer.code, 409, "{}", answer.text);
    let uid = pod["metadata"]["uid"].as_str().unwrap();
    assert_eq!(site.admin(Method::POST, &path, bound("Pod", "v1", uid)).await.code, 201);
    let (code, _) = refused(&site, json!({"metadata": {"name": "robot"}})).await;
    assert_eq!(code, 422);
    let (code, _) = refused(&site, json!({"metadata": {"uid": "another"}})).await;
    assert_eq!(code, 409);
}
