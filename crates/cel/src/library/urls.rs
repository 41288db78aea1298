//! URL library, which parses like Go's `url.ParseRequestURI`.

use crate::EvalError;
use crate::value::{Extension, Value};

use super::{Function, mismatch};

pub(super) const FUNCTIONS: &[Function] = &[
    Function { name: "url", overloads: &[("string_to_url", "(string) -> kubernetes.URL")], call: url },
    Function {
        name: "getScheme",
        overloads: &[("url_get_scheme", "kubernetes.URL.() -> string")],
        call: scheme,
    },
    Function { name: "getHost", overloads: &[("url_get_host", "kubernetes.URL.() -> string")], call: host },
    Function {
        name: "getHostname",
        overloads: &[("url_get_hostname", "kubernetes.URL.() -> string")],
        call: hostname,
    },
    Function { name: "getPort", overloads: &[("url_get_port", "kubernetes.URL.() -> string")], call: port },
    Function {
        name: "getEscapedPath",
        overloads: &[("url_get_escaped_path", "kubernetes.URL.() -> string")],
        call: escaped_path,
    },
    Function {
        name: "getQuery",
        overloads: &[("url_get_query", "kubernetes.URL.() -> map(string, list(string))")],
        call: query,
    },
    Function { name: "isURL", overloads: &[("is_url_string", "(string) -> bool")], call: is_url },
];

type Flow<'d> = Result<Value<'d>, EvalError>;

/// The parts of a URL.
#[derive(Clone, Debug)]
pub(crate) struct Url {
    /// The original text.
    pub(crate) text: Box<str>,
    scheme: Box<str>,
    host: Box<str>,
    path: Box<str>,
    query: Box<str>,
}

/// Parses an absolute URL or a path.
///
/// # Errors
/// Go's message for a malformed URL.
pub(super) fn parse_request_uri(text: &str) -> Result<Url, String> {
    parse(text).map_err(|problem| format!("parse {text:?}: {problem}"))
}

fn parse(text: &str) -> Result<Url, String> {
    if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return Err("net/url: invalid control character in URL".to_owned());
    }
    if text.is_empty() {
        return Err("empty url".to_owned());
    }
    let (scheme, rest) = split_scheme(text)?;
    let scheme = scheme.to_ascii_lowercase();
    // The fragment is not part of any accessor.
    let rest = rest.split_once('#').map_or(rest, |(rest, _)| rest);
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let url = |host: String, path: &str| Url {
        text: text.into(),
        scheme: scheme.clone().into(),
        host: host.into(),
        path: path.into(),
        query: query.into(),
    };
    if !rest.starts_with('/') {
        if scheme.is_empty() {
            return Err("invalid URI for request".to_owned());
        }
        return Ok(url(String::new(), ""));
    }
    let has_authority = rest.starts_with("//") && (!scheme.is_empty() || !rest.starts_with("///"));
    let (host, path) = match rest.strip_prefix("//").filter(|_| has_authority) {
        Some(rest) => {
            let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            (parse_authority(authority)?, path)
        }
        None => (String::new(), rest),
    };
    let unescaped = unescape(path, false)?;
    let valid = path.bytes().all(|byte| byte == b'%' || is_path_byte(byte) || b"[]!'()*".contains(&byte));
    let path = if valid { path.to_owned() } else { escape_path(&unescaped) };
    Ok(url(host, &path))
}

fn split_scheme(text: &str) -> Result<(&str, &str), String> {
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b':' if at == 0 => return Err("missing protocol scheme".to_owned()),
            b':' => return Ok((&text[..at], &text[at + 1..])),
            _ => break,
        }
    }
    Ok(("", text))
}

fn parse_authority(authority: &str) -> Result<String, String> {
    let host = match authority.rsplit_once('@') {
        None => authority,
        Some((user, host)) => {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte);
            if !user.bytes().all(plain) {
                return Err("net/url: invalid userinfo".to_owned());
            }
            unescape(user, false)?;
            host
        }
    };
    let port = if host.starts_with('[') {
        let end = host.rfind(']').ok_or("missing ']' in host")?;
        &host[end + 1..]
    } else {
        host.rfind(':').map_or("", |at| &host[at..])
    };
    let is_port =
        port.is_empty() || (port.starts_with(':') && port[1..].bytes().all(|byte| byte.is_ascii_digit()));
    if !is_port {
        return Err(format!("invalid port {port:?} after host"));
    }
    let allowed =
        |byte: u8| byte >= 0x80 || byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:[]<>\"%".contains(&byte);
    if let Some(found) =
        host.chars().find(|found| !found.is_ascii() || !allowed(*found as u8)).filter(char::is_ascii)
    {
        return Err(format!("invalid character {:?} in host name", found.to_string()));
    }
    let unescaped = unescape(host, false)?;
    String::from_utf8(unescaped).map_err(|_| format!("invalid URL escape {host:?}"))
}

