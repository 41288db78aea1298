//! Forged tokens.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use coracle_apiserver::TokenSigner as _;
use ring::hmac;
use serde_json::{Value, json};

use crate::site::{ISSUER, NOW_S, Site, claims, encoded, signer};

/// The claims of a valid token of the service account `default`.
async fn good_claims(site: &Site) -> Value {
    claims(&site.token("default", json!({})).await)
}

async fn error(site: &Site, token: &str) -> String {
    assert!(!site.is_known(token).await);
    site.review(token, json!([])).await["error"].as_str().unwrap().to_owned()
}

const CRYPTOGRAPHIC: &str = "[invalid bearer token, go-jose/go-jose: error in cryptographic primitive]";

#[tokio::test]
async fn token_signed_by_the_key_is_valid() {
    let site = Site::new().await;
    let claims = good_claims(&site).await;
    assert!(site.is_known(&site.signed(&site.header(), &claims)).await);
    // The key ID in the header is optional.
    assert!(site.is_known(&site.signed(&json!({"alg": "ES256"}), &claims)).await);
}

#[tokio::test]
async fn a_forged_signature_is_refused() {
    let site = Site::new().await;
    let (good, other) = (site.token("default", json!({})).await, signer());
    let (message, _) = good.rsplit_once('.').unwrap();
    let theirs = BASE64_URL_SAFE_NO_PAD.encode(other.sign(message.as_bytes()).unwrap());
    assert_eq!(error(&site, &format!("{message}.{theirs}")).await, CRYPTOGRAPHIC);
    let zeros = BASE64_URL_SAFE_NO_PAD.encode([0; 64]);
    for signature in ["", "AAAA", zeros.as_str()] {
        assert_eq!(error(&site, &format!("{message}.{signature}")).await, CRYPTOGRAPHIC, "{signature}");
    }
}

#[tokio::test]
async fn changed_claims_are_refused() {
    let site = Site::new().await;
    let good = site.token("default", json!({})).await;
    assert!(site.is_known(&good).await);
    let parts: Vec<&str> = good.split('.').collect();
    let mut changed = claims(&good);
    changed["kubernetes.io"]["namespace"] = "kube-system".into();
    assert_eq!(
        error(&site, &format!("{}.{}.{}", parts[0], encoded(&changed), parts[2])).await,
        CRYPTOGRAPHIC
    );
}

#[tokio::test]
async fn another_key_is_refused_whatever_it_is_called() {
    let site = Site::new().await;
    let (claims, other) = (good_claims(&site).await, signer());
    let sign = |header: Value| {
        let message = format!("{}.{}", encoded(&header), encoded(&claims));
        let signature = BASE64_URL_SAFE_NO_PAD.encode(other.sign(message.as_bytes()).unwrap());
        format!("{message}.{signature}")
    };
    let unknown = "[invalid bearer token, invalid signature, no keys found]";
    assert_eq!(error(&site, &sign(json!({"alg": "ES256", "kid": other.key_id()}))).await, unknown);
    assert_eq!(error(&site, &sign(site.header())).await, CRYPTOGRAPHIC);
    assert_eq!(error(&site, &sign(json!({"alg": "ES256"}))).await, CRYPTOGRAPHIC);
    // Keys in the token's header, or at the URL in the header, are not used.
    let mut header = site.header();
    header["jwk"] = json!({"kty": "EC", "crv": "P-256"});
    header["jku"] = "https://attacker.example/keys".into();
    assert_eq!(error(&site, &sign(header)).await, CRYPTOGRAPHIC);
}

#[tokio::test]
async fn alg_none_is_refused() {
    let site = Site::new().await;
    let claims = good_claims(&site).await;
    for algorithm in ["none", "None", "NONE", "nOnE", ""] {
        for kid in [site.signer.key_id(), ""] {
            let header = json!({"alg": algorithm, "kid": kid});
            let message = format!("{}.{}", encoded(&header), encoded(&claims));
            assert_eq!(error(&site, &format!("{message}.")).await, CRYPTOGRAPHIC, "{algorithm}");
        }
        // A valid signature does not help: the algorithm in the token's header does not choose the verification.
        let header = json!({"alg": algorithm, "kid": site.signer.key_id()});
        assert_eq!(error(&site, &site.signed(&header, &claims)).await, CRYPTOGRAPHIC, "{algorithm}");
    }
}

