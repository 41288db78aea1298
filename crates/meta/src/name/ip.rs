//! Validation of IP addresses and CIDR blocks.
//!
//! Newer fields of the API accept the canonical form only. Older fields accept any unambiguous
//! form, and an update may keep a value that was valid when it was stored: the "sloppy" parsers
//! here accept what the first releases of Kubernetes accepted.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::field::{ErrorList, FieldError, Path, quoted};

/// Validates an address in a field that requires the canonical form.
pub fn ip(path: &Path<'_>, value: &str) -> ErrorList {
    let (parsed, mut errors) = checked_ip(path, value, true);
    if let Some(parsed) = parsed
        && errors.is_empty()
        && parsed.to_string() != value
    {
        errors.push(not_canonical(path, value, &parsed.to_string()));
    }
    errors
}

/// Validates an address in a field that is older than the strict rules. `strict` rejects ambiguous
/// forms; pass true for new values.
pub fn ip_in_old_field(path: &Path<'_>, value: &str, strict: bool) -> ErrorList {
    checked_ip(path, value, strict).1
}

/// Validates a CIDR block in a field that requires the canonical form.
pub fn cidr(path: &Path<'_>, value: &str) -> ErrorList {
    let (parsed, mut errors) = checked_cidr(path, value, true);
    if let Some(parsed) = parsed
        && errors.is_empty()
        && parsed.network() != value
    {
        errors.push(not_canonical(path, value, &parsed.network()));
    }
    errors
}

/// Validates a CIDR block in a field that is older than the strict rules; see [`ip_in_old_field`].
pub fn cidr_in_old_field(path: &Path<'_>, value: &str, strict: bool) -> ErrorList {
    checked_cidr(path, value, strict).1
}

/// Validates an interface address with prefix length, such as `192.168.1.5/24`.
pub fn interface_address(path: &Path<'_>, value: &str) -> ErrorList {
    let Some(parsed) = parse_cidr_sloppy(value) else {
        let message = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)";
        return FieldError::invalid(path, value, message).into();
    };
    let mapped = parsed.bits == 128 && parsed.address.is_ipv4() && parsed.prefix > 32;
    // Negative for a prefix that no IPv4-mapped address can have, as kube-apiserver prints it.
    let prefix = i16::from(parsed.prefix) - if mapped { 96 } else { 0 };
    let canonical = format!("{}/{prefix}", parsed.address);
    if canonical == value { ErrorList::new() } else { not_canonical(path, value, &canonical).into() }
}

/// Returns API warnings for an address in an older field that is valid but not canonical.
pub fn ip_warnings(path: &Path<'_>, value: &str) -> Vec<String> {
    let Some(parsed) = parse_ip_sloppy(value) else { return Vec::new() };
    match value.parse::<IpAddr>() {
        Ok(strict) if !is_mapped(strict) => {
            if strict.is_ipv6() && strict.to_string() != value {
                let canonical = strict.to_string();
                return vec![format!(
                    "{path}: IPv6 address {} should be in RFC 5952 canonical format ({})",
                    quoted(value),
                    quoted(&canonical)
                )];
            }
            Vec::new()
        }
        _ => vec![format!(
            "{path}: non-standard IP address {} is invalid: use {}",
            quoted(value),
            quoted(&parsed.to_string())
        )],
    }
}

/// Returns API warnings for a CIDR block in an older field that is valid but not canonical.
pub fn cidr_warnings(path: &Path<'_>, value: &str) -> Vec<String> {
    let Some(parsed) = parse_cidr_sloppy(value) else { return Vec::new() };
    let (quoted_value, network) = (quoted(value), parsed.network());
    let mut warnings = Vec::new();
    if parsed.first() != parsed.address {
        let single = format!("{}/{}", parsed.address, parsed.bits);
        let choice = format!("{} or {}", quoted(&network), quoted(&single));
        warnings.push(format!(
            "{path}: CIDR value {quoted_value} is ambiguous in this context (should be {choice}?)"
        ));
    }
    match parse_prefix_strict(value) {
        Some(strict) if !is_mapped(strict.0) => {
            let canonical = format!("{}/{}", strict.0, strict.1);
            if warnings.is_empty() && strict.0.is_ipv6() && canonical != value {
                let canonical = quoted(&canonical);
                warnings.push(format!(
                    "{path}: IPv6 CIDR value {quoted_value} should be in RFC 5952 canonical format ({canonical})"
                ));
            }
        }
        _ => {
            let network = quoted(&network);
            warnings
                .push(format!("{path}: non-standard CIDR value {quoted_value} is invalid: use {network}"));
        }
    }
    warnings
}

