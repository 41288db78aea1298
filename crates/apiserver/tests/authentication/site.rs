//! A server in memory with every authenticator, and helpers for requests of its administrator and of others.

use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use coracle_apiserver::{
    ApiServer, AuthenticationConfig, CredentialScope, EcdsaSigner, FrontProxy, HealthChecks, Identity,
    PeerIdentity, StaticTokens, TokenPolicy, TokenSigner,
};
use coracle_base::{Clock, ManualClock, Timestamp};
use coracle_registry::Registry;
use http::{HeaderMap, Method, Request, Response, header};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

/// Who vouches for the tokens of the server.
pub(crate) const ISSUER: &str = "https://issuer.example";

/// The announced URI of the key set (JWKS).
pub(crate) const KEY_SET_URI: &str = "https://server.example/openid/v1/jwks";

/// The token of an administrator in the token file.
pub(crate) const STATIC_TOKEN: &str = "planted-static-token";

/// The time of the tests' clock, in seconds since the epoch.
pub(crate) const NOW_S: i64 = 1_800_000_000;

/// A path that answers 200 or 403 to authenticated users, and 401 to all others.
pub(crate) const PROBE: &str = "/api/v1/namespaces/default/pods";

pub(crate) struct Site {
    pub(crate) server: ApiServer,
    pub(crate) signer: Arc<EcdsaSigner>,
    pub(crate) time: ManualClock,
}

/// An answer, read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap()
    }
}

/// The settings of the server, if a test has no others.
pub(crate) fn config() -> AuthenticationConfig {
    let file = format!("{STATIC_TOKEN},jane,7,\"dev,system:masters\"\nother-token,joe,8\n");
    AuthenticationConfig {
        static_tokens: Some(Arc::new(StaticTokens::from_csv(&file).unwrap())),
        front_proxy: Some(FrontProxy { allowed_names: vec!["proxy".into()], ..FrontProxy::default() }),
        ..AuthenticationConfig::default()
    }
}

pub(crate) fn signer() -> EcdsaSigner {
    let key = rcgen::KeyPair::generate().unwrap().serialize_pem();
    EcdsaSigner::from_pem(ISSUER, key.as_bytes()).unwrap()
}

impl Site {
    pub(crate) async fn new() -> Self {
        Self::with(config(), TokenPolicy { jwks_uri: Some(KEY_SET_URI.into()), ..TokenPolicy::default() })
            .await
    }

    pub(crate) async fn with(config: AuthenticationConfig, policy: TokenPolicy) -> Self {
        let now = Timestamp::from_millis(u64::try_from(NOW_S).unwrap() * 1000);
        let time = ManualClock::starting_at(now);
        Self::at(time.clock(), time, config, policy).await
    }

    /// One whose time is that of the machine, for certificates.
    pub(crate) async fn of_today() -> Self {
        let time = ManualClock::starting_at(Timestamp::from_millis(0));
        Self::at(Clock::system(), time, config(), TokenPolicy::default()).await
    }

    async fn at(clock: Clock, time: ManualClock, config: AuthenticationConfig, policy: TokenPolicy) -> Self {
        let signer = Arc::new(signer());
        let registry = Registry::in_memory_at(clock.clone());
        let server = ApiServer::new(HealthChecks::new(CancellationToken::new()), registry, clock)
            .with_authentication(&config, signer.clone(), policy);
        let site = Self { server, signer, time };
        for namespace in ["default", "kube-system"] {
            site.create("/api/v1/namespaces", json!({"metadata": {"name": namespace}})).await;
        }
        site.account("default").await;
        for id in ["other", "third"] {
            site.create("/admin/clusters", json!({"id": id})).await;
        }
        site
    }

    pub(crate) async fn send(&self, request: Request<Full<bytes::Bytes>>) -> Answer {
        let response: Response<_> = self.server.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Answer { code: parts.status.as_u16(), headers: parts.headers, text }
    }

