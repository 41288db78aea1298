//! Reviews: TokenReview, SelfSubjectReview and access reviews.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

use http::Method;
use serde_json::{Value, json};
use support::{Client, MERGE};

const AUTHORIZATION: &str = "/apis/authorization.k8s.io/v1";
const AUTHENTICATION: &str = "/apis/authentication.k8s.io/v1";

#[tokio::test]
async fn self_subject_review_returns_the_user() {
    let client = Client::new().await;
    let (code, review) = client.post(&format!("{AUTHENTICATION}/selfsubjectreviews"), json!({})).await;
    assert_eq!(code, 201);
    assert_eq!(review["status"]["userInfo"], json!({"username": "admin", "groups": ["system:masters"]}));
}

#[tokio::test]
async fn administrators_may_do_everything_and_others_nothing() {
    let client = Client::new().await;
    let ask = async |path: &str, spec: Value| {
        let (code, review) = client.post(&format!("{AUTHORIZATION}/{path}"), json!({"spec": spec})).await;
        assert_eq!(code, 201, "{review}");
        review["status"]["allowed"].clone()
    };
    let create = json!({"verb": "create", "resource": "pods", "namespace": "default"});
    assert_eq!(ask("selfsubjectaccessreviews", json!({"resourceAttributes": create})).await, true);
    let stranger = json!({"user": "stranger", "resourceAttributes": create});
    assert_eq!(ask("subjectaccessreviews", stranger.clone()).await, false);
    assert_eq!(ask("namespaces/default/localsubjectaccessreviews", stranger).await, false);
    let path = json!({"groups": ["system:masters"], "nonResourceAttributes": {"verb": "get", "path": "/x"}});
    assert_eq!(ask("subjectaccessreviews", path).await, true);
}

#[tokio::test]
async fn token_review_keeps_the_status_that_it_does_not_change_and_drops_system_fields() {
    let client = Client::new().await;
    let user = json!({"username": "sent", "uid": "i"});
    let review = json!({
        "metadata": {"name": "a", "uid": "u", "deletionTimestamp": "2008-01-01T01:01:01Z", "generation": 7},
        "spec": {"token": "no such token"},
        "status": {"authenticated": true, "user": user, "audiences": ["a"]},
    });
    let (code, review) = client.post(&format!("{AUTHENTICATION}/tokenreviews"), review).await;
    assert_eq!(code, 201, "{review}");
    let status = &review["status"];
    assert_eq!((&status["user"], &status["audiences"]), (&user, &json!(["a"])));
    assert_eq!(status.get("authenticated"), None);
    let metadata = &review["metadata"];
    assert_eq!((metadata.get("uid"), metadata.get("deletionTimestamp")), (None, None));
    assert_eq!(metadata["generation"], 7);
}

#[tokio::test]
async fn incomplete_access_review_is_rejected() {
    let client = Client::new().await;
    let post = async |path: &str, body: Value| client.post(&format!("{AUTHORIZATION}/{path}"), body).await;
    assert_eq!(post("subjectaccessreviews", json!({"spec": {}})).await.0, 422);
    let named = json!({"metadata": {"name": "x"}, "spec": {"resourceAttributes": {"verb": "get"}}});
    assert_eq!(post("selfsubjectaccessreviews", named).await.0, 422);
    let (code, refused) = post("selfsubjectrulesreviews", json!({})).await;
    assert_eq!((code, &refused["message"]), (400, &json!("no namespace on request")));
    let gone =
        client.send(Method::GET, &format!("{AUTHORIZATION}/subjectaccessreviews"), "", Value::Null).await;
    assert_eq!(gone.0, 405);
}

#[tokio::test]
async fn tokens_are_known_again_until_their_account_goes() {
    let client = Client::new().await;
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let (_, account) = client.post(accounts, json!({"metadata": {"name": "a"}})).await;
    let request = json!({"spec": {"audiences": [support::ISSUER, "x"]}});
    let (_, issued) = client.post(&format!("{accounts}/a/token"), request).await;
    let token = &issued["status"]["token"];
    let path = format!("{AUTHENTICATION}/tokenreviews");
    let review = async |spec: Value| client.post(&path, json!({"spec": spec})).await.1["status"].clone();

    let known = review(json!({"token": token})).await;
    assert_eq!((&known["authenticated"], &known["audiences"]), (&json!(true), &json!([support::ISSUER])));
    assert_eq!(known["user"]["username"], "system:serviceaccount:default:a");
    assert_eq!(known["user"]["uid"], account["metadata"]["uid"]);
    let groups = ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"];
    assert_eq!(known["user"]["groups"], json!(groups));
    assert_eq!(review(json!({"token": token, "audiences": ["x", "y"]})).await["audiences"], json!(["x"]));
    let elsewhere = review(json!({"token": token, "audiences": ["y"]})).await;
    assert!(elsewhere["error"].as_str().unwrap().contains("is invalid for the target audiences"));
    assert_eq!(
        review(json!({"token": "nonsense"})).await,
        json!({"user": {}, "error": "invalid bearer token"})
    );

    client.send(Method::DELETE, &format!("{accounts}/a"), "", Value::Null).await;
    let gone = review(json!({"token": token})).await;
    assert_eq!(gone["error"], "[invalid bearer token, serviceaccounts \"a\" not found]");
    assert_eq!(client.post(&path, json!({"spec": {}})).await.0, 400);
}

#[tokio::test]
async fn components_are_as_healthy_as_the_server() {
    let client = Client::new().await;
    let get = async |path: &str| client.send(Method::GET, path, "", Value::Null).await;
    let (code, list) = get("/api/v1/componentstatuses").await;
    assert_eq!((code, list["items"].as_array().unwrap().len()), (200, 3));
    let (_, one) = get("/api/v1/componentstatuses/etcd-0").await;
    assert_eq!(one["conditions"], json!([{"type": "Healthy", "status": "True", "message": "ok"}]));
    assert_eq!(get("/api/v1/componentstatuses/none").await.0, 404);
}

#[tokio::test]
async fn certificate_request_has_the_user_of_its_creator() {
    let client = Client::new().await;
    let path = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let key = rcgen::KeyPair::generate().unwrap();
    let request = rcgen::CertificateParams::default().serialize_request(&key).unwrap().pem().unwrap();
    let spec = json!({
        "request": base64(&request),
        "signerName": "example.com/signer",
        "usages": ["client auth"],
        "username": "somebody else",
    });
    let (code, made) = client.post(path, json!({"metadata": {"name": "r"}, "spec": spec})).await;
    assert_eq!(code, 201, "{made}");
    assert_eq!(
        (&made["spec"]["username"], &made["spec"]["groups"]),
        (&json!("admin"), &json!(["system:masters"]))
    );
    let approved = json!({"status": {"conditions": [{"type": "Approved", "status": "True", "reason": "r"}]}});
    let (code, decided) = client.send(Method::PATCH, &format!("{path}/r/approval"), MERGE, approved).await;
    assert_eq!((code, &decided["status"]["conditions"][0]["type"]), (200, &json!("Approved")));
}

fn base64(text: &str) -> String {
    use base64::Engine as _;
    base64::prelude::BASE64_STANDARD.encode(text)
}
