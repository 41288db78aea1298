//! Tokens of service accounts: their identity, and the objects whose deletion invalidates them.

use std::time::Duration;

use serde_json::{Value, json};

use crate::site::{ISSUER, NOW_S, PROBE, Site, claims, is_let_in, secret_data};

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";

fn bound_to(kind: &str, name: &str) -> Value {
    json!({"boundObjectRef": {"kind": kind, "apiVersion": "v1", "name": name}})
}

#[tokio::test]
async fn a_token_is_its_account_and_tells_its_pod() {
    let site = Site::new().await;
    let account = site.account("robot").await;
    let pod = site.pod("p", "robot").await;
    let token = site.token("robot", bound_to("Pod", "p")).await;
    assert!(site.is_known(&token).await);
    let status = site.review(&token, json!([])).await;
    assert_eq!(status["audiences"], json!([ISSUER]));
    let user = &status["user"];
    assert_eq!(user["username"], "system:serviceaccount:default:robot");
    assert_eq!(user["uid"], account["metadata"]["uid"]);
    let groups = ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"];
    assert_eq!(user["groups"], json!(groups));
    let extra = json!({
        "authentication.kubernetes.io/pod-name": ["p"],
        "authentication.kubernetes.io/pod-uid": [pod["metadata"]["uid"]],
        "authentication.kubernetes.io/credential-id": [format!("JTI={}", claims(&token)["jti"].as_str().unwrap())],
    });
    assert_eq!(user["extra"], extra);
}

#[tokio::test]
async fn the_token_of_a_deleted_pod_is_refused() {
    let site = Site::new().await;
    site.pod("p", "default").await;
    let token = site.token("default", bound_to("Pod", "p")).await;
    assert!(site.is_known(&token).await);
    site.delete(&format!("{PROBE}/p")).await;
    assert!(!site.is_known(&token).await);
    let error = "[invalid bearer token, service account token has been invalidated]";
    assert_eq!(site.review(&token, json!([])).await, json!({"user": {}, "error": error}));
    // Another pod of the same name is another pod.
    site.pod("p", "default").await;
    assert!(!site.is_known(&token).await);
    let error = site.review(&token, json!([])).await["error"].to_string();
    assert!(error.contains("does not match service account pod ref claim"), "{error}");
}

#[tokio::test]
async fn the_token_of_a_deleted_account_is_refused() {
    let site = Site::new().await;
    site.account("robot").await;
    let token = site.token("robot", json!({})).await;
    assert!(site.is_known(&token).await);
    site.delete(&format!("{ACCOUNTS}/robot")).await;
    assert!(!site.is_known(&token).await);
    let error = r#"[invalid bearer token, serviceaccounts "robot" not found]"#;
    assert_eq!(site.review(&token, json!([])).await["error"], error);
}

#[tokio::test]
async fn the_token_of_a_recreated_account_is_refused() {
    let site = Site::new().await;
    site.account("robot").await;
    let token = site.token("robot", json!({})).await;
    site.delete(&format!("{ACCOUNTS}/robot")).await;
    site.account("robot").await;
    assert!(!site.is_known(&token).await);
    let error = site.review(&token, json!([])).await["error"].to_string();
    assert!(error.contains("does not match claim"), "{error}");
}

#[tokio::test]
async fn the_token_of_a_deleted_node_or_secret_is_refused() {
    let site = Site::new().await;
    site.create("/api/v1/nodes", json!({"metadata": {"name": "n"}})).await;
    site.create(SECRETS, json!({"metadata": {"name": "s"}})).await;
    for (kind, path) in [("Node", "/api/v1/nodes/n".to_owned()), ("Secret", format!("{SECRETS}/s"))] {
        let token = site.token("default", bound_to(kind, &path[path.len() - 1..])).await;
        assert!(site.is_known(&token).await, "{kind}");
        site.delete(&path).await;
        assert!(!site.is_known(&token).await, "{kind}");
    }
}

