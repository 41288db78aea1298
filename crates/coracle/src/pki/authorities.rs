//! Certificate authorities and their rotation, during which the server runs and clients stay connected.
//!
//! A successor is trusted beside the current authority for [`TRUST_LEAD`] before it signs anything. From
//! then on it signs client certificates. Serving certificates are still signed by its predecessor, because
//! clients configured earlier trust no other; such a client has a certificate of the predecessor, and when
//! the last of those has expired, the predecessor is dropped. All steps follow from the times in the
//! certificates, so there is no other state to lose.
//!
//! `NAME.crt` contains all trusted authorities, the current one first, and `NAME.key` the key of the
//! current one. `NAME-next` and `NAME-old` are its successor and its predecessor, while there is one.

use std::path::{Path, PathBuf};
use std::time::Duration;

use coracle_base::Timestamp;
use rcgen::KeyPair;

use super::authority::{self, AN_AUTHORITY, Authority, is_key_of, parse_key};
use super::error::PkiError;
use super::files::{self, Batch};
use super::leaf;
use super::private_key::PrivateKey;
use crate::trusted_files::Secrecy;

/// How long a successor is trusted before it signs; clients have to read the published bundle in this time.
/// Kubelets update a changed ConfigMap in pods within two minutes.
pub(super) const TRUST_LEAD: Duration = Duration::from_hours(1);

/// Part of an authority's lifetime after which a successor is created, as a fraction.
const SUCCESSION_AT: (u32, u32) = (4, 5);

/// How long before its expiry a predecessor is dropped, along with the serving certificates it signed.
const DROP_MARGIN: Duration = Duration::from_hours(7 * 24);

/// A kind of authority.
#[derive(Clone, Copy, Debug)]
pub(super) struct Family {
    /// Base name of its files.
    pub(super) file: &'static str,
    /// Common name of its certificates; successors append their time.
    pub(super) common_name: &'static str,
}

/// The authority of the cluster, for serving and client certificates.
pub(super) const CLUSTER: Family = Family { file: "ca", common_name: "coracle" };

/// The authority of front proxies, which pass user names in headers. Separate from that of the cluster, so
/// that a client certificate is not accepted as one of a proxy.
pub(super) const FRONT_PROXY: Family = Family { file: "front-proxy-ca", common_name: "front-proxy-ca" };

/// An authority with its successor and its predecessor.
pub(super) struct Authorities {
    pub(super) current: Authority,
    pub(super) next: Option<Authority>,
    pub(super) old: Option<Authority>,
    /// The certificate of a predecessor that was just dropped, in PEM.
    pub(super) withdrawn: Option<String>,
}

/// A step of a rotation.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// A successor is created.
    Succeed,
    /// The successor becomes the current authority.
    Promote,
    /// The predecessor is dropped.
    Drop,
}

impl Authorities {
    /// Loads the authorities in the directory, creates one if there is none, and carries out all steps that
    /// are due. With `rotate`, a successor is created ahead of time.
    pub(super) fn load_or_create(
        dir: &Path,
        family: Family,
        rotate: bool,
        now: Timestamp,
        batch: &mut Batch,
    ) -> Result<Self, PkiError> {
        let files = Files { dir, family };
        let mut found = match files.load()? {
            Some(found) => found,
            None => files.create_first(now, batch)?,
        };
        let mut rotate = rotate;
        while let Some(step) = found.due(rotate, now) {
            rotate &= step != Step::Succeed;
            found = files.apply_step(step, found, now, batch)?;
        }
        if found.current.expires() <= now {
            return Err(PkiError::Expired { path: files.certificate("") });
        }
        files.update_files(&found, batch)?;
        Ok(found)
    }

    /// Loads the authorities in the directory without changes; none if there are none.
    pub(super) fn load(dir: &Path, family: Family) -> Result<Option<Self>, PkiError> {
        Files { dir, family }.load()
    }

    /// All trusted certificates in PEM, the current one first.
    pub(super) fn bundle(&self) -> String {
        self.trusted().map(Authority::certificate).collect()
    }

    /// The signer of serving certificates: clients may trust only the oldest authority.
    pub(super) fn for_servers(&self) -> &Authority {
        self.old.as_ref().unwrap_or(&self.current)
    }

    /// The time of the next step.
    pub(super) fn next_due(&self) -> Timestamp {
        match (&self.next, &self.old) {
            (Some(next), _) => promote_at(next, &self.current),
            (None, Some(old)) => drop_at(&self.current, old),
            (None, None) => succeed_at(&self.current),
        }
    }

    fn trusted(&self) -> impl Iterator<Item = &Authority> {
        std::iter::once(&self.current).chain(&self.next).chain(&self.old)
    }

    fn due(&self, rotate: bool, now: Timestamp) -> Option<Step> {
        let step = match (&self.next, &self.old) {
            (Some(_), _) => Step::Promote,
            (None, Some(_)) => Step::Drop,
            (None, None) if rotate => return Some(Step::Succeed),
            // An expired authority cannot be succeeded: clients would not trust its successor.
            (None, None) if self.current.expires() <= now => return None,
            (None, None) => Step::Succeed,
        };
        (self.next_due() <= now).then_some(step)
    }
}

fn succeed_at(current: &Authority) -> Timestamp {
    let (part, parts) = SUCCESSION_AT;
    current.created_at() + current.expires().since(current.created_at()) / parts * part
}

fn promote_at(next: &Authority, current: &Authority) -> Timestamp {
    (next.created_at() + TRUST_LEAD).min(current.expires())
}

/// The time at which the last certificate of the predecessor has expired.
fn drop_at(current: &Authority, old: &Authority) -> Timestamp {
    (current.created_at() + TRUST_LEAD + leaf::MAX_LIFE).min(old.expires() - DROP_MARGIN)
}

