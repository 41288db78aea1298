//! Credentials of one cluster in another, at the level of single claims. Every credential on every route is tried in
//! `crates/coracle/tests/credential_scopes`.

use coracle_apiserver::{AuthenticationConfig, TokenPolicy};
use http::Method;
use serde_json::{Value, json};

use crate::site::{ISSUER, KEY_SET_URI, PROBE, STATIC_TOKEN, Site, claims, config, is_let_in, secret_data};

const OTHER: &str = "/clusters/other";

fn there(path: &str) -> String {
    format!("{OTHER}{path}")
}

/// Creates the cluster `other` with the account `default`, and returns a token of it.
async fn token_of_other(site: &Site) -> String {
    site.create(&there("/api/v1/namespaces"), json!({"metadata": {"name": "default"}})).await;
    let accounts = there("/api/v1/namespaces/default/serviceaccounts");
    site.create(&accounts, json!({"metadata": {"name": "default"}})).await;
    let answer = site.create(&format!("{accounts}/default/token"), json!({})).await;
    answer["status"]["token"].as_str().unwrap().to_owned()
}

async fn is_known_there(site: &Site, token: &str) -> bool {
    is_let_in(&site.with_token(token, &there(PROBE)).await)
}

#[tokio::test]
async fn each_cluster_has_its_own_issuer_and_audience() {
    let site = Site::new().await;
    let theirs = claims(&token_of_other(&site).await);
    let issuer = format!("{ISSUER}/clusters/other");
    assert_eq!((&theirs["iss"], &theirs["aud"]), (&json!(issuer), &json!([issuer])));
    assert_eq!(theirs["kubernetes.io"]["coracle.cluster"], "other");
    let ours = claims(&site.token("default", json!({})).await);
    assert_eq!((&ours["iss"], &ours["aud"]), (&json!(ISSUER), &json!([ISSUER])));
    let own = ours["kubernetes.io"].as_object().unwrap().keys();
    assert!(own.clone().all(|claim| !claim.starts_with("coracle")), "{own:?} are as in Kubernetes");

    let path = there("/.well-known/openid-configuration");
    let document = site.admin(Method::GET, &path, Value::Null).await.json();
    let jwks_uri = KEY_SET_URI.replace("/openid", "/clusters/other/openid");
    assert_eq!((&document["issuer"], &document["jwks_uri"]), (&json!(issuer), &json!(jwks_uri)));
    let keys = site.admin(Method::GET, &there("/openid/v1/jwks"), Value::Null).await;
    assert_eq!(keys.json(), site.admin(Method::GET, "/openid/v1/jwks", Value::Null).await.json());
}

