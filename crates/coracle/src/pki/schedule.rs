//! When a certificate should be replaced: long before it expires, and not all at the same time.

use std::time::Duration;

use coracle_base::Timestamp;
use x509_parser::prelude::X509Certificate;

use super::authority::{self, timestamp};

/// The earliest and the latest part of its life at which a certificate is replaced, in fifteenths: two
/// thirds and four fifths.
const EARLIEST: u32 = 10;
const LATEST: u32 = 12;
const PARTS: u32 = 15;

/// The life of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Schedule {
    pub(super) begins: Timestamp,
    pub(super) ends: Timestamp,
    /// Moves the time of replacement, of 256 parts. Comes from the certificate, so that it is another for
    /// each and the same after every start.
    jitter: u8,
}

impl Schedule {
    /// When it should be replaced.
    pub(super) fn due(&self) -> Timestamp {
        let part: Duration = self.ends.since(self.begins) / PARTS;
        let spread = part * (LATEST - EARLIEST);
        self.begins + part * EARLIEST + spread / 256 * u32::from(self.jitter)
    }
}

/// The schedule of a certificate.
pub(super) fn of(certificate: &X509Certificate<'_>) -> Schedule {
    Schedule {
        begins: timestamp(certificate.validity().not_before.timestamp()),
        ends: timestamp(certificate.validity().not_after.timestamp()),
        // The end of a signature is as good as random.
        jitter: certificate.signature_value.data.last().copied().unwrap_or_default(),
    }
}

/// The schedule of the first certificate in a text.
pub(super) fn of_pem(text: &str) -> Option<Schedule> {
    let der = authority::parse_pem(text)?.into_iter().next()?;
    authority::parse_der(&der).map(|certificate| of(&certificate))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replacements_are_spread_between_two_thirds_and_four_fifths() {
        let days = |days: u64| Timestamp::from_millis(days * 86_400_000);
        let due = |jitter| Schedule { begins: days(100), ends: days(400), jitter }.due();
        assert_eq!(due(0), days(300));
        assert!(due(1) > due(0) && due(255) > due(254));
        assert!(due(255) > days(339) && due(255) < days(340));
    }
}