/// The files of an authority.
struct Files<'a> {
    dir: &'a Path,
    family: Family,
}

const NEXT: &str = "-next";
const OLD: &str = "-old";

impl Files<'_> {
    fn certificate(&self, suffix: &str) -> PathBuf {
        self.dir.join(format!("{}{suffix}.crt", self.family.file))
    }

    fn key(&self, suffix: &str) -> PathBuf {
        self.dir.join(format!("{}{suffix}.key", self.family.file))
    }

    fn load(&self) -> Result<Option<Authorities>, PkiError> {
        let (certificate, key) = (self.certificate(""), self.key(""));
        let current = match self.pair("")? {
            Some(current) => current,
            None if files::read(&certificate)?.is_some() => {
                return Err(PkiError::KeyMissing { certificate, key });
            }
            None => return Ok(None),
        };
        // An interrupted step leaves a copy of the current one.
        let other = |authority: &Authority| !authority.has_key_of(&current);
        let next = self.pair(NEXT)?.filter(other);
        let old = self.pair(OLD)?.filter(other);
        Ok(Some(Authorities { next, old, current, withdrawn: None }))
    }

    /// The pair with this suffix; none if one half is missing. If there are several certificates, the one
    /// that belongs to the key.
    fn pair(&self, suffix: &str) -> Result<Option<Authority>, PkiError> {
        let (certificate, key) = (self.certificate(suffix), self.key(suffix));
        let (Some(text), Some(key_text)) = (files::read(&certificate)?, files::read(&key)?) else {
            return Ok(None);
        };
        let pair = parse_key(&key_text, &key)?;
        let malformed = || PkiError::Malformed { path: certificate.clone(), expected: AN_AUTHORITY };
        let found = authority::parse_pem(&text).ok_or_else(malformed)?;
        for der in found {
            let parsed = authority::parse_der(&der).ok_or_else(malformed)?;
            if is_key_of(&pair, &parsed) {
                return Authority::new(der, pair).ok_or_else(malformed).map(Some);
            }
        }
        Err(PkiError::Mismatch { certificate, key })
    }

    /// Creates the first authority. Its key is stored before the certificate: a key without certificate can
    /// be reused, the reverse is not true.
    fn create_first(&self, now: Timestamp, batch: &mut Batch) -> Result<Authorities, PkiError> {
        let (certificate, key) = (self.certificate(""), self.key(""));
        let pair = match files::read(&key)? {
            Some(text) => parse_key(&text, &key)?,
            None => self.create_key("", batch)?,
        };
        let current = Authority::create(self.family.common_name.to_owned(), pair, now, &certificate)?;
        batch.add(certificate, current.certificate().to_owned(), Secrecy::Public);
        Ok(Authorities { current, next: None, old: None, withdrawn: None })
    }

    fn create_key(&self, suffix: &str, batch: &mut Batch) -> Result<KeyPair, PkiError> {
        let path = self.key(suffix);
        let key = KeyPair::generate().map_err(|error| authority::issue_failed(&path, error))?;
        batch.add(path, PrivateKey::of(&key).expose().to_owned(), Secrecy::Private);
        Ok(key)
    }

    fn apply_step(
        &self,
        step: Step,
        found: Authorities,
        now: Timestamp,
        batch: &mut Batch,
    ) -> Result<Authorities, PkiError> {
        Ok(match (step, found) {
            (Step::Succeed, found) => Authorities { next: Some(self.create_next(now, batch)?), ..found },
            (Step::Promote, Authorities { current, next: Some(next), withdrawn, .. }) => {
                tracing::info!(authority = self.family.file, "promoting the new certificate authority");
                self.add_pair(OLD, &current, batch);
                let promoted = Authorities { current: next, next: None, old: Some(current), withdrawn };
                // In this order, because the key determines which of the certificates is the current one.
                batch.add(self.certificate(""), promoted.bundle(), Secrecy::Public);
                batch.add(self.key(""), promoted.current.key().expose().to_owned(), Secrecy::Private);
                promoted
            }
            (_, found) => {
                tracing::info!(authority = self.family.file, "dropping the old certificate authority");
                let withdrawn = found.old.map(|old| old.certificate().to_owned());
                Authorities { old: None, withdrawn, ..found }
            }
        })
    }

    fn create_next(&self, now: Timestamp, batch: &mut Batch) -> Result<Authority, PkiError> {
        let name = format!("{}@{}", self.family.common_name, now.as_millis() / 1000);
        let key = self.create_key(NEXT, batch)?;
        let path = self.certificate(NEXT);
        let next = Authority::create(name, key, now, &path)?;
        batch.add(path, next.certificate().to_owned(), Secrecy::Public);
        Ok(next)
    }

    fn add_pair(&self, suffix: &str, authority: &Authority, batch: &mut Batch) {
        batch.add(self.key(suffix), authority.key().expose().to_owned(), Secrecy::Private);
        batch.add(self.certificate(suffix), authority.certificate().to_owned(), Secrecy::Public);
    }

    /// Updates the bundle of trusted certificates, and removes files that are no longer used.
    fn update_files(&self, found: &Authorities, batch: &mut Batch) -> Result<(), PkiError> {
        let (path, bundle) = (self.certificate(""), found.bundle());
        if batch.text(&path).map_or_else(|| files::read(&path), |text| Ok(Some(text.to_owned())))?
            != Some(bundle.clone())
        {
            batch.add(path, bundle, Secrecy::Public);
        }
        for (suffix, present) in [(NEXT, found.next.is_some()), (OLD, found.old.is_some())] {
            if !present {
                batch.remove(self.certificate(suffix));
                batch.remove(self.key(suffix));
            }
        }
        Ok(())
    }
}