#[tokio::test]
async fn the_token_of_a_pod_that_is_held_ends_a_minute_after_its_time() {
    let site = Site::new().await;
    let spec = json!({"containers": [{"name": "c", "image": "i"}]});
    let metadata = json!({"name": "p", "finalizers": ["example.com/held"]});
    site.create(PROBE, json!({"metadata": metadata, "spec": spec})).await;
    let token = site.token("default", bound_to("Pod", "p")).await;
    site.delete(&format!("{PROBE}/p")).await;
    assert!(site.is_known(&token).await);
    site.time.advance(Duration::from_secs(60));
    assert!(site.is_known(&token).await);
    site.time.advance(Duration::from_secs(1));
    assert!(!site.is_known(&token).await);
}

#[tokio::test]
async fn an_expired_token_is_refused() {
    let site = Site::new().await;
    let token = site.token("default", json!({"expirationSeconds": 600})).await;
    assert_eq!(claims(&token)["exp"], NOW_S + 600);
    assert!(site.is_known(&token).await);
    site.time.advance(Duration::from_secs(660));
    assert!(site.is_known(&token).await);
    // Known from before or not: that the signature is good does not make it valid.
    site.time.advance(Duration::from_secs(1));
    assert!(!site.is_known(&token).await);
    let error = "[invalid bearer token, service account token has expired]";
    assert_eq!(site.review(&token, json!([])).await["error"], error);
}

#[tokio::test]
async fn a_token_for_others_is_refused_here() {
    let site = Site::new().await;
    let token = site.token("default", json!({"audiences": ["vault", "x"]})).await;
    assert!(!site.is_known(&token).await);
    let error = format!(
        r#"[invalid bearer token, token audiences ["vault" "x"] is invalid for the target audiences ["{ISSUER}"]]"#
    );
    assert_eq!(site.review(&token, json!([])).await["error"], json!(error));
    // A TokenReview with audiences of the token returns the audiences that match.
    let status = site.review(&token, json!(["y", "x", "vault"])).await;
    assert_eq!((&status["authenticated"], &status["audiences"]), (&json!(true), &json!(["x", "vault"])));
}

#[tokio::test]
async fn the_token_of_another_cluster_is_refused() {
    let site = Site::new().await;
    let other = "/clusters/other/api/v1";
    site.create(&format!("{other}/namespaces"), json!({"metadata": {"name": "default"}})).await;
    let accounts = format!("{other}/namespaces/default/serviceaccounts");
    site.create(&accounts, json!({"metadata": {"name": "default"}})).await;
    let theirs = site.create(&format!("{accounts}/default/token"), json!({})).await;
    let theirs = theirs["status"]["token"].as_str().unwrap();
    let ours = site.token("default", json!({})).await;

    let there = format!("{other}/namespaces/default/pods");
    assert!(is_let_in(&site.with_token(theirs, &there).await));
    assert!(!is_let_in(&site.with_token(&ours, &there).await));
    assert!(!site.is_known(theirs).await);
    assert!(site.is_known(&ours).await);
    let third = "/clusters/third/api/v1/namespaces/default/pods";
    assert!(!is_let_in(&site.with_token(theirs, third).await));

    // Not even if the account had the same uid.
    let mut claims = claims(theirs);
    claims["kubernetes.io"]["serviceaccount"] =
        crate::site::claims(&ours)["kubernetes.io"]["serviceaccount"].clone();
    let forged = site.signed(&site.header(), &claims);
    assert!(!site.is_known(&forged).await);
    let error = site.review(&forged, json!([])).await["error"].to_string();
    assert!(error.contains("invalid bearer token"), "{error}");
}

/// A token of old, in its secret.
async fn legacy(site: &Site, account: &Value, secret: &str) -> String {
    let uid = account["metadata"]["uid"].as_str().unwrap();
    let claims = json!({
        "iss": "kubernetes/serviceaccount",
        "kubernetes.io/serviceaccount/namespace": "default",
        "kubernetes.io/serviceaccount/secret.name": secret,
        "kubernetes.io/serviceaccount/service-account.name": "robot",
        "kubernetes.io/serviceaccount/service-account.uid": uid,
        "sub": "system:serviceaccount:default:robot",
    });
    let token = site.signed(&site.header(), &claims);
    let annotations = json!({
        "kubernetes.io/service-account.name": "robot", "kubernetes.io/service-account.uid": uid
    });
    let body = json!({
        "metadata": {"name": secret, "annotations": annotations},
        "type": "kubernetes.io/service-account-token", "data": secret_data(&[("token", &token)]),
    });
    site.create(SECRETS, body).await;
    token
}

