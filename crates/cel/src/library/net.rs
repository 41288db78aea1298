//! IP and CIDR libraries.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::EvalError;
use crate::value::{Extension, Value};

use super::{Function, mismatch};

pub(super) const FUNCTIONS: &[Function] = &[
    Function { name: "ip", overloads: &[("string_to_ip", "(string) -> net.IP")], call: ip },
    Function { name: "ip", overloads: &[("cidr_ip", "net.CIDR.() -> net.IP")], call: cidr_ip },
    Function { name: "family", overloads: &[("ip_family", "net.IP.() -> int")], call: family },
    Function {
        name: "ip.isCanonical",
        overloads: &[("ip_is_canonical", "(string) -> bool")],
        call: is_canonical,
    },
    Function {
        name: "isUnspecified",
        overloads: &[("ip_is_unspecified", "net.IP.() -> bool")],
        call: is_unspecified,
    },
    Function { name: "isLoopback", overloads: &[("ip_is_loopback", "net.IP.() -> bool")], call: is_loopback },
    Function {
        name: "isLinkLocalMulticast",
        overloads: &[("ip_is_link_local_multicast", "net.IP.() -> bool")],
        call: is_link_local_multicast,
    },
    Function {
        name: "isLinkLocalUnicast",
        overloads: &[("ip_is_link_local_unicast", "net.IP.() -> bool")],
        call: is_link_local_unicast,
    },
    Function {
        name: "isGlobalUnicast",
        overloads: &[("ip_is_global_unicast", "net.IP.() -> bool")],
        call: is_global_unicast,
    },
    Function { name: "isIP", overloads: &[("is_ip", "(string) -> bool")], call: is_ip },
    Function { name: "string", overloads: &[("ip_to_string", "(net.IP) -> string")], call: to_string },
    Function { name: "string", overloads: &[("cidr_to_string", "(net.CIDR) -> string")], call: to_string },
    Function { name: "cidr", overloads: &[("string_to_cidr", "(string) -> net.CIDR")], call: cidr },
    Function {
        name: "containsIP",
        overloads: &[
            ("cidr_contains_ip_string", "net.CIDR.(string) -> bool"),
            ("cidr_contains_ip_ip", "net.CIDR.(net.IP) -> bool"),
        ],
        call: contains_ip,
    },
    Function {
        name: "containsCIDR",
        overloads: &[
            ("cidr_contains_cidr_string", "net.CIDR.(string) -> bool"),
            ("cidr_contains_cidr", "net.CIDR.(net.CIDR) -> bool"),
        ],
        call: contains_cidr,
    },
    Function {
        name: "prefixLength",
        overloads: &[("cidr_prefix_length", "net.CIDR.() -> int")],
        call: prefix_length,
    },
    Function { name: "masked", overloads: &[("cidr_masked", "net.CIDR.() -> net.CIDR")], call: masked },
    Function { name: "isCIDR", overloads: &[("is_cidr", "(string) -> bool")], call: is_cidr },
];

type Flow<'d> = Result<Value<'d>, EvalError>;

/// An address with its prefix length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cidr {
    pub(crate) address: IpAddr,
    pub(crate) bits: u8,
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

impl Cidr {
    fn masked(self) -> Self {
        let address = match self.address {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from_bits(address.to_bits() & mask))
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.bits)).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & mask))
            }
        };
        Self { address, ..self }
    }

    fn contains(self, address: IpAddr) -> bool {
        self.address.is_ipv4() == address.is_ipv4()
            && self.masked().address == Self { address, bits: self.bits }.masked().address
    }
}

/// Parses an address, with Go's error messages.
fn parse_address(text: &str) -> Result<IpAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let problem = match text.find(['.', ':', '%']).map(|at| text.as_bytes()[at]) {
        Some(b'.') => ipv4_problem(text),
        Some(b':') => ipv6_problem(text),
        Some(_) => "missing IPv6 address".to_owned(),
        None => "unable to parse IP".to_owned(),
    };
    Err(format!("ParseAddr({text:?}): {problem}"))
}