    /// As the administrator.
    pub(crate) async fn admin(&self, method: Method, path: &str, body: Value) -> Answer {
        let bytes = if body.is_null() { Vec::new() } else { serde_json::to_vec(&body).unwrap() };
        let request = Request::builder().method(method).uri(path);
        let mut request =
            request.header(header::CONTENT_TYPE, "application/json").body(Full::from(bytes)).unwrap();
        let groups = vec!["system:masters".into()];
        let admin = Identity { name: "admin".into(), groups, ..Identity::default() };
        request.extensions_mut().insert(PeerIdentity(Some(Arc::new(admin))));
        request.extensions_mut().insert(CredentialScope::AllClusters);
        self.send(request).await
    }

    pub(crate) async fn create(&self, path: &str, body: Value) -> Value {
        let answer = self.admin(Method::POST, path, body).await;
        assert_eq!(answer.code, 201, "{}", answer.text);
        answer.json()
    }

    pub(crate) async fn delete(&self, path: &str) {
        let answer = self.admin(Method::DELETE, path, json!({"gracePeriodSeconds": 0})).await;
        assert_eq!(answer.code, 200, "{}", answer.text);
    }

    /// A service account of the namespace `default`.
    pub(crate) async fn account(&self, name: &str) -> Value {
        let body = json!({"metadata": {"name": name}});
        self.create("/api/v1/namespaces/default/serviceaccounts", body).await
    }

    pub(crate) async fn pod(&self, name: &str, account: &str) -> Value {
        let spec = json!({"serviceAccountName": account, "containers": [{"name": "c", "image": "i"}]});
        self.create(PROBE, json!({"metadata": {"name": name}, "spec": spec})).await
    }

    /// A token of a service account.
    pub(crate) async fn token(&self, account: &str, spec: Value) -> String {
        let path = format!("/api/v1/namespaces/default/serviceaccounts/{account}/token");
        let answer = self.create(&path, json!({"spec": spec})).await;
        answer["status"]["token"].as_str().unwrap().to_owned()
    }

    /// Sends a GET request with a bearer token.
    pub(crate) async fn with_token(&self, token: &str, path: &str) -> Answer {
        self.with_headers(&[("authorization", &format!("Bearer {token}"))], path).await
    }

    pub(crate) async fn with_headers(&self, headers: &[(&str, &str)], path: &str) -> Answer {
        let mut request = Request::get(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.send(request.body(Full::default()).unwrap()).await
    }

    /// Returns true if the token is authenticated, whether or not its user is authorized.
    pub(crate) async fn is_known(&self, token: &str) -> bool {
        is_let_in(&self.with_token(token, PROBE).await)
    }

    /// The status of a review of a token.
    pub(crate) async fn review(&self, token: &str, audiences: Value) -> Value {
        let body = json!({"spec": {"token": token, "audiences": audiences}});
        self.create("/apis/authentication.k8s.io/v1/tokenreviews", body).await["status"].clone()
    }

    /// A token with any header and any claims, signed by the server's key.
    pub(crate) fn signed(&self, header: &Value, claims: &Value) -> String {
        let message = format!("{}.{}", encoded(header), encoded(claims));
        let signature = self.signer.sign(message.as_bytes()).unwrap();
        format!("{message}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature))
    }

    /// The header of a good token.
    pub(crate) fn header(&self) -> Value {
        json!({"alg": "ES256", "kid": self.signer.key_id()})
    }
}

/// Returns true if the request was authenticated; otherwise checks that the response is that of kube-apiserver.
pub(crate) fn is_let_in(answer: &Answer) -> bool {
    if answer.code != 401 {
        assert!([200, 403].contains(&answer.code), "{answer:?}");
        return true;
    }
    let status = answer.json();
    assert_eq!(
        status,
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "Unauthorized", "reason": "Unauthorized", "code": 401
        })
    );
    false
}

pub(crate) fn encoded(json: &Value) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(json.to_string())
}

/// The claims of a token.
pub(crate) fn claims(token: &str) -> Value {
    let payload = token.split('.').nth(1).unwrap();
    serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(payload).unwrap()).unwrap()
}

/// The data of a secret.
pub(crate) fn secret_data(pairs: &[(&str, &str)]) -> Value {
    let encoded = |value: &str| Value::from(BASE64_STANDARD.encode(value));
    Value::Object(pairs.iter().map(|(key, value)| ((*key).to_owned(), encoded(value))).collect())
}
