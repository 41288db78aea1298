//! Token and access reviews by the API server, and the cache of their results.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use coracle_base::{Clock, Rng};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::api::PostParams;
use kube::{Api, Client};
use ring::hmac;
use tokio::sync::Semaphore;

use super::access::Access;
use super::cache::{Cache, Digest};

/// Cache durations: the kubelet's defaults (`authentication.webhook.cacheTTL`,
/// `authorization.webhook.cacheAuthorizedTTL` and `cacheUnauthorizedTTL`).
const TOKEN_TTL: Duration = Duration::from_secs(120);
const ALLOWED_TTL: Duration = Duration::from_secs(300);
const REFUSED_TTL: Duration = Duration::from_secs(30);

/// Cached results of each type: the kubelet's limit for access reviews.
const MAX_CACHED: usize = 8192;

/// Number of concurrent reviews; further ones wait. Unauthenticated clients can cause reviews, and must not
/// be able to flood the API server.
const MAX_CONCURRENT_REVIEWS: usize = 64;

/// Time limit of a review, including the time it waits for others.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The group of all authenticated users.
const AUTHENTICATED: &str = "system:authenticated";

/// A user of the kubelet's API.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The name.
    pub name: String,
    /// Distinguishes users of the same name at different times; often empty.
    pub uid: String,
    /// The groups of the user.
    pub groups: Vec<String>,
    /// Further attributes.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// Why a review failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReviewError {
    /// The request to the API server failed.
    #[error("the review request to the API server failed")]
    Request(#[source] Box<kube::Error>),
    /// The API server could not evaluate the review.
    #[error("the API server could not evaluate the review: {0}")]
    Evaluation(String),
    /// The review timed out.
    #[error("the review by the API server timed out")]
    Timeout,
}

impl From<kube::Error> for ReviewError {
    fn from(error: kube::Error) -> Self {
        Self::Request(Box::new(error))
    }
}

/// Authenticates tokens and authorizes users.
pub trait Reviewer: Send + Sync + 'static {
    /// The user of a token; none if it is invalid.
    fn review_token(&self, token: &str) -> impl Future<Output = Result<Option<User>, ReviewError>> + Send;

    /// True if a user has a permission on a node.
    fn review_access(
        &self,
        user: &User,
        access: &Access,
    ) -> impl Future<Output = Result<bool, ReviewError>> + Send;
}

/// Reviewer that uses the API server's TokenReview and SubjectAccessReview.
#[derive(Clone)]
pub struct ApiReviewer(Client);

impl ApiReviewer {
    /// Sends reviews with this client, which has the node's credentials.
    pub fn new(client: Client) -> Self {
        Self(client)
    }
}

impl Reviewer for ApiReviewer {
    async fn review_token(&self, token: &str) -> Result<Option<User>, ReviewError> {
        let spec = TokenReviewSpec { token: token.to_owned(), ..TokenReviewSpec::default() };
        let review = TokenReview { spec, ..TokenReview::default() };
        let answer = Api::all(self.0.clone()).create(&PostParams::default(), &review).await?;
        let status = answer.status.unwrap_or_default();
        match status.error.filter(|error| !error.is_empty()) {
            _ if status.authenticated == Some(true) => Ok(status.user.map(User::from)),
            // Most invalid tokens come with an error as well.
            Some(error) => {
                tracing::debug!(error, "token review rejected a token");
                Ok(None)
            }
            None => Ok(None),
        }
    }

    async fn review_access(&self, user: &User, access: &Access) -> Result<bool, ReviewError> {
        let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let spec = SubjectAccessReviewSpec {
            user: Some(user.name.clone()),
            uid: text(&user.uid),
            groups: Some(user.groups.clone()),
            extra: Some(user.extra.clone()),
            resource_attributes: Some(ResourceAttributes {
                version: text("v1"),
                resource: text("nodes"),
                subresource: text(access.subresource),
                name: text(&access.node),
                verb: Some(access.verb.to_owned()),
                ..ResourceAttributes::default()
            }),
            ..SubjectAccessReviewSpec::default()
        };
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let answer = Api::all(self.0.clone()).create(&PostParams::default(), &review).await?;
        let status = answer.status.unwrap_or_default();
        let denied = status.denied == Some(true);
        match status.evaluation_error.filter(|error| !error.is_empty()) {
            Some(error) if !status.allowed && !denied => Err(ReviewError::Evaluation(error)),
            _ => Ok(status.allowed && !denied),
        }
    }
}

