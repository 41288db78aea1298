//! The layer in front of a service that reports the token it sees, with a reviewer that records reviews.

use std::sync::Mutex;
use std::time::Duration;

use coracle_base::{ManualClock, Timestamp};
use http::Method;
use http_body_util::BodyExt;
use tower::{ServiceExt, service_fn};

use super::*;

/// Reviewer that accepts one token, grants a list of permissions, and counts reviews.
#[derive(Clone, Default)]
struct FakeReviewer(Arc<Mutex<ReviewerState>>);

#[derive(Default)]
struct ReviewerState {
    allowed: Vec<(&'static str, &'static str)>,
    is_broken: bool,
    token_reviews: usize,
    access_reviews: Vec<String>,
}

impl FakeReviewer {
    fn allowing(allowed: &[(&'static str, &'static str)]) -> Self {
        let state = ReviewerState { allowed: allowed.to_vec(), ..ReviewerState::default() };
        Self(Arc::new(Mutex::new(state)))
    }

    fn state<T>(&self, look: impl FnOnce(&mut ReviewerState) -> T) -> T {
        look(&mut self.0.lock().unwrap())
    }
}

impl Reviewer for FakeReviewer {
    async fn review_token(&self, token: &str) -> Result<Option<User>, ReviewError> {
        self.state(|state| {
            state.token_reviews += 1;
            if state.is_broken {
                return Err(ReviewError::Timeout);
            }
            let user = User { name: "reader".into(), groups: vec!["g".into()], ..User::default() };
            Ok((token == "valid").then_some(user))
        })
    }

    async fn review_access(&self, user: &User, access: &Access) -> Result<bool, ReviewError> {
        self.state(|state| {
            let groups = user.groups.join(",");
            let Access { verb, node, subresource } = access;
            state.access_reviews.push(format!("{} {groups} {verb} {node}/{subresource}", user.name));
            if state.is_broken {
                return Err(ReviewError::Timeout);
            }
            Ok(state.allowed.contains(&(*verb, *subresource)))
        })
    }
}

/// A request with a token, or without one if it is empty.
fn request(method: Method, path: &str, token: &str) -> Request<()> {
    let mut request = Request::builder().method(method).uri(path);
    if !token.is_empty() {
        request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
    }
    request.body(()).unwrap()
}

/// Status code and body. The service reports whether it sees the token.
async fn answer(layer: &AuthLayer<FakeReviewer>, request: Request<()>) -> (u16, String) {
    let service = service_fn(async |request: Request<()>| {
        let text = if request.headers().contains_key(header::AUTHORIZATION) { "token seen" } else { "in" };
        Ok::<_, Infallible>(Response::new(Full::<Bytes>::from(text)))
    });
    let response = layer.layer(service).oneshot(request).await.unwrap();
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, String::from_utf8(bytes.to_vec()).unwrap())
}

fn layer(fake: &FakeReviewer) -> AuthLayer<FakeReviewer> {
    AuthLayer::new("a", fake.clone(), Clock::system())
}

async fn get(layer: &AuthLayer<FakeReviewer>, path: &str, token: &str) -> (u16, String) {
    answer(layer, request(Method::GET, path, token)).await
}

#[tokio::test]
async fn only_healthz_needs_no_authentication() {
    let fake = FakeReviewer::default();
    let layer = layer(&fake);
    assert_eq!(get(&layer, "/healthz", "").await, (200, "in".into()));
    for path in ["/", "/pods", "/metrics", "/exec/n/p/c", "/healthz/ping", "/healthz/", "/Healthz", "/x"] {
        assert_eq!(get(&layer, path, "").await, (401, "Unauthorized".into()), "{path}");
        assert_eq!(get(&layer, path, "forged").await, (401, "Unauthorized".into()), "{path}");
    }
    assert!(fake.state(|state| state.access_reviews.is_empty()));
}

#[tokio::test]
async fn token_has_the_permissions_of_its_user() {
    let fake = FakeReviewer::allowing(&[("get", "metrics"), ("get", "pods")]);
    let layer = layer(&fake);
    assert_eq!(
        get(&layer, "/metrics/cadvisor", "valid").await,
        (200, "in".into()),
        "the token is not passed on"
    );
    assert_eq!(get(&layer, "/pods", "valid").await.0, 200);
    let forbidden = "Forbidden (user=reader, verb=get, resource=nodes, subresource(s)=[configz proxy])\n";
    assert_eq!(get(&layer, "/configz", "valid").await, (403, forbidden.into()));
    let forbidden = "Forbidden (user=reader, verb=create, resource=nodes, subresource(s)=[proxy])\n";
    let run = request(Method::POST, "/run/n/p/c", "valid");
    assert_eq!(answer(&layer, run).await, (403, forbidden.into()));
    let reviews = fake.state(|state| state.access_reviews.clone());
    assert_eq!(reviews[0], "reader g,system:authenticated get a/metrics");
}

