//! Client configuration of webhooks: a URL, or a Service in the cluster.

use coracle_meta::field::{ErrorList, FieldError, Path};
use coracle_meta::name;
use serde_json::Value;

use crate::view;

/// Default port of a Service reference.
const DEFAULT_PORT: i64 = 443;

/// Sets the default port of a Service reference.
pub(crate) fn set_defaults(config: &mut Value) {
    if let Some(service) = config.get_mut("service") {
        view::set_default(service, "port", || DEFAULT_PORT.into());
    }
}

/// Requires exactly one of URL and Service, and validates it.
pub(crate) fn check(config: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    match (config.get("url").and_then(Value::as_str), config.get("service")) {
        (Some(url), None) => check_url(url, &path.child("url"), errors),
        (None, Some(service)) => check_service(service, &path.child("service"), errors),
        _ => errors.push(FieldError::required(path, "exactly one of url or service is required")),
    }
}

fn check_url(url: &str, path: &Path<'_>, errors: &mut ErrorList) {
    const FORM: &str = "; desired format: https://host[/path]";
    let parts = UrlParts::of(url);
    let mut invalid = |found: &str, detail: String| errors.push(FieldError::invalid(path, found, detail));
    if parts.scheme != "https" {
        invalid(&parts.scheme, format!("'https' is the only allowed URL scheme{FORM}"));
    }
    if parts.host.is_empty() {
        invalid("", format!("host must be specified{FORM}"));
    }
    if let Some(user) = parts.user {
        invalid(user, "user information is not permitted in the URL".to_owned());
    }
    if !parts.fragment.is_empty() {
        invalid(parts.fragment, "fragments are not permitted in the URL".to_owned());
    }
    if !parts.query.is_empty() {
        invalid(parts.query, "query parameters are not permitted in the URL".to_owned());
    }
}

/// The parts of a URL that are validated.
struct UrlParts<'a> {
    scheme: String,
    user: Option<&'a str>,
    host: &'a str,
    query: &'a str,
    fragment: &'a str,
}

impl<'a> UrlParts<'a> {
    fn of(url: &'a str) -> Self {
        let (url, fragment) = url.split_once('#').unwrap_or((url, ""));
        let (url, query) = url.split_once('?').unwrap_or((url, ""));
        let is_scheme = |text: &str| {
            text.starts_with(|first: char| first.is_ascii_alphabetic())
                && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
        };
        let (scheme, rest) = url.split_once(':').filter(|(scheme, _)| is_scheme(scheme)).unwrap_or(("", url));
        let authority = rest.strip_prefix("//").map_or("", |rest| rest.split('/').next().unwrap_or_default());
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        Self { scheme: scheme.to_lowercase(), user, host, query, fragment }
    }
}

fn check_service(service: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    // kube-apiserver confuses name and namespace, so that each is reported when the other is missing; the errors are
    // the same here.
    for (named, missing) in [("name", "namespace"), ("namespace", "name")] {
        if view::text(service, &[missing]).is_empty() {
            errors.push(FieldError::required(&path.child(named), ""));
        }
    }
    let port = view::integer(service, &["port"]).unwrap_or(0);
    let messages = name::port_number(port);
    if !messages.is_empty() {
        let detail = format!("port is not valid: {}", messages.join(", "));
        errors.push(FieldError::invalid(&path.child("port"), port, detail));
    }
    check_service_path(view::text(service, &["path"]), &path.child("path"), errors);
}

fn check_service_path(url_path: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let mut invalid = |detail: String| errors.push(FieldError::invalid(path, url_path, detail));
    match url_path {
        "" | "/" => return,
        "//" => return invalid("segment[0] may not be empty".to_owned()),
        _ => {}
    }
    if !url_path.starts_with('/') {
        invalid("must start with a '/'".to_owned());
    }
    // kube-apiserver skips the first character even if it is no slash.
    let mut characters = url_path.chars();
    characters.next();
    let steps = characters.as_str();
    for (index, step) in steps.strip_suffix('/').unwrap_or(steps).split('/').enumerate() {
        if step.is_empty() {
            invalid(format!("segment[{index}] may not be empty"));
            continue;
        }
        for message in name::dns1123_subdomain(step) {
            invalid(format!("segment[{index}]: {message}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn messages(config: Value) -> Vec<String> {
        let mut errors = ErrorList::default();
        check(&config, &Path::root("c"), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn url_must_be_https_without_query_or_fragment() {
        assert!(messages(json!({"url": "https://example.com:8443/a/b"})).is_empty());
        assert_eq!(messages(json!({"url": "https://user@example.com/a?b#c"})).len(), 3);
        assert_eq!(messages(json!({"url": "http://"})).len(), 2);
        assert_eq!(messages(json!({})), ["c: Required value: exactly one of url or service is required"]);
    }

    #[test]
    fn service_needs_name_port_and_path() {
        let service = json!({"name": "a", "namespace": "b", "port": 443, "path": "/x/y/"});
        assert!(messages(json!({"service": service})).is_empty());
        let broken = json!({"name": "", "namespace": "b", "port": 0, "path": "x/y"});
        let expected = [
            "c.service.namespace: Required value",
            "c.service.port: Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive",
            "c.service.path: Invalid value: \"x/y\": must start with a '/'",
            "c.service.path: Invalid value: \"x/y\": segment[0] may not be empty",
        ];
        assert_eq!(messages(json!({"service": broken})), expected);
    }
}