impl From<UserInfo> for User {
    fn from(info: UserInfo) -> Self {
        Self {
            name: info.username.unwrap_or_default(),
            uid: info.uid.unwrap_or_default(),
            groups: info.groups.unwrap_or_default(),
            extra: info.extra.unwrap_or_default(),
        }
    }
}

/// A reviewer with a cache.
pub(super) struct CachedReviewer<R> {
    reviewer: R,
    tokens: Cache<Option<Arc<User>>>,
    accesses: Cache<bool>,
    /// Random per process, so that colliding inputs cannot be prepared.
    key: hmac::Key,
    permits: Semaphore,
}

impl<R: Reviewer> CachedReviewer<R> {
    pub(super) fn new(reviewer: R, clock: Clock) -> Self {
        let mut rng = Rng::from_entropy();
        let secret: [[u8; 8]; 4] = std::array::from_fn(|_| rng.u64().to_le_bytes());
        Self {
            reviewer,
            tokens: Cache::new(MAX_CACHED, clock.clone()),
            accesses: Cache::new(MAX_CACHED, clock),
            key: hmac::Key::new(hmac::HMAC_SHA256, secret.as_flattened()),
            permits: Semaphore::new(MAX_CONCURRENT_REVIEWS),
        }
    }

    /// The user of a token; none if it is invalid.
    pub(super) async fn review_token(&self, token: &str) -> Result<Option<Arc<User>>, ReviewError> {
        let digest = self.digest(&[token.into()]);
        if let Some(cached) = self.tokens.get(&digest) {
            return Ok(cached);
        }
        let user = self.limited(self.reviewer.review_token(token)).await?;
        let user = user.map(|user| Arc::new(authenticated(user)));
        self.tokens.put(digest, user.clone(), TOKEN_TTL);
        Ok(user)
    }

    /// True if a user has a permission on a node.
    pub(super) async fn review_access(&self, user: &User, access: &Access) -> Result<bool, ReviewError> {
        let digest = self.digest_of_access(user, access);
        if let Some(cached) = self.accesses.get(&digest) {
            return Ok(cached);
        }
        let allowed = self.limited(self.reviewer.review_access(user, access)).await?;
        self.accesses.put(digest, allowed, if allowed { ALLOWED_TTL } else { REFUSED_TTL });
        Ok(allowed)
    }

    pub(super) fn digest_of_access(&self, user: &User, access: &Access) -> Digest {
        self.digest(&parts(user, access))
    }

    async fn limited<T>(
        &self,
        review: impl Future<Output = Result<T, ReviewError>>,
    ) -> Result<T, ReviewError> {
        let result = async {
            let _permit = self.permits.acquire().await.map_err(|_closed| ReviewError::Timeout)?;
            review.await
        };
        tokio::time::timeout(TIMEOUT, result).await.map_err(|_late| ReviewError::Timeout)?
    }

    /// Hashes each part with its length, so that different lists of parts have different input.
    fn digest(&self, parts: &[Cow<'_, str>]) -> Digest {
        let mut context = hmac::Context::with_key(&self.key);
        for part in parts {
            context.update(&(part.len() as u64).to_le_bytes());
            context.update(part.as_bytes());
        }
        let mut digest = Digest::default();
        digest.copy_from_slice(context.sign().as_ref());
        digest
    }
}

/// Everything a decision depends on, each list preceded by its length.
fn parts<'a>(user: &'a User, access: &'a Access) -> Vec<Cow<'a, str>> {
    let mut parts: Vec<Cow<'a, str>> =
        [access.verb, &access.node, access.subresource, &user.name, &user.uid].map(Cow::from).to_vec();
    let mut add = |list: &'a [String]| {
        parts.push(list.len().to_string().into());
        parts.extend(list.iter().map(Cow::from));
    };
    add(&user.groups);
    for (key, values) in &user.extra {
        add(std::slice::from_ref(key));
        add(values);
    }
    parts
}

/// Adds the group of authenticated users.
fn authenticated(mut user: User) -> User {
    if !user.groups.iter().any(|group| group == AUTHENTICATED) {
        user.groups.push(AUTHENTICATED.to_owned());
    }
    user
}