/// A parsed CIDR value: an address and its prefix length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    /// The address; an IPv4-mapped IPv6 address is converted to IPv4.
    pub address: IpAddr,
    /// The prefix length, out of [`Cidr::bits`].
    pub prefix: u8,
    /// The length of the address as written: 32 or 128.
    pub bits: u8,
}

impl Cidr {
    /// Returns the first address of the block.
    pub fn first(&self) -> IpAddr {
        match self.address {
            IpAddr::V4(address) if self.bits == 32 => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.prefix)).unwrap_or(0);
                Ipv4Addr::from_bits(address.to_bits() & mask).into()
            }
            IpAddr::V4(address) => masked(address.to_ipv6_mapped(), self.prefix),
            IpAddr::V6(address) => masked(address, self.prefix),
        }
    }

    /// Formats the block in canonical form, as Go does.
    fn network(&self) -> String {
        let first = self.first();
        // The prefix of an IPv4-mapped address is counted in IPv6.
        let prefix = if self.bits == 128 && first.is_ipv4() { self.prefix - 96 } else { self.prefix };
        format!("{first}/{prefix}")
    }
}

/// Clears the bits beyond the prefix; the result may not be IPv4-mapped any more.
fn masked(address: Ipv6Addr, prefix: u8) -> IpAddr {
    let mask = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
    IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & mask)).to_canonical()
}

/// Parses an address, ignoring leading zeros. Converts an IPv4-mapped IPv6 address to IPv4.
pub fn parse_ip_sloppy(value: &str) -> Option<IpAddr> {
    match value.bytes().find(|byte| matches!(byte, b'.' | b':'))? {
        b'.' => parse_v4_sloppy(value).map(IpAddr::V4),
        _ => parse_v6_sloppy(value).map(|address| IpAddr::V6(address).to_canonical()),
    }
}

/// Parses an address with prefix length, ignoring leading zeros.
pub fn parse_cidr_sloppy(value: &str) -> Option<Cidr> {
    let (address, prefix) = value.split_once('/')?;
    let (address, bits) = match parse_v4_sloppy(address) {
        Some(address) => (IpAddr::V4(address), 32),
        None => (IpAddr::V6(parse_v6_sloppy(address)?).to_canonical(), 128),
    };
    let prefix = number(prefix, 10, bits.into())?;
    Some(Cidr { address, prefix: u8::try_from(prefix).ok()?, bits })
}

fn checked_ip(path: &Path<'_>, value: &str, strict: bool) -> (Option<IpAddr>, ErrorList) {
    let Some(parsed) = parse_ip_sloppy(value) else {
        let message = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
        return (None, FieldError::invalid(path, value, message).into());
    };
    let message = match value.parse::<IpAddr>() {
        _ if !strict => None,
        Err(_) => Some("must not have leading 0s"),
        Ok(address) if is_mapped(address) => Some("must not be an IPv4-mapped IPv6 address"),
        Ok(_) => None,
    };
    (Some(parsed), message.map(|message| FieldError::invalid(path, value, message)).into_iter().collect())
}

fn checked_cidr(path: &Path<'_>, value: &str, strict: bool) -> (Option<Cidr>, ErrorList) {
    let Some(parsed) = parse_cidr_sloppy(value) else {
        let message = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
        return (None, FieldError::invalid(path, value, message).into());
    };
    let message = match parse_prefix_strict(value) {
        _ if !strict => None,
        None => Some("must not have leading 0s in IP or prefix length"),
        Some((address, _)) if is_mapped(address) => Some("must not have an IPv4-mapped IPv6 address"),
        Some(_) if parsed.first() != parsed.address => {
            Some("must not have bits set beyond the prefix length")
        }
        Some(_) => None,
    };
    (Some(parsed), message.map(|message| FieldError::invalid(path, value, message)).into_iter().collect())
}

fn not_canonical(path: &Path<'_>, value: &str, canonical: &str) -> FieldError {
    FieldError::invalid(path, value, format!("must be in canonical form ({})", quoted(canonical)))
}

fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some())
}

fn parse_prefix_strict(value: &str) -> Option<(IpAddr, u8)> {
    let (address, prefix) = value.rsplit_once('/')?;
    let address: IpAddr = address.parse().ok()?;
    if prefix.starts_with('+') || (prefix.len() > 1 && prefix.starts_with('0')) {
        return None;
    }
    Some((address, prefix.parse().ok()?))
}

