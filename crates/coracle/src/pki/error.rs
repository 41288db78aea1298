//! Why there are no certificates to serve with. No variant holds anything of a private key.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use coracle_base::Timestamp;
use coracle_meta::time::Time;

use crate::trusted_files::UntrustedFile;

/// Why the certificates of a cluster are not to be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PkiError {
    /// The system refuses.
    #[error("cannot {operation} {}", .path.display())]
    Io {
        /// What was tried, such as `read`.
        operation: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Another user could have written a file or directory.
    #[error(transparent)]
    Untrusted(#[from] UntrustedFile),
    /// A file does not hold what it should.
    #[error("{} does not hold {expected} in PEM: restore it, or remove it to have it made again", .path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What should be there, such as `a certificate`.
        expected: &'static str,
    },
    /// The authority's certificate without its key, so nothing can be signed.
    #[error(
        "{} is missing: restore it, or remove {} as well to have a new authority made, \
         which voids everything the old one signed",
        .key.display(),
        .certificate.display()
    )]
    KeyMissing {
        /// The file that is there.
        certificate: PathBuf,
        /// The file that is not.
        key: PathBuf,
    },
    /// Halves of different pairs.
    #[error("{} is not the private key of {}", .key.display(), .certificate.display())]
    Mismatch {
        /// The certificate.
        certificate: PathBuf,
        /// The key.
        key: PathBuf,
    },
    /// Nothing an expired authority signs is worth anything.
    #[error("the authority in {} has expired: remove that file to have it made again with the same key", .path.display())]
    Expired {
        /// The certificate of the authority.
        path: PathBuf,
    },
    /// A certificate cannot be made.
    #[error("cannot make {}", .path.display())]
    Issue {
        /// Where it would lie.
        path: PathBuf,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// There are no certificates to speak of.
    #[error(
        "there are no certificates in {}: start the cluster once, or name its directory by --data-dir",
        .path.display()
    )]
    NoCluster {
        /// Where they would be.
        path: PathBuf,
    },
    /// Nothing is called so.
    #[error("there is no certificate called {name:?}: expected one of {known}")]
    UnknownName {
        /// What was given.
        name: String,
        /// What there is.
        known: String,
    },
    /// An authority is not replaced by accident.
    #[error("{name} is an authority, with everything it signed: add --ca to have it replaced")]
    IsAuthority {
        /// Its name.
        name: String,
    },
    /// One succession at a time.
    #[error("{name} is being replaced already; the next step is due on {}", seconds(*.until))]
    Rotating {
        /// Its name.
        name: &'static str,
        /// When something happens by itself.
        until: Timestamp,
    },
    /// A user or a group without a name.
    #[error("a user and a group need a name")]
    EmptyName,
    /// A certificate that would outlive its authority.
    #[error("a certificate can be valid for at most {} hours, and for a second at least", .longest.as_secs() / 3600)]
    Life {
        /// The longest.
        longest: Duration,
    },
    /// The running cluster was asked and could not.
    #[error("the server cannot replace its certificates: {message}; it is tried again, see its log")]
    Server {
        /// What it said.
        message: String,
    },
    /// Nobody knows where the server is.
    #[error("there is no admin.kubeconfig that says where the server is: name its URL by --server")]
    NoServer,
}

fn seconds(moment: Timestamp) -> Time {
    Time(i64::try_from(moment.as_millis() / 1000).unwrap_or(i64::MAX))
}
