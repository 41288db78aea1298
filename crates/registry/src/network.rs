//! Networks of services: IP ranges and node ports.
//!
//! Ranges of both kinds have two bands: the server allocates from the upper band while it has free values, so that
//! values that clients request explicitly are seldom allocated (KEP-3070 for addresses, KEP-3682 for ports).

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// Minimum number of addresses in a range, as in kube-apiserver.
const MIN_ADDRESSES: u64 = 8;

/// Minimum prefix length of an IPv6 range, as in kube-apiserver: indexes have 64 bits.
const MIN_PREFIX_V6: u8 = 64;

/// Size of the lower band of a range: one part in `step`, at least `min` and at most `max`. Ranges of up to `min`
/// values have only one band.
struct Bands {
    min: u64,
    max: u64,
    step: u64,
}

const ADDRESS_BANDS: Bands = Bands { min: 16, max: 256, step: 16 };
const PORT_BANDS: Bands = Bands { min: 16, max: 128, step: 32 };

impl Bands {
    fn lower(&self, size: u64) -> u64 {
        if size <= self.min { 0 } else { (size / self.step).clamp(self.min, self.max) }
    }
}

/// IP ranges and node ports from which services allocate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceNetwork {
    ranges: Vec<AddressRange>,
    node_ports: PortRange,
}

impl Default for ServiceNetwork {
    fn default() -> Self {
        // The default service range of kubeadm, and the default node ports of kube-apiserver.
        let range = AddressRange {
            network: u128::from(u32::from(Ipv4Addr::new(10, 96, 0, 0))),
            prefix: 12,
            v4: true,
        };
        Self { ranges: vec![range], node_ports: PortRange { first: 30_000, last: 32_767 } }
    }
}

impl ServiceNetwork {
    /// A network with one range, or one range per address family, the default family first.
    ///
    /// # Errors
    /// If there is no range, or there are more than two or two of one family.
    pub fn new(ranges: Vec<AddressRange>, node_ports: PortRange) -> Result<Self, NetworkError> {
        match ranges.as_slice() {
            [_] => Ok(Self { ranges, node_ports }),
            [one, other] if one.v4 != other.v4 => Ok(Self { ranges, node_ports }),
            _ => Err(NetworkError::Families),
        }
    }

    /// IP ranges, that of the default family first.
    pub fn ranges(&self) -> &[AddressRange] {
        &self.ranges
    }

    /// The range of node ports.
    pub fn node_ports(&self) -> PortRange {
        self.node_ports
    }

    /// `IPv4` and `IPv6`, the default family first.
    pub fn families(&self) -> Vec<&'static str> {
        self.ranges.iter().map(|range| range.family()).collect()
    }
}

/// Why a network is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NetworkError {
    /// The text is not a CIDR.
    #[error("{text:?} is not a range of addresses such as 10.96.0.0/12")]
    NotRange {
        /// The text.
        text: String,
    },
    /// The range is too small or too large.
    #[error(
        "{text:?} must have at least {MIN_ADDRESSES} addresses, and with IPv6 a prefix of at least {MIN_PREFIX_V6} bits"
    )]
    Size {
        /// The text.
        text: String,
    },
    /// The text is not a port range.
    #[error("{text:?} is not a range of ports such as 30000-32767")]
    NotPorts {
        /// The text.
        text: String,
    },
    /// There is no range, or there are two of one family.
    #[error("there must be one range of addresses, or one of IPv4 and one of IPv6")]
    Families,
}

/// An IP range, such as 10.96.0.0/12.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRange {
    network: u128,
    prefix: u8,
    v4: bool,
}

impl AddressRange {
    /// `IPv4` or `IPv6`.
    pub fn family(&self) -> &'static str {
        if self.v4 { "IPv4" } else { "IPv6" }
    }

    /// Number of addresses for services: without the network address and, for IPv4, the broadcast address.
    pub fn len(&self) -> u64 {
        let unusable = if self.v4 { 2 } else { 1 };
        u64::try_from((1_u128 << self.host_bits()) - unusable).unwrap_or(u64::MAX)
    }

    /// Always false, because ranges have a minimum size.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The address with this index.
    pub fn address(&self, index: u64) -> IpAddr {
        let bits = self.network + 1 + u128::from(index);
        // The bits of an IPv4 address fit into 32 bits.
        if self.v4 { Ipv4Addr::from(bits as u32).into() } else { Ipv6Addr::from(bits).into() }
    }

    /// Whether the range has this address and services can use it.
    pub fn contains(&self, address: IpAddr) -> bool {
        let bits = match address {
            IpAddr::V4(address) if self.v4 => u128::from(u32::from(address)),
            IpAddr::V6(address) if !self.v4 => u128::from(address),
            _ => return false,
        };
        bits.checked_sub(self.network + 1).is_some_and(|index| index < u128::from(self.len()))
    }

    /// Number of addresses in the lower band, which are allocated only when all others are.
    pub(crate) fn lower_band(&self) -> u64 {
        ADDRESS_BANDS.lower(u64::try_from(1_u128 << self.host_bits()).unwrap_or(u64::MAX))
    }

    fn host_bits(&self) -> u32 {
        u32::from(if self.v4 { 32 } else { 128 } - self.prefix)
    }
}

