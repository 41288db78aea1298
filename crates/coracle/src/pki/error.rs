//! Why there are no certificates to serve with. No variant holds anything of a private key.

use std::io;
use std::path::PathBuf;

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
}
