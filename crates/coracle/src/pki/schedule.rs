//! Renewal times of certificates: long before they expire, and not all at the same time.

use std::time::Duration;

use coracle_base::Timestamp;
use x509_parser::prelude::X509Certificate;

use super::authority::{self, timestamp};

/// The earliest and the latest part of its lifetime at which a certificate is renewed, in fifteenths: two
/// thirds and four fifths.
const EARLIEST: u32 = 10;
const LATEST: u32 = 12;
const PARTS: u32 = 15;

/// The validity of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Schedule {
    pub(super) begins: Timestamp,
    pub(super) ends: Timestamp,
    /// Offset of the renewal time, in 256ths. It is derived from the certificate, so that it differs
    /// between certificates and is the same after every start.
    jitter: u8,
}

impl Schedule {
    /// The time of renewal.
    pub(super) fn due(&self) -> Timestamp {
        let part: Duration = self.ends.since(self.begins) / PARTS;
        let spread = part * (LATEST - EARLIEST);
        self.begins + part * EARLIEST + spread / 256 * u32::from(self.jitter)
    }
}

pub(super) fn of(certificate: &X509Certificate<'_>) -> Schedule {
    Schedule {
        begins: timestamp(certificate.validity().not_before.timestamp()),
        ends: timestamp(certificate.validity().not_after.timestamp()),
        // The last byte of a signature is practically random.
        jitter: certificate.signature_value.data.last().copied().unwrap_or_default(),
    }
}

/// The schedule of the first certificate in a PEM file.
pub(super) fn of_pem(text: &str) -> Option<Schedule> {
    let der = authority::parse_pem(text)?.into_iter().next()?;
    authority::parse_der(&der).map(|certificate| of(&certificate))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renewals_are_spread_between_two_thirds_and_four_fifths_of_the_lifetime() {
        let days = |days: u64| Timestamp::from_millis(days * 86_400_000);
        let due = |jitter| Schedule { begins: days(100), ends: days(400), jitter }.due();
        assert_eq!(due(0), days(300));
        assert!(due(1) > due(0) && due(255) > due(254));
        assert!(due(255) > days(339) && due(255) < days(340));
    }
}