#[tokio::test]
async fn proxy_permission_includes_pods_but_not_metrics() {
    let fake = FakeReviewer::allowing(&[("get", "proxy")]);
    let layer = layer(&fake);
    for (path, code) in [("/pods", 200), ("/exec/n/p/c", 200), ("/metrics", 403), ("/logs/", 403)] {
        assert_eq!(get(&layer, path, "valid").await.0, code, "{path}");
    }
}

#[tokio::test]
async fn client_certificate_precedes_the_token() {
    let fake = FakeReviewer::allowing(&[("get", "stats")]);
    let layer = layer(&fake);
    let mut by_certificate = request(Method::GET, "/stats/summary", "forged");
    let user = User { name: "kube-apiserver-kubelet-client".into(), ..User::default() };
    by_certificate.extensions_mut().insert(PeerUser(Some(Arc::new(user))));
    assert_eq!(answer(&layer, by_certificate).await, (200, "in".into()));
    assert_eq!(fake.state(|state| state.token_reviews), 0);
    let mut anonymous = request(Method::GET, "/stats/summary", "");
    anonymous.extensions_mut().insert(PeerUser(None));
    assert_eq!(answer(&layer, anonymous).await.0, 401);
}

#[tokio::test]
async fn ambiguous_path_is_rejected() {
    let fake = FakeReviewer::allowing(&[("get", "pods"), ("get", "proxy")]);
    let layer = layer(&fake);
    for path in
        ["//healthz", "/healthz/../exec/n/p/c", "/pods/../exec/n/p/c", "/pods/%2e%2e/exec", "/pods%2fx"]
    {
        assert_eq!(get(&layer, path, "valid").await.0, 400, "{path}");
    }
}

#[tokio::test]
async fn failed_review_rejects_the_request() {
    let fake = FakeReviewer::allowing(&[("get", "metrics")]);
    let layer = layer(&fake);
    fake.state(|state| state.is_broken = true);
    assert_eq!(get(&layer, "/metrics", "valid").await.0, 401);
    fake.state(|state| state.is_broken = false);
    assert_eq!(get(&layer, "/metrics", "valid").await.0, 200, "failed reviews are not cached");
    fake.state(|state| state.is_broken = true);
    assert_eq!(get(&layer, "/metrics", "valid").await.0, 200, "successful reviews are cached");
    let text = "Authorization error (user=reader, verb=get, resource=nodes, subresource=stats)";
    assert_eq!(get(&layer, "/stats/x", "valid").await, (500, text.into()));
}

#[tokio::test]
async fn reviews_are_cached_as_long_as_in_the_kubelet() {
    let fake = FakeReviewer::allowing(&[("get", "metrics")]);
    let time = ManualClock::starting_at(Timestamp::from_millis(0));
    let layer = AuthLayer::new("a", fake.clone(), time.clock());
    let reviews = || fake.state(|state| (state.token_reviews, state.access_reviews.len()));
    let ask = async |path: &str| get(&layer, path, "valid").await.0;
    assert_eq!((ask("/metrics").await, ask("/stats").await), (200, 403));
    assert_eq!((ask("/metrics").await, ask("/stats").await, reviews()), (200, 403, (1, 2)));
    time.advance(Duration::from_secs(30));
    assert_eq!((ask("/metrics").await, ask("/stats").await, reviews()), (200, 403, (1, 3)));
    time.advance(Duration::from_secs(90));
    assert_eq!((ask("/metrics").await, reviews()), (200, (2, 3)));
    time.advance(Duration::from_secs(180));
    assert_eq!((ask("/metrics").await, reviews()), (200, (3, 4)));
}

#[test]
fn different_users_have_different_digests() {
    let reviewer = review::CachedReviewer::new(FakeReviewer::default(), Clock::system());
    let user = |name: &str, groups: &[&str], extra: &[(&str, &[&str])]| {
        let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let extra = extra.iter().map(|(key, values)| ((*key).to_owned(), texts(values))).collect();
        User { name: name.to_owned(), groups: texts(groups), extra, ..User::default() }
    };
    let access = Access { verb: "get", node: "a".into(), subresource: "proxy" };
    let users = [
        user("a", &[], &[]),
        user("a", &["b"], &[]),
        user("a", &["b", ""], &[]),
        user("a", &[], &[("b", &[])]),
        user("a", &[], &[("b", &["c"])]),
        user("a", &["b"], &[("", &["c"])]),
        user("a", &["b", "", "c"], &[]),
        user("ab", &[], &[]),
    ];
    let digests: std::collections::HashSet<_> =
        users.iter().map(|user| reviewer.digest_of_access(user, &access)).collect();
    assert_eq!(digests.len(), users.len());
}
