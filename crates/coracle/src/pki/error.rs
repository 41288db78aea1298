//! Errors of the PKI. No variant contains private key material.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use coracle_base::Timestamp;
use coracle_meta::time::Time;

use crate::trusted_files::UntrustedFile;

/// Why the certificates of a server cannot be used, created or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PkiError {
    /// A system call failed.
    #[error("cannot {operation} {}", .path.display())]
    Io {
        /// The operation, such as `read`.
        operation: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// Another user could have written a file or directory.
    #[error(transparent)]
    Untrusted(#[from] UntrustedFile),
    /// A file has unexpected contents.
    #[error("{} does not hold {expected} in PEM: restore it, or remove it to have it created again", .path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The expected contents, such as `a certificate`.
        expected: &'static str,
    },
    /// The authority's certificate without its key, so nothing can be signed.
    #[error(
        "{} is missing: restore it, or remove {} as well to have a new authority created, \
         which invalidates everything the old one signed",
        .key.display(),
        .certificate.display()
    )]
    KeyMissing {
        /// The certificate file that exists.
        certificate: PathBuf,
        /// The missing key file.
        key: PathBuf,
    },
    /// Certificate and key do not belong together.
    #[error("{} is not the private key of {}", .key.display(), .certificate.display())]
    Mismatch {
        /// The certificate.
        certificate: PathBuf,
        /// The key.
        key: PathBuf,
    },
    /// The authority has expired, so everything it signs is invalid.
    #[error("the authority in {} has expired: remove that file to have it created again with the same key", .path.display())]
    Expired {
        /// The certificate of the authority.
        path: PathBuf,
    },
    /// A certificate cannot be created.
    #[error("cannot create {}", .path.display())]
    Issue {
        /// The file of the certificate.
        path: PathBuf,
        /// The error.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The data directory contains no certificates.
    #[error(
        "there are no certificates in {}: start the cluster once, or set its directory with --data-dir",
        .path.display()
    )]
    NoCluster {
        /// The directory.
        path: PathBuf,
    },
    /// Unknown certificate name.
    #[error("unknown certificate {name:?}: expected one of {known}")]
    UnknownName {
        /// The requested name.
        name: String,
        /// The known names.
        known: String,
    },
    /// The replacement of an authority has to be confirmed.
    #[error("{name} is an authority: add --ca to replace it with everything it signed")]
    IsAuthority {
        /// The name of the authority.
        name: String,
    },
    /// The authority is being replaced already.
    #[error("{name} is being replaced already; the next step is due on {}", seconds(*.until))]
    Rotating {
        /// The name of the authority.
        name: &'static str,
        /// The time of the next step.
        until: Timestamp,
    },
    /// A user or a group without a name.
    #[error("a user and a group need a name")]
    EmptyName,
    /// A lifetime that is zero or exceeds that of the authority.
    #[error("a certificate can be valid for at most {} hours, and for a second at least", .longest.as_secs() / 3600)]
    Life {
        /// The maximum.
        longest: Duration,
    },
    /// The running server failed to replace certificates.
    #[error("the server cannot replace its certificates: {message}; it retries, see its log")]
    Server {
        /// The server's message.
        message: String,
    },
    /// The URL of the server is unknown.
    #[error("the URL of the server is unknown because there is no admin.kubeconfig: set it with --server")]
    NoServer,
}

fn seconds(moment: Timestamp) -> Time {
    Time(i64::try_from(moment.as_millis() / 1000).unwrap_or(i64::MAX))
}
