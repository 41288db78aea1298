//! The `Impersonate-*` headers.

use std::fmt::Write as _;

use coracle_meta::field::quoted;
use coracle_registry::Identity;
use http::{HeaderMap, HeaderValue};
use percent_encoding::percent_decode_str;

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";

/// The common prefix of the headers.
const PREFIX: &str = "impersonate-";

/// Returns true if a request has an impersonation header.
pub(crate) fn is_asked_for(headers: &HeaderMap) -> bool {
    headers.keys().any(|name| name.as_str().starts_with(PREFIX))
}

/// Removes the impersonation headers from a request.
pub(super) fn strip(headers: &mut HeaderMap) {
    let names: Vec<_> = headers.keys().filter(|name| name.as_str().starts_with(PREFIX)).cloned().collect();
    for name in names {
        headers.remove(name);
    }
}

/// Parses the impersonated user. Returns an error if the headers are invalid.
pub(super) fn requested(headers: &HeaderMap) -> Result<Option<Identity>, String> {
    let first = |name| headers.get(name).map(text).unwrap_or_default();
    let mut requested = Identity {
        name: first(USER),
        uid: first(UID),
        groups: headers.get_all(GROUP).iter().map(text).collect(),
        ..Identity::default()
    };
    for (name, value) in headers {
        let Some(key) = name.as_str().strip_prefix(EXTRA) else { continue };
        requested.extra.entry(unescaped(key)).or_default().push(text(value));
    }
    if !requested.name.is_empty() {
        return Ok(Some(requested));
    }
    if requested == Identity::default() {
        return Ok(None);
    }
    Err(format!("requested {} without impersonating a user name", go_syntax(&requested)))
}

/// Header values that are not UTF-8 are not dropped, because the request would then run as the sender.
fn text(value: &HeaderValue) -> String {
    String::from_utf8_lossy(value.as_bytes()).into_owned()
}

/// Decodes percent escapes; returns the key unchanged if it cannot be decoded.
fn unescaped(key: &str) -> String {
    let decoded = percent_decode_str(key).decode_utf8();
    decoded.map_or_else(|_| key.to_owned(), std::borrow::Cow::into_owned)
}

/// Formats the user like Go's `%#v` of kube-apiserver's type.
fn go_syntax(identity: &Identity) -> String {
    let list = |texts: &[String]| {
        if texts.is_empty() {
            return "[]string(nil)".to_owned();
        }
        let texts: Vec<String> = texts.iter().map(|text| quoted(text).to_string()).collect();
        format!("[]string{{{}}}", texts.join(", "))
    };
    let mut extra = String::new();
    for (key, values) in &identity.extra {
        let separator = if extra.is_empty() { "" } else { ", " };
        write!(extra, "{separator}{}:{}", quoted(key), list(values)).expect("a String takes everything");
    }
    let extra = if extra.is_empty() { "(nil)".to_owned() } else { format!("{{{extra}}}") };
    format!(
        "&user.DefaultInfo{{Name:{}, UID:{}, Groups:{}, Extra:map[string][]string{extra}}}",
        quoted(&identity.name),
        quoted(&identity.uid),
        list(&identity.groups)
    )
}