#[tokio::test]
async fn a_token_of_old_is_good_while_its_secret_has_it() {
    let site = Site::new().await;
    let account = site.account("robot").await;
    let token = legacy(&site, &account, "old").await;
    assert!(site.is_known(&token).await);
    let user = &site.review(&token, json!([])).await["user"];
    assert_eq!(
        (&user["username"], &user["extra"]),
        (&json!("system:serviceaccount:default:robot"), &Value::Null)
    );
    assert!(site.review(&token, json!(["vault"])).await["error"].to_string().contains("audiences"));

    let marked = json!({"metadata": {"labels": {"kubernetes.io/legacy-token-invalid-since": "2026-01-01"}}});
    patch(&site, "old", marked).await;
    assert!(!site.is_known(&token).await);
    patch(&site, "old", json!({"metadata": {"labels": null}})).await;
    assert!(site.is_known(&token).await);
    patch(&site, "old", json!({"data": secret_data(&[("token", "another")])})).await;
    assert!(!site.is_known(&token).await);
    site.delete(&format!("{SECRETS}/old")).await;
    assert!(!site.is_known(&token).await);
    let error = site.review(&token, json!([])).await["error"].to_string();
    assert!(error.contains("Token has been invalidated"), "{error}");
}

/// A metric without labels.
async fn counted(site: &Site, name: &str) -> Option<u64> {
    let page = site.admin(http::Method::GET, "/metrics", Value::Null).await.text;
    page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

#[tokio::test]
async fn uses_of_tokens_of_secrets_are_counted() {
    let site = Site::new().await;
    let account = site.account("robot").await;
    let token = legacy(&site, &account, "old").await;
    assert!(site.is_known(&token).await);
    assert_eq!(counted(&site, "serviceaccount_legacy_manual_token_uses_total").await, Some(1));
    assert_eq!(counted(&site, "serviceaccount_legacy_auto_token_uses_total").await, Some(0));
    let refers = json!({"secrets": [{"name": "old"}]}).to_string();
    let request = http::Request::patch(format!("{ACCOUNTS}/robot"))
        .header("content-type", "application/merge-patch+json")
        .header("authorization", format!("Bearer {}", crate::site::STATIC_TOKEN));
    assert_eq!(site.send(request.body(http_body_util::Full::from(refers)).unwrap()).await.code, 200);
    assert!(site.is_known(&token).await);
    let marked = json!({"metadata": {"labels": {"kubernetes.io/legacy-token-invalid-since": "2026-01-01"}}});
    patch(&site, "old", marked).await;
    assert!(!site.is_known(&token).await);
    for (name, expected) in [
        ("serviceaccount_legacy_manual_token_uses_total", 1),
        ("serviceaccount_legacy_auto_token_uses_total", 1),
        ("serviceaccount_invalid_legacy_auto_token_uses_total", 1),
        ("serviceaccount_legacy_tokens_total", 2),
    ] {
        assert_eq!(counted(&site, name).await, Some(expected), "{name}");
    }
}

#[tokio::test]
async fn a_token_of_old_ends_with_its_account() {
    let site = Site::new().await;
    let account = site.account("robot").await;
    let token = legacy(&site, &account, "old").await;
    site.delete(&format!("{ACCOUNTS}/robot")).await;
    assert!(!site.is_known(&token).await);
    site.account("robot").await;
    assert!(!site.is_known(&token).await);
}

async fn patch(site: &Site, secret: &str, body: Value) {
    let request = http::Request::patch(format!("{SECRETS}/{secret}"));
    let request = request
        .header("content-type", "application/merge-patch+json")
        .header("authorization", format!("Bearer {}", crate::site::STATIC_TOKEN));
    let answer = site.send(request.body(http_body_util::Full::from(body.to_string())).unwrap()).await;
    assert_eq!(answer.code, 200, "{}", answer.text);
}