fn parse_v4_sloppy(value: &str) -> Option<Ipv4Addr> {
    let mut octets = [0; 4];
    let mut parts = value.split('.');
    for octet in &mut octets {
        *octet = u8::try_from(number(parts.next()?, 10, 255)?).ok()?;
    }
    parts.next().is_none().then(|| octets.into())
}

fn parse_v6_sloppy(value: &str) -> Option<Ipv6Addr> {
    let Some((head, tail)) = value.split_once("::") else {
        let (groups, count) = groups(value)?;
        return (count == 8).then(|| groups.into());
    };
    let (mut all, before) = groups(head)?;
    let (end, after) = groups(tail)?;
    // The gap stands for at least one group. A dotted quad is allowed at the end only.
    if before + after > 7 || head.contains('.') {
        return None;
    }
    all[8 - after..].copy_from_slice(&end[..after]);
    Some(all.into())
}

/// Parses the groups of one side of an IPv6 address, the last of which may be a dotted quad.
fn groups(value: &str) -> Option<([u16; 8], usize)> {
    let mut groups = [0; 8];
    let mut count = 0;
    if value.is_empty() {
        return Some((groups, 0));
    }
    let mut parts = value.split(':').peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() && part.contains('.') {
            let [a, b, c, d] = parse_v4_sloppy(part)?.octets();
            *groups.get_mut(count)? = u16::from_be_bytes([a, b]);
            *groups.get_mut(count + 1)? = u16::from_be_bytes([c, d]);
            return Some((groups, count + 2));
        }
        *groups.get_mut(count)? = u16::try_from(number(part, 16, 0xffff)?).ok()?;
        count += 1;
    }
    Some((groups, count))
}

/// Parses a number that consists of digits only; `from_str_radix` would also accept a sign.
fn number(digits: &str, radix: u32, max: u32) -> Option<u32> {
    if digits.is_empty() || !digits.chars().all(|c| c.is_digit(radix)) {
        return None;
    }
    let number = u32::from_str_radix(digits.trim_start_matches('0'), radix);
    let number = if digits.trim_start_matches('0').is_empty() { 0 } else { number.ok()? };
    (number <= max).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rule: fn(&Path<'_>, &str) -> ErrorList, value: &str, expected: &str) {
        let message = rule(&Path::root("f"), value).iter().map(|error| error.detail.clone()).next();
        assert_eq!(message.unwrap_or_default(), expected, "{value:?}");
    }

    #[test]
    fn non_canonical_value_in_new_field_is_rejected() {
        for (value, expected) in [
            ("10.9.8.7", ""),
            ("2001:db8::ffff", ""),
            ("010.9.8.7", "must not have leading 0s"),
            ("::ffff:1.2.3.4", "must not be an IPv4-mapped IPv6 address"),
            ("FE80::1", "must be in canonical form (\"fe80::1\")"),
            ("fe80::1%eth0", "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
            ("1.2.3", "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
        ] {
            check(ip, value, expected);
        }
        for (value, expected) in [
            ("10.9.8.0/24", ""),
            ("2001:db8::/64", ""),
            ("0.0.0.0/0", ""),
            ("10.9.8.7/24", "must not have bits set beyond the prefix length"),
            ("10.9.8.0/024", "must not have leading 0s in IP or prefix length"),
            ("::ffff:1.2.3.0/120", "must not have an IPv4-mapped IPv6 address"),
            ("2001:DB8::/64", "must be in canonical form (\"2001:db8::/64\")"),
            ("10.9.8.0/33", "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"),
        ] {
            check(cidr, value, expected);
        }
        check(interface_address, "192.168.1.5/24", "");
        check(interface_address, "::ffff:192.168.0.1/120", "must be in canonical form (\"192.168.0.1/24\")");
    }

    #[test]
    fn non_canonical_value_in_old_field_is_accepted_with_warning() {
        let path = Path::root("f");
        assert!(ip_in_old_field(&path, "010.9.8.7", false).is_empty());
        assert!(!ip_in_old_field(&path, "010.9.8.7", true).is_empty());
        assert!(ip_in_old_field(&path, "FE80::1", true).is_empty());
        assert_eq!(
            ip_warnings(&path, "010.9.8.7"),
            ["f: non-standard IP address \"010.9.8.7\" is invalid: use \"10.9.8.7\""]
        );
        assert_eq!(
            cidr_warnings(&path, "10.9.8.7/24"),
            [
                "f: CIDR value \"10.9.8.7/24\" is ambiguous in this context (should be \"10.9.8.0/24\" or \"10.9.8.7/32\"?)"
            ]
        );
    }
}
