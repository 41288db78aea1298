//! Authentication and authorization for the kubelet's HTTP API, delegated to the API server.
//!
//! A client authenticates with a certificate of the cluster's authority, which the listener has verified,
//! or with a token, which is checked by a TokenReview. Then a SubjectAccessReview decides whether the user
//! has the node permission that the path requires. Only [`HEALTHZ`] needs no authentication. Results are
//! cached for as long and in the same cases as in the kubelet (`pkg/kubelet/server/auth.go`).

mod access;
mod cache;
mod refusal;
mod review;

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use coracle_base::Clock;
use http::request::Parts;
use http::{HeaderMap, Request, Response, header};
use http_body_util::{Either, Full};
use tower::{Layer, Service};

pub use access::Access;
pub use review::{ApiReviewer, ReviewError, Reviewer, User};

use access::is_plain;
use refusal::Refusal;
use review::CachedReviewer;

/// The health endpoint, which needs no authentication.
pub const HEALTHZ: &str = "/healthz";

/// The user of the client's certificate, if there is one. The listener adds it to the extensions of each
/// request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerUser(pub Option<Arc<User>>);

/// Body of a response: the inner service's, or the text of a rejection.
pub type AuthBody<B> = Either<B, Full<Bytes>>;

/// Layer that authenticates and authorizes requests to the kubelet's API.
pub struct AuthLayer<R> {
    guard: Arc<Guard<R>>,
}

impl<R> Clone for AuthLayer<R> {
    fn clone(&self) -> Self {
        Self { guard: self.guard.clone() }
    }
}

impl<R: Reviewer> AuthLayer<R> {
    /// For the node of this name, with the decisions of `reviewer`.
    pub fn new(node: impl Into<String>, reviewer: R, clock: Clock) -> Self {
        let guard = Guard { node: node.into(), reviewer: CachedReviewer::new(reviewer, clock) };
        Self { guard: Arc::new(guard) }
    }
}

impl<R, S> Layer<S> for AuthLayer<R> {
    type Service = Auth<R, S>;

    fn layer(&self, service: S) -> Auth<R, S> {
        Auth { guard: self.guard.clone(), service }
    }
}

/// Service that passes only authorized requests to the inner service.
pub struct Auth<R, S> {
    guard: Arc<Guard<R>>,
    service: S,
}

impl<R, S: Clone> Clone for Auth<R, S> {
    fn clone(&self) -> Self {
        Self { guard: self.guard.clone(), service: self.service.clone() }
    }
}

impl<R, S, B, A> Service<Request<B>> for Auth<R, S>
where
    R: Reviewer,
    S: Service<Request<B>, Response = Response<A>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
    B: Send + 'static,
{
    type Response = Response<AuthBody<A>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.service.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let guard = self.guard.clone();
        // The ready service is used for this request; its clone becomes ready for the next one.
        let next = self.service.clone();
        let mut service = std::mem::replace(&mut self.service, next);
        Box::pin(async move {
            let (mut parts, body) = request.into_parts();
            match guard.admit(&mut parts).await {
                Ok(()) => Ok(service.call(Request::from_parts(parts, body)).await?.map(Either::Left)),
                Err(refusal) => Ok(refusal.into_response().map(Either::Right)),
            }
        })
    }
}

/// Authenticates and authorizes requests.
struct Guard<R> {
    node: String,
    reviewer: CachedReviewer<R>,
}

impl<R: Reviewer> Guard<R> {
    async fn admit(&self, request: &mut Parts) -> Result<(), Refusal> {
        let path = request.uri.path();
        if path == HEALTHZ {
            return Ok(());
        }
        // A path that other components may normalize differently is not authorized.
        if !is_plain(path) {
            return Err(Refusal::DubiousPath);
        }
        let user = self.authenticate(request).await?;
        self.authorize(&user, request).await?;
        // The credential is not passed to the inner service.
        request.headers.remove(header::AUTHORIZATION);
        Ok(())
    }

    async fn authenticate(&self, request: &Parts) -> Result<Arc<User>, Refusal> {
        let by_certificate = request.extensions.get::<PeerUser>().and_then(|peer| peer.0.clone());
        if let Some(user) = by_certificate {
            return Ok(user);
        }
        let token = bearer_token(&request.headers).ok_or(Refusal::Unauthorized)?;
        match self.reviewer.review_token(token).await {
            Ok(user) => user.ok_or(Refusal::Unauthorized),
            Err(error) => {
                tracing::error!(%error, "token authentication failed");
                Err(Refusal::Unauthorized)
            }
        }
    }

    async fn authorize(&self, user: &User, request: &Parts) -> Result<(), Refusal> {
        let accesses = Access::all_of(&self.node, &request.method, request.uri.path());
        for access in &accesses {
            match self.reviewer.review_access(user, access).await {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(error) => {
                    tracing::error!(%error, user = user.name, "cannot authorize a request");
                    return Err(Refusal::undecided(user, access));
                }
            }
        }
        Err(Refusal::forbidden(user, &accesses))
    }
}

fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let mut words = headers.get(header::AUTHORIZATION)?.to_str().ok()?.trim().split(' ');
    let scheme = words.next()?;
    let token = words.next()?;
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests;
