//! The address by which other machines reach this one.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// Addresses reserved for documentation (RFC 5737, RFC 3849): routed like any remote address, but assigned
/// to nobody.
const FAR_AWAY: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1))];

/// Any port but 0 works, since nothing is sent.
const DISCARD_PORT: u16 = 9;

/// The source address of packets to remote destinations; the loopback address if there is no route. Sends
/// nothing.
pub(crate) fn main_address() -> IpAddr {
    let found = FAR_AWAY.into_iter().find_map(source_towards);
    found.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
}

/// The address by which clients reach a listener at `address`: an unspecified address is replaced by
/// `advertised`.
pub(crate) fn reachable(address: SocketAddr, advertised: IpAddr) -> SocketAddr {
    if address.ip().is_unspecified() { SocketAddr::new(advertised, address.port()) } else { address }
}

/// Connecting a UDP socket only looks up the route.
fn source_towards(far_away: IpAddr) -> Option<IpAddr> {
    let any: IpAddr = match far_away {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect((far_away, DISCARD_PORT)).ok()?;
    let ip = socket.local_addr().ok()?.ip();
    (!ip.is_unspecified()).then_some(ip)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn main_address_is_local() {
        let address = main_address();
        assert!(!address.is_unspecified());
        UdpSocket::bind((address, 0)).unwrap();
    }

    #[test]
    fn only_unspecified_address_is_replaced() {
        let advertised = "192.0.2.1".parse().unwrap();
        let check = |address: &str, expected: &str| {
            let found = reachable(address.parse().unwrap(), advertised);
            assert_eq!(found, expected.parse().unwrap());
        };
        check("0.0.0.0:6443", "192.0.2.1:6443");
        check("[::]:6443", "192.0.2.1:6443");
        check("127.0.0.1:6443", "127.0.0.1:6443");
    }
}
