//! CIDR blocks of IP addresses.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A CIDR block, such as 10.0.0.0/16.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cidr {
    /// First address; IPv4 uses the lower 32 bits.
    network: u128,
    prefix: u8,
    v4: bool,
}

/// Error for a text that is not a CIDR block.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a CIDR block such as 10.0.0.0/16")]
pub struct ParseCidrError(String);

impl Cidr {
    /// True for IPv4.
    pub fn is_ipv4(&self) -> bool {
        self.v4
    }

    /// Prefix length.
    pub fn prefix(&self) -> u8 {
        self.prefix
    }

    /// True if the block contains the address.
    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        let (bits, v4) = bits_of(address);
        v4 == self.v4 && masked(bits, self.host_bits()) == self.network
    }

    /// True if the block offers the address to services: not the first one, and for IPv4 not the last.
    pub(crate) fn offers(&self, address: IpAddr) -> bool {
        let (bits, v4) = bits_of(address);
        let last = self.network | low_bits(self.host_bits());
        self.contains(address) && bits != self.network && !(v4 && bits == last)
    }

    /// True if the block contains all of another block.
    pub(crate) fn includes(&self, other: &Self) -> bool {
        self.prefix <= other.prefix && self.overlaps(other)
    }

    /// True if the blocks share an address.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        let common = self.host_bits().max(other.host_bits());
        self.v4 == other.v4 && masked(self.network, common) == masked(other.network, common)
    }

    /// Number of subblocks with this prefix length, saturating.
    pub(crate) fn blocks(&self, prefix: u8) -> u64 {
        1_u64.checked_shl(u32::from(prefix.saturating_sub(self.prefix))).unwrap_or(u64::MAX)
    }

    /// The subblock with this prefix length and index.
    pub(crate) fn block(&self, prefix: u8, index: u64) -> Self {
        let network = self.network | shifted(u128::from(index), self.bits() - u32::from(prefix));
        Self { network, prefix, v4: self.v4 }
    }

    /// Indexes of the subblocks with this prefix length that overlap another block; `None` if there are none.
    pub(crate) fn indexes_of(&self, prefix: u8, other: &Self) -> Option<std::ops::RangeInclusive<u64>> {
        if !self.overlaps(other) {
            return None;
        }
        if other.prefix <= self.prefix {
            return Some(0..=self.blocks(prefix) - 1);
        }
        let step = self.bits() - u32::from(prefix);
        let index =
            |address: u128| u64::try_from(address.wrapping_sub(self.network) >> step).unwrap_or(u64::MAX);
        Some(index(other.network)..=index(other.network | low_bits(other.host_bits())))
    }

    fn bits(&self) -> u32 {
        if self.v4 { 32 } else { 128 }
    }

    fn host_bits(&self) -> u32 {
        self.bits() - u32::from(self.prefix)
    }
}

fn bits_of(address: IpAddr) -> (u128, bool) {
    match address {
        IpAddr::V4(address) => (u128::from(u32::from(address)), true),
        IpAddr::V6(address) => (u128::from(address), false),
    }
}

fn low_bits(count: u32) -> u128 {
    1_u128.checked_shl(count).map_or(u128::MAX, |bit| bit - 1)
}

fn masked(bits: u128, host_bits: u32) -> u128 {
    bits & !low_bits(host_bits)
}

fn shifted(bits: u128, by: u32) -> u128 {
    bits.checked_shl(by).unwrap_or_default()
}

impl FromStr for Cidr {
    type Err = ParseCidrError;

    fn from_str(text: &str) -> Result<Self, ParseCidrError> {
        let malformed = || ParseCidrError(text.to_owned());
        let (address, prefix) = text.split_once('/').ok_or_else(malformed)?;
        let (bits, v4) = bits_of(address.parse().map_err(|_| malformed())?);
        let prefix: u8 = prefix.parse().map_err(|_| malformed())?;
        let block = Self { network: bits, prefix, v4 };
        if u32::from(prefix) > block.bits() {
            return Err(malformed());
        }
        Ok(Self { network: masked(bits, block.host_bits()), ..block })
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address: IpAddr = match u32::try_from(self.network) {
            Ok(bits) if self.v4 => Ipv4Addr::from(bits).into(),
            _ => Ipv6Addr::from(self.network).into(),
        };
        write!(f, "{address}/{}", self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cidr(text: &str) -> Cidr {
        text.parse().unwrap()
    }

    #[test]
    fn cidr_parses_and_formats() {
        for (text, shown) in [
            ("10.1.2.3/16", "10.1.0.0/16"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("10.0.0.1/32", "10.0.0.1/32"),
            ("fd00::1/64", "fd00::/64"),
            ("::/0", "::/0"),
        ] {
            assert_eq!(cidr(text).to_string(), shown);
        }
        for text in ["", "10.0.0.0", "10.0.0.0/33", "fd00::/129", "a/8", "10.0.0.0/x"] {
            assert!(text.parse::<Cidr>().is_err(), "{text}");
        }
    }

    #[test]
    fn cidr_contains_and_offers_addresses() {
        let offered = |block: &str, address: &str| cidr(block).offers(address.parse().unwrap());
        assert!(offered("10.0.0.0/30", "10.0.0.1") && offered("10.0.0.0/30", "10.0.0.2"));
        assert!(!offered("10.0.0.0/30", "10.0.0.0") && !offered("10.0.0.0/30", "10.0.0.3"));
        assert!(!offered("10.0.0.0/30", "10.0.0.4") && !offered("::/0", "10.0.0.1"));
        assert!(offered("fd00::/126", "fd00::3") && !offered("fd00::/126", "fd00::"));
    }

    #[test]
    fn cidr_includes_and_overlaps_blocks() {
        let includes = |one: &str, other: &str| cidr(one).includes(&cidr(other));
        assert!(includes("10.0.0.0/8", "10.1.0.0/16") && includes("10.0.0.0/8", "10.0.0.0/8"));
        assert!(!includes("10.1.0.0/16", "10.0.0.0/8") && !includes("10.0.0.0/16", "10.1.0.0/16"));
        assert!(!includes("::/0", "10.0.0.0/8") && includes("::/0", "fd00::/8"));
        assert!(cidr("10.1.0.0/16").overlaps(&cidr("10.0.0.0/8")));
    }

    #[test]
    fn cidr_subblocks_by_index() {
        let whole = cidr("10.0.0.0/16");
        assert_eq!((whole.blocks(24), whole.block(24, 3).to_string().as_str()), (256, "10.0.3.0/24"));
        assert_eq!(whole.indexes_of(24, &cidr("10.0.3.0/24")), Some(3..=3));
        assert_eq!(whole.indexes_of(24, &cidr("10.0.4.0/22")), Some(4..=7));
        assert_eq!(whole.indexes_of(24, &cidr("10.0.3.128/25")), Some(3..=3));
        assert_eq!(whole.indexes_of(24, &cidr("10.0.0.0/8")), Some(0..=255));
        assert_eq!(whole.indexes_of(24, &cidr("10.1.0.0/24")), None);
        let six = cidr("fd00::/48");
        assert_eq!(six.block(64, 0x1234).to_string(), "fd00:0:0:1234::/64");
        assert_eq!(six.indexes_of(64, &cidr("fd00:0:0:5::/64")), Some(5..=5));
    }
}
