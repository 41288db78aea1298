//! Authentication: the user of the engine, and its token.

use std::sync::{Mutex, PoisonError};

use tonic::Request;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::Channel;

use super::failure::Failure;
use super::options::Password;
use super::proto::AuthenticateRequest;
use super::rpc;

/// Metadata field of the token.
const TOKEN_FIELD: &str = "token";

/// A user, with a token once one was needed.
pub(super) struct Session {
    user: String,
    password: Password,
    token: Mutex<Option<Token>>,
}

/// An authentication token of etcd.
pub(super) type Token = MetadataValue<Ascii>;

impl Session {
    pub(super) fn new(user: String, password: Password) -> Self {
        Self { user, password, token: Mutex::new(None) }
    }

    /// The token, requested from the member behind `channel` if there is none yet.
    pub(super) async fn token(&self, url: &str, channel: Channel) -> Result<Token, Failure> {
        if let Some(token) = self.known() {
            return Ok(token);
        }
        let token = self.authenticate(url, channel).await?;
        *self.token.lock().unwrap_or_else(PoisonError::into_inner) = Some(token.clone());
        Ok(token)
    }

    /// Makes the next call request a new token.
    pub(super) fn forget_token(&self) {
        *self.token.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn known(&self) -> Option<Token> {
        self.token.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn authenticate(&self, url: &str, channel: Channel) -> Result<Token, Failure> {
        let (name, password) = (self.user.clone(), self.password.reveal().to_owned());
        let request = Request::new(AuthenticateRequest { name, password });
        let answer = rpc::AUTHENTICATE.unary(channel, request).await;
        let answer = answer.map_err(|status| self.failure(Failure::of_call(url, &status)))?;
        answer.token.parse().map_err(|_| {
            let message = "etcd answered with a token that is not text".to_owned();
            Failure::Rejected { code: tonic::Code::Unauthenticated, message }
        })
    }

    fn failure(&self, failure: Failure) -> Failure {
        match failure {
            // The request that needed the token has not been sent.
            Failure::Unanswered(reason) => Failure::Unsent(reason),
            Failure::Rejected { code, message } => {
                let message = format!("authentication as user {:?} failed: {message}", self.user);
                Failure::Rejected { code, message }
            }
            other => other,
        }
    }
}

/// Adds the token to a request.
pub(super) fn attach<T>(request: &mut Request<T>, token: Token) {
    request.metadata_mut().insert(TOKEN_FIELD, token);
}