/// Decodes percent-encoding to bytes.
fn unescape(text: &str, plus_is_space: bool) -> Result<Vec<u8>, String> {
    let bytes = text.as_bytes();
    let mut unescaped = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'%' => {
                let digits = text
                    .get(at + 1..at + 3)
                    .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
                let value = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
                let escape: String = text[at..].chars().take(3).collect();
                unescaped.push(value.ok_or_else(|| format!("invalid URL escape {escape:?}"))?);
                at += 3;
            }
            b'+' if plus_is_space => {
                unescaped.push(b' ');
                at += 1;
            }
            byte => {
                unescaped.push(byte);
                at += 1;
            }
        }
    }
    Ok(unescaped)
}

fn is_path_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@".contains(&byte)
}

fn escape_path(path: &[u8]) -> String {
    let mut escaped = String::with_capacity(path.len());
    for byte in path {
        if is_path_byte(*byte) {
            escaped.push(char::from(*byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}

fn url<'d>(args: &[Value<'d>]) -> Flow<'d> {
    let [Value::String(text)] = args else { return mismatch() };
    let parsed = parse_request_uri(text.as_str());
    let context = "URL parse error during conversion from string";
    let url = parsed.map_err(|error| EvalError::failed(format!("{context}: {error}")))?;
    Ok(Value::extension(Extension::Url(url)))
}

fn is_url<'d>(args: &[Value<'d>]) -> Flow<'d> {
    match args {
        [Value::String(text)] => Ok(Value::Bool(parse_request_uri(text.as_str()).is_ok())),
        _ => mismatch(),
    }
}

fn part<'d>(args: &[Value<'d>], take: fn(&Url) -> Value<'d>) -> Flow<'d> {
    match args {
        [Value::Extension(extension)] => match &*extension.0 {
            Extension::Url(url) => Ok(take(url)),
            _ => mismatch(),
        },
        _ => mismatch(),
    }
}

fn scheme<'d>(args: &[Value<'d>]) -> Flow<'d> {
    part(args, |url| Value::string(&*url.scheme))
}

fn host<'d>(args: &[Value<'d>]) -> Flow<'d> {
    part(args, |url| Value::string(&*url.host))
}

/// Splits a host into name, without brackets, and port.
fn split_host(host: &str) -> (&str, &str) {
    let colon = host.rfind(':').filter(|at| host[at + 1..].bytes().all(|byte| byte.is_ascii_digit()));
    let colon = colon.filter(|at| !host.starts_with('[') || host[..*at].ends_with(']'));
    let (name, port) = colon.map_or((host, ""), |at| (&host[..at], &host[at + 1..]));
    let name = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    (name, port)
}

fn hostname<'d>(args: &[Value<'d>]) -> Flow<'d> {
    part(args, |url| Value::string(split_host(&url.host).0))
}

fn port<'d>(args: &[Value<'d>]) -> Flow<'d> {
    part(args, |url| Value::string(split_host(&url.host).1))
}

fn escaped_path<'d>(args: &[Value<'d>]) -> Flow<'d> {
    part(args, |url| Value::string(&*url.path))
}

/// Returns all values of each key; skips malformed pairs.
fn query<'d>(args: &[Value<'d>]) -> Flow<'d> {
    part(args, |url| {
        let mut found: Vec<(String, Vec<Value<'d>>)> = Vec::new();
        for pair in url.query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let text = |part| unescape(part, true).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
            let (Ok(key), Ok(value)) = (text(key), text(value)) else { continue };
            match found.iter_mut().find(|(seen, _)| *seen == key) {
                Some((_, values)) => values.push(Value::string(value)),
                None => found.push((key, vec![Value::string(value)])),
            }
        }
        Value::map(found.into_iter().map(|(key, values)| (Value::string(key), Value::list(values))))
    })
}
