//! OpenID discovery: the issuer and its keys, with which other services verify tokens.

use coracle_apiserver::TokenPolicy;

use crate::site::{ISSUER, KEY_SET_URI, STATIC_TOKEN, Site, config};

#[tokio::test]
async fn issuer_and_key_set_are_served() {
    let site = Site::new().await;
    let answer = site.with_token(STATIC_TOKEN, "/.well-known/openid-configuration").await;
    assert_eq!(answer.code, 200);
    assert_eq!(answer.headers["content-type"], "application/json");
    assert_eq!(answer.headers["cache-control"], "public, max-age=3600");
    let expected = format!(
        r#"{{"issuer":"{ISSUER}","jwks_uri":"{KEY_SET_URI}","response_types_supported":["id_token"],"subject_types_supported":["public"],"id_token_signing_alg_values_supported":["ES256"]}}"#
    );
    assert_eq!(answer.text, expected);

    let answer = site.with_token(STATIC_TOKEN, "/openid/v1/jwks").await;
    assert_eq!(answer.code, 200);
    assert_eq!(answer.headers["content-type"], "application/jwk-set+json");
    assert_eq!(answer.headers["cache-control"], "public, max-age=3600");
    use coracle_apiserver::TokenSigner as _;
    let begin = format!(
        r#"{{"keys":[{{"use":"sig","kty":"EC","kid":"{}","crv":"P-256","alg":"ES256","x":""#,
        site.signer.key_id()
    );
    assert!(answer.text.starts_with(&begin), "{}", answer.text);
    assert!(!answer.text.contains("\"d\""), "no private key is told");
}

#[tokio::test]
async fn issuer_without_discovery_uri_serves_no_key_set() {
    let site = Site::with(config(), TokenPolicy::default()).await;
    for path in ["/.well-known/openid-configuration", "/openid/v1/jwks"] {
        assert_eq!(site.with_token(STATIC_TOKEN, path).await.code, 404, "{path}");
    }
}
