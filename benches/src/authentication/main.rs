//! Cost of authenticating a request: `cargo xtask bench authentication`.
//!
//! Sends the same cheap request with each kind of credential through the whole service, without a network. The
//! baseline is a request without a credential.

use std::sync::Arc;
use std::time::Duration;

use coracle_apiserver::{
    ApiServer, AuthenticationConfig, EcdsaSigner, HealthChecks, Identity, PeerIdentity, Registry,
    StaticTokens, TokenPolicy,
};
use coracle_base::{Clock, Rng};
use coracle_benches::measure::{Samples, ratio, report, start};
use coracle_store::memory;
use http::{Method, Request, header};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// As many as in one large cluster, so that lookups have realistic size.
const PODS: usize = 10_000;

/// Requests per sample, because reading the clock takes time.
const BATCH: u32 = 100;
const BATCHES: usize = 500;

/// Handled without authorization and without work.
const PATH: &str = "/livez/ping";

/// Authentication and authorization together should take less than 20 µs, and authentication is the cheaper half.
const AIM: Duration = Duration::from_micros(10);

fn main() {
    // One thread, so that the figure is per core.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(run());
}

async fn run() {
    let server = server();
    let tokens = fill(&server).await;
    let anonymous = measure(&server, &[Credential::None]).await;
    print_result("anonymous, the baseline", anonymous, anonymous);
    print_result("a client certificate", measure(&server, &[Credential::Certificate]).await, anonymous);
    let file = Credential::Token("static-token".to_owned());
    print_result("a token of the token file", measure(&server, &[file]).await, anonymous);
    print_result("the token of a pod", measure(&server, &tokens[..1]).await, anonymous);
    print_result("tokens of 1 000 pods", measure(&server, &tokens).await, anonymous);
}

#[derive(Clone)]
enum Credential {
    None,
    Certificate,
    Token(String),
}

fn print_result(what: &str, took: Duration, anonymous: Duration) {
    let cost = took.saturating_sub(anonymous);
    let figure = format!(
        "{:.2} µs per request, {:.2} µs of it authentication, ratio {:.2}",
        took.as_secs_f64() * 1e6,
        cost.as_secs_f64() * 1e6,
        ratio(took, anonymous)
    );
    report(what, &figure, "under 10 µs", cost < AIM);
}

fn server() -> ApiServer {
    let key = rcgen::KeyPair::generate().expect("a key").serialize_pem();
    let signer = EcdsaSigner::from_pem("https://issuer.example", key.as_bytes()).expect("a signer");
    let registry =
        Registry::new(memory::open(memory::Options::default()), Clock::system(), Rng::from_entropy());
    let tokens = StaticTokens::from_csv("static-token,jane,7").expect("a token file");
    let config =
        AuthenticationConfig { static_tokens: Some(Arc::new(tokens)), ..AuthenticationConfig::default() };
    ApiServer::new(HealthChecks::new(CancellationToken::new()), registry, Clock::system())
        .with_authentication(&config, Arc::new(signer), TokenPolicy::default())
}

/// Creates pods, and returns tokens of the first thousand.
async fn fill(server: &ApiServer) -> Vec<Credential> {
    create(server, "/api/v1/namespaces", json!({"metadata": {"name": "default"}})).await;
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    create(server, accounts, json!({"metadata": {"name": "default"}})).await;
    let mut tokens = Vec::new();
    for number in 0..PODS {
        let name = format!("deployment-6d4cf56db6-{number:05}");
        let spec = json!({"containers": [{"name": "main", "image": "registry.example/app:1"}]});
        let pod = json!({"metadata": {"name": name, "labels": {"app": "main"}}, "spec": spec});
        create(server, "/api/v1/namespaces/default/pods", pod).await;
        if number < 1000 {
            let bound = json!({"kind": "Pod", "apiVersion": "v1", "name": name});
            let path = format!("{accounts}/default/token");
            let answer = create(server, &path, json!({"spec": {"boundObjectRef": bound}})).await;
            let token = answer["status"]["token"].as_str().expect("a token");
            tokens.push(Credential::Token(token.to_owned()));
        }
    }
    tokens
}

async fn create(server: &ApiServer, path: &str, body: Value) -> Value {
    let request =
        Request::builder().method(Method::POST).uri(path).header(header::CONTENT_TYPE, "application/json");
    let mut request = request.body(Full::from(body.to_string())).expect("a request");
    request.extensions_mut().insert(peer());
    let response = server.clone().oneshot(request).await.expect("an answer");
    let bytes = response.into_body().collect().await.expect("a body").to_bytes();
    serde_json::from_slice(&bytes).expect("JSON")
}

fn peer() -> PeerIdentity {
    let groups = vec!["system:masters".to_owned(), "system:authenticated".to_owned()];
    PeerIdentity(Some(Arc::new(Identity { name: "admin".to_owned(), groups, ..Identity::default() })))
}

/// Median duration of a request whose credential is already cached.
async fn measure(server: &ApiServer, credentials: &[Credential]) -> Duration {
    for credential in credentials {
        send(server, credential).await;
    }
    let mut samples = Samples::default();
    let mut next = credentials.iter().cycle();
    for _ in 0..BATCHES {
        let begin = start();
        for credential in next.by_ref().take(BATCH as usize) {
            send(server, credential).await;
        }
        samples.push(begin.elapsed() / BATCH);
    }
    samples.percentile(50.0)
}

async fn send(server: &ApiServer, credential: &Credential) {
    let mut request = Request::get(PATH).body(Full::<bytes::Bytes>::default()).expect("a request");
    match credential {
        Credential::None => {}
        Credential::Certificate => drop(request.extensions_mut().insert(peer())),
        Credential::Token(token) => {
            let value = format!("Bearer {token}").parse().expect("a header");
            request.headers_mut().insert(header::AUTHORIZATION, value);
        }
    }
    let response = server.clone().oneshot(request).await.expect("an answer");
    assert_eq!(response.status(), 200);
}