#[tokio::test]
async fn hs256_with_the_public_key_as_secret_is_refused() {
    let site = Site::new().await;
    let claims = good_claims(&site).await;
    let key_set = site.with_token(crate::site::STATIC_TOKEN, "/openid/v1/jwks").await.json();
    let decode =
        |field: &str| BASE64_URL_SAFE_NO_PAD.decode(key_set["keys"][0][field].as_str().unwrap()).unwrap();
    let point = [vec![4], decode("x"), decode("y")].concat();
    let pem = format!(
        "-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n",
        BASE64_URL_SAFE_NO_PAD.encode(&point)
    );
    for secret in [point.as_slice(), pem.as_bytes(), key_set.to_string().as_bytes()] {
        let header = json!({"alg": "HS256", "kid": site.signer.key_id()});
        let message = format!("{}.{}", encoded(&header), encoded(&claims));
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), message.as_bytes());
        let token = format!("{message}.{}", BASE64_URL_SAFE_NO_PAD.encode(tag));
        assert_eq!(error(&site, &token).await, CRYPTOGRAPHIC);
    }
}

#[tokio::test]
async fn a_token_that_is_not_valid_yet_is_refused() {
    let site = Site::new().await;
    let mut claims = good_claims(&site).await;
    claims["nbf"] = (NOW_S + 61).into();
    let token = site.signed(&site.header(), &claims);
    assert_eq!(error(&site, &token).await, "[invalid bearer token, service account token is not valid yet]");
    claims["nbf"] = NOW_S.into();
    claims["iat"] = (NOW_S + 61).into();
    let token = site.signed(&site.header(), &claims);
    let future = "[invalid bearer token, service account token is issued in the future]";
    assert_eq!(error(&site, &token).await, future);
    claims["iat"] = NOW_S.into();
    // One without an end has ended.
    claims.as_object_mut().unwrap().remove("exp");
    let token = site.signed(&site.header(), &claims);
    assert_eq!(error(&site, &token).await, "[invalid bearer token, service account token has expired]");
}

#[tokio::test]
async fn a_token_of_another_issuer_is_refused() {
    let site = Site::new().await;
    let mut claims = good_claims(&site).await;
    for issuer in ["https://attacker.example", "", "https://issuer.example/", "HTTPS://ISSUER.EXAMPLE"] {
        claims["iss"] = issuer.into();
        let token = site.signed(&site.header(), &claims);
        assert_eq!(error(&site, &token).await, "invalid bearer token", "{issuer}");
    }
    // The issuer of legacy tokens alone does not make it a valid legacy token.
    claims["iss"] = "kubernetes/serviceaccount".into();
    let token = site.signed(&site.header(), &claims);
    assert_eq!(error(&site, &token).await, "[invalid bearer token, namespace claim is missing]");
}

#[tokio::test]
async fn a_token_for_nobody_in_particular_is_for_this_server_only() {
    let site = Site::new().await;
    let mut claims = good_claims(&site).await;
    claims["aud"] = json!([]);
    let token = site.signed(&site.header(), &claims);
    assert!(site.is_known(&token).await);
    let status = site.review(&token, json!(["vault"])).await;
    assert!(status["error"].to_string().contains("token audiences"), "{status}");
    claims["aud"] = json!([format!("{ISSUER}.attacker.example")]);
    assert!(!site.is_known(&site.signed(&site.header(), &claims)).await);
}

#[tokio::test]
async fn malformed_token_is_rejected() {
    let site = Site::new().await;
    let good = site.token("default", json!({})).await;
    let (header, rest) = good.split_once('.').unwrap();
    for token in [".", "..", "...", "a.b.c", "e30.e30.e30", "null.null.null", "bnVsbA.bnVsbA.bnVsbA"] {
        assert_eq!(error(&site, token).await, "invalid bearer token", "{token}");
    }
    for token in
        [format!("{good}."), format!(".{good}"), format!("{header}.{header}.{rest}"), format!("{good}=")]
    {
        assert!(!site.is_known(&token).await, "{token}");
    }
    assert!(!site.is_known(&format!("{{\"payload\":\"{rest}\"}}")).await);
}