impl FromStr for AddressRange {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let malformed = || NetworkError::NotRange { text: text.to_owned() };
        let (address, prefix) = text.split_once('/').ok_or_else(malformed)?;
        let address: IpAddr = address.parse().map_err(|_| malformed())?;
        let prefix: u8 = prefix.parse().map_err(|_| malformed())?;
        let (bits, v4) = match address {
            IpAddr::V4(address) => (u128::from(u32::from(address)), true),
            IpAddr::V6(address) => (u128::from(address), false),
        };
        if prefix > if v4 { 32 } else { 128 } {
            return Err(malformed());
        }
        let range = Self { network: bits, prefix, v4 };
        if range.host_bits() < MIN_ADDRESSES.ilog2() || !v4 && prefix < MIN_PREFIX_V6 {
            return Err(NetworkError::Size { text: text.to_owned() });
        }
        Ok(Self { network: bits >> range.host_bits() << range.host_bits(), ..range })
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let network: IpAddr = if self.v4 {
            Ipv4Addr::from(self.network as u32).into()
        } else {
            Ipv6Addr::from(self.network).into()
        };
        write!(f, "{network}/{}", self.prefix)
    }
}

/// A port range, such as 30000-32767.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRange {
    first: u16,
    last: u16,
}

impl PortRange {
    /// Number of ports.
    pub fn len(&self) -> u64 {
        u64::from(self.last - self.first) + 1
    }

    /// Always false, because a range has at least one port.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The port with this index.
    pub fn port(&self, index: u64) -> i64 {
        i64::from(self.first) + index as i64
    }

    /// Whether the range contains a port.
    pub fn contains(&self, port: i64) -> bool {
        (i64::from(self.first)..=i64::from(self.last)).contains(&port)
    }

    /// Number of ports in the lower band, which are allocated only when all others are.
    pub(crate) fn lower_band(&self) -> u64 {
        PORT_BANDS.lower(self.len())
    }
}

impl FromStr for PortRange {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let ports =
            text.split_once('-').and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
        match ports {
            Some((first, last)) if 0 < first && first <= last => Ok(Self { first, last }),
            _ => Err(NetworkError::NotPorts { text: text.to_owned() }),
        }
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(text: &str) -> AddressRange {
        text.parse().unwrap()
    }

    #[test]
    fn range_excludes_network_and_broadcast_address() {
        let small = range("10.0.0.5/28");
        assert_eq!((small.to_string().as_str(), small.len()), ("10.0.0.0/28", 14));
        assert_eq!(small.address(0).to_string(), "10.0.0.1");
        assert_eq!(small.address(13).to_string(), "10.0.0.14");
        let inside = |address: &str| small.contains(address.parse().unwrap());
        assert!(inside("10.0.0.1") && inside("10.0.0.14"));
        for outside in ["10.0.0.0", "10.0.0.15", "9.0.0.1", "::a00:1"] {
            assert!(!inside(outside), "{outside}");
        }
        let six = range("fd00::/112");
        assert_eq!((six.len(), six.address(65_534).to_string().as_str()), (65_535, "fd00::ffff"));
        assert_eq!(range("fd00::/64").len(), u64::MAX);
    }

    #[test]
    fn lower_band_grows_with_the_range() {
        let bands: Vec<u64> = ["10.0.0.0/28", "10.0.0.0/27", "10.0.0.0/22", "10.96.0.0/12", "fd00::/64"]
            .map(|text| range(text).lower_band())
            .into();
        assert_eq!(bands, [0, 16, 64, 256, 256]);
        let ports = |text: &str| text.parse::<PortRange>().unwrap().lower_band();
        assert_eq!([ports("30000-30015"), ports("30000-30099"), ports("30000-32767")], [0, 16, 86]);
    }

    #[test]
    fn invalid_ranges_are_rejected() {
        for text in ["", "10.0.0.0", "10.0.0.0/33", "10.0.0.0/30", "fd00::/48", "a/8", "10.0.0.0/-1"] {
            assert!(text.parse::<AddressRange>().is_err(), "{text}");
        }
        for text in ["", "1", "0-5", "5-4", "1-70000", "a-b"] {
            assert!(text.parse::<PortRange>().is_err(), "{text}");
        }
        let ports = "30000-32767".parse().unwrap();
        let twice = vec![range("10.0.0.0/24"), range("10.1.0.0/24")];
        assert_eq!(ServiceNetwork::new(twice, ports), Err(NetworkError::Families));
        assert_eq!(ServiceNetwork::new(Vec::new(), ports), Err(NetworkError::Families));
        let both = ServiceNetwork::new(vec![range("fd00::/112"), range("10.0.0.0/24")], ports).unwrap();
        assert_eq!(both.families(), ["IPv6", "IPv4"]);
    }
}
