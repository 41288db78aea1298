//! Format `uri`: an absolute URI or a path, like Go's `url.ParseRequestURI`.

pub(super) fn is_request_uri(text: &str) -> bool {
    if text.is_empty() || text.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
        return false;
    }
    if text == "*" {
        return true;
    }
    let Some((scheme, rest)) = split_scheme(text) else { return false };
    let rest = rest.split('?').next().unwrap_or_default();
    if !rest.starts_with('/') {
        return !scheme.is_empty();
    }
    let (authority, path) = match rest.strip_prefix("//").filter(|_| !scheme.is_empty()) {
        Some(after) => after.split_at(after.find('/').unwrap_or(after.len())),
        None => ("", rest),
    };
    is_authority(scheme, authority) && is_escaped(path)
}

/// Splits off the scheme, which may be empty. `None` if a colon follows an empty scheme.
fn split_scheme(text: &str) -> Option<(&str, &str)> {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '+' | '-' | '.'));
    match end {
        Some(0) if text.starts_with(':') => None,
        Some(end) if text[end..].starts_with(':') && text.starts_with(|c: char| c.is_ascii_alphabetic()) => {
            Some((&text[..end], &text[end + 1..]))
        }
        _ => Some(("", text)),
    }
}

/// Returns true if every percent sign starts an escape sequence.
fn is_escaped(text: &str) -> bool {
    escapes(text).is_some()
}

/// Returns the escaped bytes.
fn escapes(text: &str) -> Option<Vec<u8>> {
    let mut parts = text.split('%');
    parts.next();
    let byte = |part: &str| {
        let digits = part.get(..2).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
        u8::from_str_radix(digits, 16).ok()
    };
    parts.map(byte).collect()
}

fn is_authority(scheme: &str, authority: &str) -> bool {
    let (user, host) =
        authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
    let is_user = |user: &str| {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte);
        user.bytes().all(is_allowed) && is_escaped(user)
    };
    is_host(scheme, host) && user.is_none_or(is_user)
}

fn is_host(scheme: &str, host: &str) -> bool {
    match host.rfind('[') {
        Some(0) => is_bracketed(host),
        Some(_) => false,
        None => {
            let is_web = matches!(&*scheme.to_lowercase(), "http" | "https");
            let colon = if is_web { host.find(':') } else { host.rfind(':') };
            colon.is_none_or(|colon| is_port(&host[colon..])) && is_host_text(host)
        }
    }
}

fn is_bracketed(host: &str) -> bool {
    let Some(close) = host.rfind(']') else { return false };
    let (address, port) = (&host[1..close], &host[close + 1..]);
    let (address, zone) =
        address.split_once("%25").map_or((address, None), |(address, zone)| (address, Some(zone)));
    let is_zone = |zone: &str| {
        let escaped = escapes(zone);
        let are_plain =
            |bytes: Vec<u8>| bytes.iter().all(|byte| *byte == b'%' || *byte == b' ' || is_host_byte(*byte));
        !zone.is_empty()
            && zone.bytes().all(|byte| byte == b'%' || is_host_byte(byte))
            && escaped.is_some_and(are_plain)
    };
    is_port(port) && address.parse::<std::net::Ipv6Addr>().is_ok() && zone.is_none_or(is_zone)
}

fn is_port(text: &str) -> bool {
    text.is_empty()
        || text.strip_prefix(':').is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()))
}

/// In a host, only non-ASCII bytes and the percent sign may be escaped.
fn is_host_text(host: &str) -> bool {
    let are_foreign = |bytes: Vec<u8>| bytes.iter().all(|byte| *byte >= 0x80 || *byte == b'%');
    host.bytes().all(|byte| byte == b'%' || is_host_byte(byte)) && escapes(host).is_some_and(are_foreign)
}

fn is_host_byte(byte: u8) -> bool {
    byte >= 0x80 || byte.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:[]<>\"".contains(&byte)
}