/// A change of a token's claims, and its name.
type Change = (&'static str, fn(&mut Value));

#[tokio::test]
async fn token_whose_claims_disagree_about_its_cluster_is_rejected() {
    let site = Site::new().await;
    let token = token_of_other(&site).await;
    let good = claims(&token);
    assert!(is_known_there(&site, &token).await && !site.is_known(&token).await);
    let issuer = good["iss"].clone();
    let changes: [Change; 5] = [
        ("the issuer of the default cluster", |claims| claims["iss"] = json!(ISSUER)),
        ("another uid", |claims| {
            claims["kubernetes.io"]["coracle.cluster-uid"] = json!("of a deleted cluster")
        }),
        ("another id", |claims| claims["kubernetes.io"]["coracle.cluster"] = json!("third")),
        ("no id", |claims| drop(claims["kubernetes.io"].as_object_mut().unwrap().remove("coracle.cluster"))),
        ("the default cluster's id", |claims| {
            claims["kubernetes.io"]["coracle.cluster"] = json!("default");
            claims["iss"] = json!(ISSUER);
        }),
    ];
    for (what, change) in changes {
        let mut claims = good.clone();
        change(&mut claims);
        // For all clusters, so that audiences do not stand in the way.
        claims["aud"] = json!([ISSUER, issuer]);
        let token = site.signed(&site.header(), &claims);
        assert!(!is_known_there(&site, &token).await, "{what}");
        assert!(!site.is_known(&token).await, "{what}");
    }
}

#[tokio::test]
async fn configured_audiences_do_not_make_tokens_cross_clusters() {
    let audiences = vec!["api".to_owned()];
    let config = AuthenticationConfig { api_audiences: audiences, ..config() };
    let site = Site::with(config, TokenPolicy::default()).await;
    let (theirs, ours) = (token_of_other(&site).await, site.token("default", json!({})).await);
    assert_eq!(claims(&theirs)["aud"], claims(&ours)["aud"]);
    assert!(is_known_there(&site, &theirs).await && !is_known_there(&site, &ours).await);
    assert!(site.is_known(&ours).await && !site.is_known(&theirs).await);
    // Also in this order, when the signatures are cached.
    assert!(!is_known_there(&site, &ours).await && !site.is_known(&theirs).await);
}

#[tokio::test]
async fn token_review_knows_tokens_of_its_own_cluster_only() {
    let site = Site::new().await;
    let (theirs, ours) = (token_of_other(&site).await, site.token("default", json!({})).await);
    let reviews = there("/apis/authentication.k8s.io/v1/tokenreviews");
    let review =
        async |token: &str| site.create(&reviews, json!({"spec": {"token": token}})).await["status"].clone();
    let status = review(&theirs).await;
    assert_eq!(status["authenticated"], true, "{status}");
    assert_eq!(status["audiences"], json!([format!("{ISSUER}/clusters/other")]));
    for token in [ours.as_str(), STATIC_TOKEN] {
        let status = review(token).await;
        assert!(status["authenticated"].is_null() && status["user"] == json!({}), "{status}");
    }
    assert!(site.review(&theirs, json!([])).await["authenticated"].is_null());
}

#[tokio::test]
async fn legacy_token_is_valid_in_the_cluster_of_its_secret_only() {
    let site = Site::new().await;
    let bound = claims(&token_of_other(&site).await)["kubernetes.io"].clone();
    let uid = &bound["serviceaccount"]["uid"];
    let good = json!({
        "coracle.cluster": bound["coracle.cluster"],
        "coracle.cluster-uid": bound["coracle.cluster-uid"],
        "iss": "kubernetes/serviceaccount/clusters/other",
        "kubernetes.io/serviceaccount/namespace": "default",
        "kubernetes.io/serviceaccount/secret.name": "old",
        "kubernetes.io/serviceaccount/service-account.name": "default",
        "kubernetes.io/serviceaccount/service-account.uid": uid,
        "sub": "system:serviceaccount:default:default",
    });
    let mut of_default = good.clone();
    of_default["iss"] = json!("kubernetes/serviceaccount");
    for claim in ["coracle.cluster", "coracle.cluster-uid"] {
        of_default.as_object_mut().unwrap().remove(claim);
    }
    let mut of_deleted = good.clone();
    of_deleted["coracle.cluster-uid"] = json!("of a deleted cluster");
    for (claims, expected) in [(&good, true), (&of_default, false), (&of_deleted, false)] {
        let token = site.signed(&site.header(), claims);
        let annotations = json!({"kubernetes.io/service-account.name": "default", "kubernetes.io/service-account.uid": uid});
        let secret = json!({
            "metadata": {"name": "old", "annotations": annotations},
            "type": "kubernetes.io/service-account-token", "data": secret_data(&[("token", &token)]),
        });
        let secrets = there("/api/v1/namespaces/default/secrets");
        site.create(&secrets, secret).await;
        assert_eq!(is_known_there(&site, &token).await, expected, "{claims}");
        assert!(!site.is_known(&token).await, "{claims}");
        site.delete(&format!("{secrets}/old")).await;
    }
}

#[tokio::test]
async fn static_token_is_valid_in_the_default_cluster_only() {
    let site = Site::new().await;
    token_of_other(&site).await;
    assert_eq!(site.with_token(STATIC_TOKEN, PROBE).await.code, 200);
    assert!(!is_known_there(&site, STATIC_TOKEN).await);
    assert_eq!(site.with_token(STATIC_TOKEN, "/clusters/*/api/v1/pods").await.code, 403);
}
