//! Requests without a credential, and requests with a bad credential to paths that need none.

use coracle_apiserver::{Anonymous, AuthenticationConfig, TokenPolicy};

use crate::site::{PROBE, STATIC_TOKEN, Site, is_let_in};

const HEALTH: [&str; 5] = ["/healthz", "/livez", "/readyz", "/livez/ping", "/readyz?verbose"];

#[tokio::test]
async fn anonymous_request_may_read_health_only() {
    let site = Site::new().await;
    for path in HEALTH {
        assert_eq!(site.with_headers(&[], path).await.code, 200, "{path}");
    }
    for path in [PROBE, "/", "/api", "/apis", "/version", "/metrics", "/openapi/v2", "/openid/v1/jwks"]
        .into_iter()
        .chain(["/healthzz", "//healthz", "/clusters/a/healthz", "/%68ealthz", "/HEALTHZ", "/nothing"])
    {
        assert!(!is_let_in(&site.with_headers(&[], path).await), "{path}");
    }
}

#[tokio::test]
async fn a_bad_token_is_refused_for_health_too() {
    let site = Site::new().await;
    for path in HEALTH {
        assert!(!is_let_in(&site.with_token("nonsense", path).await), "{path}");
        assert_eq!(site.with_token(STATIC_TOKEN, path).await.code, 200, "{path}");
    }
}

#[tokio::test]
async fn anonymous_request_is_authenticated_if_configured() {
    let config = AuthenticationConfig { anonymous: Anonymous::Everywhere, ..AuthenticationConfig::default() };
    let site = Site::with(config, TokenPolicy::default()).await;
    let answer = site.with_headers(&[], PROBE).await;
    assert_eq!(answer.code, 403);
    assert!(answer.text.contains("system:anonymous"), "{}", answer.text);
    assert!(!site.is_known("nonsense").await);
    let missed = site.with_headers(&[("authorization", &format!("Bearer  {STATIC_TOKEN}"))], PROBE).await;
    assert_eq!(missed.code, 403);
    let warning = missed.headers["warning"].to_str().unwrap();
    assert!(warning.contains("contains extra space before the bearer token"), "{warning}");
}