fn ipv4_problem(text: &str) -> String {
    let mut fields = 0;
    let mut rest = text;
    loop {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (field, after) = rest.split_at(digits);
        if after.starts_with(|next| next != '.') {
            return format!("unexpected character (at {after:?})");
        }
        if field.is_empty() {
            return format!("IPv4 field must have at least one digit (at {rest:?})");
        }
        if field.len() > 1 && field.starts_with('0') {
            return "IPv4 field has octet with leading zero".to_owned();
        }
        if field.parse::<u8>().is_err() {
            return "IPv4 field has value >255".to_owned();
        }
        fields += 1;
        if after.is_empty() {
            return "IPv4 address too short".to_owned();
        }
        if fields == 4 {
            return "IPv4 address too long".to_owned();
        }
        rest = &after[1..];
    }
}

fn ipv6_problem(text: &str) -> String {
    let mut groups = 0;
    let mut ellipsis = text.starts_with("::");
    let mut rest = if ellipsis { &text[2..] } else { text };
    while groups < 8 && !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_hexdigit).count();
        if digits > 4 {
            return format!("each group must have 4 or less digits (at {rest:?})");
        }
        if digits == 0 {
            return format!("each colon-separated field must have at least one digit (at {rest:?})");
        }
        groups += 1;
        rest = &rest[digits..];
        if rest.is_empty() {
            break;
        }
        if !rest.starts_with(':') {
            return format!("unexpected character, want colon (at {rest:?})");
        }
        if rest.len() == 1 {
            return format!("colon must be followed by more characters (at {rest:?})");
        }
        rest = &rest[1..];
        if rest.starts_with(':') {
            if ellipsis {
                return format!("multiple :: in address (at {rest:?})");
            }
            ellipsis = true;
            rest = &rest[1..];
        }
    }
    if rest.is_empty() {
        "address string too short".to_owned()
    } else {
        format!("trailing garbage after address (at {rest:?})")
    }
}

/// Parses an address as allowed in expressions: without zone, and not IPv4-mapped.
fn address(text: &str) -> Result<IpAddr, EvalError> {
    if let Some((before, zone)) = text.split_once('%')
        && before.parse::<Ipv6Addr>().is_ok()
        && !zone.is_empty()
    {
        return Err(EvalError::failed(format!("IP address {text:?} with zone value is not allowed")));
    }
    let parsed = parse_address(text).map_err(|error| {
        EvalError::failed(format!("IP Address {text:?} parse error during conversion from string: {error}"))
    })?;
    if is_mapped(parsed) {
        return Err(EvalError::failed(format!("IPv4-mapped IPv6 address {text:?} is not allowed")));
    }
    Ok(parsed)
}

fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some())
}

fn network(text: &str) -> Result<Cidr, EvalError> {
    let context = "network address parse error during conversion from string";
    let error =
        |why: String| EvalError::failed(format!("{context}: {context}: netip.ParsePrefix({text:?}): {why}"));
    let (address, bits) = text.rsplit_once('/').ok_or_else(|| error("no '/'".to_owned()))?;
    let address = parse_address(address).map_err(error)?;
    let plain = bits.bytes().all(|byte| byte.is_ascii_digit()) && (bits == "0" || !bits.starts_with('0'));
    let bits = Some(bits)
        .filter(|bits| plain && !bits.is_empty())
        .ok_or_else(|| error(format!("bad bits after slash: {bits:?}")))?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.parse::<u8>().ok().filter(|bits| *bits <= most);
    let bits = bits.ok_or_else(|| error("prefix length out of range".to_owned()))?;
    if is_mapped(address) {
        return Err(EvalError::failed(format!(
            "{context}: IPv4-mapped IPv6 address {text:?} is not allowed"
        )));
    }
    Ok(Cidr { address, bits })
}

fn as_address(value: &Value<'_>) -> Option<IpAddr> {
    match value {
        Value::Extension(extension) => match &*extension.0 {
            Extension::Ip(address) => Some(*address),
            _ => None,
        },
        _ => None,
    }
}

fn as_network(value: &Value<'_>) -> Option<Cidr> {
    match value {
        Value::Extension(extension) => match &*extension.0 {
            Extension::Cidr(cidr) => Some(*cidr),
            _ => None,
        },
        _ => None,
    }
}

fn ip<'d>(args: &[Value<'d>]) -> Flow<'d> {
    match args {
        [Value::String(text)] => Ok(Value::extension(Extension::Ip(address(text.as_str())?))),
        _ => mismatch(),
    }
}

fn is_ip<'d>(args: &[Value<'d>]) -> Flow<'d> {
    match args {
        [Value::String(text)] => Ok(Value::Bool(address(text.as_str()).is_ok())),
        _ => mismatch(),
    }
}

