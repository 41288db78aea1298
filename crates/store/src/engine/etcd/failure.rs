//! Failures of requests to etcd, classified by what the caller may do next.

use std::error::Error as StdError;

use tonic::{Code, ConnectError, Status};

use crate::error::{Error, chain};

/// The failure of a request.
#[derive(Clone, Debug)]
pub(super) enum Failure {
    /// The engine has been closed.
    Closed,
    /// The request was not sent, because there was no connection.
    Unsent(String),
    /// The request may have reached etcd, but no response arrived: it may have been executed.
    Unanswered(String),
    /// Etcd rejected the request.
    Rejected {
        /// The gRPC code.
        code: Code,
        /// Etcd's message.
        message: String,
    },
}

impl Failure {
    /// Classifies the error of a call to the member at `url`.
    pub(super) fn of_call(url: &str, status: &Status) -> Self {
        if let Some(error) = connect_error(status) {
            return Failure::Unsent(format!("{url}: {}", chain(error)));
        }
        let message = match status.message() {
            "" => status.code().description().to_owned(),
            message => message.replace('\n', " "),
        };
        match status.code() {
            code if is_refusal(code) => Failure::Rejected { code, message },
            code => Failure::Unanswered(format!("{url}: {code:?}: {message}")),
        }
    }

    pub(super) fn no_answer(url: &str) -> Self {
        Failure::Unanswered(format!("{url}: no answer in time"))
    }

    /// The error of a request that may be repeated, so its outcome does not matter.
    pub(super) fn into_read_error(self) -> Error {
        match self {
            Failure::Closed => Error::Closed,
            Failure::Unsent(reason) | Failure::Unanswered(reason) => Error::Unavailable(reason),
            Failure::Rejected { message, .. } => Error::Refused(message),
        }
    }

    /// The error of a request that changes something.
    pub(super) fn into_write_error(self) -> Error {
        match self {
            Failure::Unanswered(reason) => Error::OutcomeUnknown(reason),
            other => other.into_read_error(),
        }
    }

    /// Returns true if a new token may help. Etcd returns "invalid argument" if the token is older than the
    /// configuration of its users, and "permission denied" on some requests if it has expired.
    pub(super) fn may_be_the_token(&self) -> bool {
        let codes = [Code::Unauthenticated, Code::PermissionDenied, Code::InvalidArgument];
        matches!(self, Failure::Rejected { code, .. } if codes.contains(code))
    }

    pub(super) fn is_rejected_with(&self, expected: Code) -> bool {
        matches!(self, Failure::Rejected { code, .. } if *code == expected)
    }
}

/// Codes with which etcd rejects a request before executing it. All others are also used after the loss of a leader
/// or a connection.
fn is_refusal(code: Code) -> bool {
    matches!(
        code,
        Code::InvalidArgument
            | Code::NotFound
            | Code::AlreadyExists
            | Code::PermissionDenied
            | Code::ResourceExhausted
            | Code::FailedPrecondition
            | Code::OutOfRange
            | Code::Unimplemented
            | Code::Unauthenticated
    )
}

/// The connect error behind a status, which proves that nothing was sent.
fn connect_error(status: &Status) -> Option<&ConnectError> {
    let mut source = status.source();
    while let Some(error) = source {
        if let Some(found) = error.downcast_ref::<ConnectError>() {
            return Some(found);
        }
        source = error.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_leader_leaves_the_outcome_of_a_write_open() {
        let status = Status::unavailable("etcdserver: leader changed");
        let failure = Failure::of_call("http://a:1", &status);
        assert!(matches!(failure.clone().into_write_error(), Error::OutcomeUnknown(_)));
        assert!(matches!(failure.into_read_error(), Error::Unavailable(_)));
    }

    #[test]
    fn a_failed_connection_proves_that_nothing_was_sent() {
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        let status = Status::from_error(Box::new(ConnectError(Box::new(refused))));
        let failure = Failure::of_call("http://a:1", &status);
        let error = failure.into_write_error();
        assert!(error.to_string().starts_with("etcd is unavailable: http://a:1: connection refused;"));
    }
}