fn is_canonical<'d>(args: &[Value<'d>]) -> Flow<'d> {
    match args {
        [Value::String(text)] => Ok(Value::Bool(address(text.as_str())?.to_string() == text.as_str())),
        _ => mismatch(),
    }
}

fn of_address<'d>(args: &[Value<'d>], read: fn(IpAddr) -> Value<'d>) -> Flow<'d> {
    args.first().and_then(as_address).map_or_else(mismatch, |address| Ok(read(address)))
}

fn family<'d>(args: &[Value<'d>]) -> Flow<'d> {
    of_address(args, |address| Value::Int(if address.is_ipv4() { 4 } else { 6 }))
}

fn is_unspecified<'d>(args: &[Value<'d>]) -> Flow<'d> {
    of_address(args, |address| Value::Bool(address.is_unspecified()))
}

fn is_loopback<'d>(args: &[Value<'d>]) -> Flow<'d> {
    of_address(args, |address| Value::Bool(address.is_loopback()))
}

fn is_link_local_multicast<'d>(args: &[Value<'d>]) -> Flow<'d> {
    of_address(args, |address| {
        Value::Bool(match address {
            IpAddr::V4(address) => address.octets()[..3] == [224, 0, 0],
            IpAddr::V6(address) => address.segments()[0] & 0xff0f == 0xff02,
        })
    })
}

fn link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

fn is_link_local_unicast<'d>(args: &[Value<'d>]) -> Flow<'d> {
    of_address(args, |address| Value::Bool(link_local(address)))
}

fn is_global_unicast<'d>(args: &[Value<'d>]) -> Flow<'d> {
    of_address(args, |address| {
        let special = address.is_unspecified()
            || address.is_loopback()
            || address.is_multicast()
            || link_local(address)
            || address == IpAddr::V4(Ipv4Addr::BROADCAST);
        Value::Bool(!special)
    })
}

fn to_string<'d>(args: &[Value<'d>]) -> Flow<'d> {
    let [value] = args else { return mismatch() };
    let text = as_address(value).map(|address| address.to_string());
    let text = text.or_else(|| as_network(value).map(|cidr| cidr.to_string()));
    text.map_or_else(mismatch, |text| Ok(Value::string(text)))
}

fn cidr<'d>(args: &[Value<'d>]) -> Flow<'d> {
    match args {
        [Value::String(text)] => Ok(Value::extension(Extension::Cidr(network(text.as_str())?))),
        _ => mismatch(),
    }
}

fn is_cidr<'d>(args: &[Value<'d>]) -> Flow<'d> {
    match args {
        [Value::String(text)] => Ok(Value::Bool(network(text.as_str()).is_ok())),
        _ => mismatch(),
    }
}

fn cidr_ip<'d>(args: &[Value<'d>]) -> Flow<'d> {
    let found = args.first().and_then(as_network);
    found.map_or_else(mismatch, |cidr| Ok(Value::extension(Extension::Ip(cidr.address))))
}

fn prefix_length<'d>(args: &[Value<'d>]) -> Flow<'d> {
    let found = args.first().and_then(as_network);
    found.map_or_else(mismatch, |cidr| Ok(Value::Int(cidr.bits.into())))
}

fn masked<'d>(args: &[Value<'d>]) -> Flow<'d> {
    let found = args.first().and_then(as_network);
    found.map_or_else(mismatch, |cidr| Ok(Value::extension(Extension::Cidr(cidr.masked()))))
}

fn contains_ip<'d>(args: &[Value<'d>]) -> Flow<'d> {
    let [receiver, other] = args else { return mismatch() };
    let operand = match other {
        Value::String(text) => Some(address(text.as_str())?),
        other => as_address(other),
    };
    match (as_network(receiver), operand) {
        (Some(cidr), Some(address)) => Ok(Value::Bool(cidr.contains(address))),
        _ => mismatch(),
    }
}

fn contains_cidr<'d>(args: &[Value<'d>]) -> Flow<'d> {
    let [receiver, other] = args else { return mismatch() };
    let operand = match other {
        Value::String(text) => Some(network(text.as_str())?),
        other => as_network(other),
    };
    match (as_network(receiver), operand) {
        (Some(cidr), Some(other)) => Ok(Value::Bool(cidr.bits <= other.bits && cidr.contains(other.address))),
        _ => mismatch(),
    }
}
