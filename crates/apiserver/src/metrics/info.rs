//! What a request is about, read from its path alone.

use http::{Method, Uri};

use crate::route;

/// What a request is about. Cheap to make: the path is shared and not copied.
#[derive(Clone, Debug)]
pub(crate) struct RequestInfo {
    method: Method,
    uri: Uri,
    watch: bool,
}

/// The labels of a request, borrowed from its path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Labels<'a> {
    pub(super) verb: &'static str,
    pub(super) group: &'a str,
    pub(super) version: &'a str,
    pub(super) resource: &'a str,
    pub(super) subresource: &'a str,
    pub(super) scope: &'static str,
    pub(super) dry_run: &'static str,
}

impl RequestInfo {
    pub(crate) fn of(method: &Method, uri: &Uri) -> Self {
        let query = uri.query().unwrap_or_default();
        let by_path = uri.path().split('/').skip(3).take(2).any(|segment| segment == "watch");
        let watch = *method == Method::GET
            && (by_path
                || query.split('&').any(|pair| {
                    pair == "watch"
                        || pair.strip_prefix("watch=").is_some_and(|value| !matches!(value, "0" | "false"))
                }));
        Self { method: method.clone(), uri: uri.clone(), watch }
    }

    /// Whether the request lasts as long as somebody listens.
    pub(super) fn is_watch(&self) -> bool {
        self.watch
    }

    pub(super) fn changes_something(&self) -> bool {
        !matches!(self.method, Method::GET | Method::HEAD | Method::OPTIONS)
    }

    /// How the fields of the body are validated, of requests that have a body. As in kube-apiserver, values that are not
    /// valid are all alike.
    pub(super) fn field_validation(&self) -> Option<&'static str> {
        if !matches!(self.method, Method::POST | Method::PUT | Method::PATCH) {
            return None;
        }
        let query = self.uri.query().unwrap_or_default();
        let mut values = query.split('&').filter_map(|pair| pair.strip_prefix("fieldValidation="));
        Some(match (values.next(), values.next()) {
            (None, _) => "",
            (Some("Ignore"), None) => "Ignore",
            (Some("Warn"), None) => "Warn",
            (Some("Strict"), None) => "Strict",
            _ => "invalid",
        })
    }

    /// The labels; those of the resource are empty for paths that lead to none.
    pub(super) fn labels(&self) -> Labels<'_> {
        let mut segments = self.uri.path().split('/').skip(1).peekable();
        if route::cluster_id(self.uri.path()).is_none() {
            return self.other();
        }
        if segments.next_if_eq(&"clusters").is_some() {
            segments.next();
        }
        let group = match segments.next() {
            Some("api") => "",
            Some("apis") => segments.next().unwrap_or_default(),
            _ => return self.other(),
        };
        let Some(version) = segments.next() else { return self.other() };
        segments.next_if_eq(&"watch");
        let mut rest: [&str; 5] = [""; 5];
        let mut count = 0;
        for (place, segment) in rest.iter_mut().zip(segments) {
            *place = segment;
            count += 1;
        }
        let rest = &rest[..count];
        let (namespaced, parts) = match rest {
            ["namespaces", _, part] if matches!(*part, "status" | "finalize") => (false, rest),
            ["namespaces", _, parts @ ..] if !parts.is_empty() => (true, parts),
            _ => (false, rest),
        };
        let (resource, name, subresource) = match parts {
            [] => return self.other(),
            [resource] => (*resource, "", ""),
            [resource, name] => (*resource, *name, ""),
            [resource, name, subresource, ..] => (*resource, *name, *subresource),
        };
        let verb = self.verb(!name.is_empty());
        let scope = match verb {
            _ if !name.is_empty() => "resource",
            "POST" => "resource",
            _ if namespaced => "namespace",
            _ => "cluster",
        };
        Labels { verb, group, version, resource, subresource, scope, dry_run: self.dry_run() }
    }

    fn other(&self) -> Labels<'_> {
        Labels { verb: self.verb(true), ..Labels::default() }
    }

    fn verb(&self, one: bool) -> &'static str {
        match self.method {
            Method::GET if self.watch => "WATCH",
            Method::GET if !one => "LIST",
            Method::GET => "GET",
            Method::POST => "POST",
            Method::PUT => "PUT",
            Method::PATCH => "PATCH",
            Method::DELETE if !one => "DELETECOLLECTION",
            Method::DELETE => "DELETE",
            _ => "other",
        }
    }

    fn dry_run(&self) -> &'static str {
        let query = self.uri.query().unwrap_or_default();
        if self.changes_something() && query.split('&').any(|pair| pair == "dryRun=All") { "All" } else { "" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_validation_is_that_of_the_query() {
        for (method, uri, expected) in [
            ("GET", "/api/v1/pods?fieldValidation=Strict", None),
            ("POST", "/api/v1/namespaces/a/pods", Some("")),
            ("POST", "/api/v1/namespaces/a/pods?dryRun=All&fieldValidation=Strict", Some("Strict")),
            ("PUT", "/api/v1/nodes/n?fieldValidation=x", Some("invalid")),
            ("PATCH", "/api/v1/nodes/n?fieldValidation=Warn&fieldValidation=Warn", Some("invalid")),
        ] {
            let info = RequestInfo::of(&method.parse().unwrap(), &uri.parse().unwrap());
            assert_eq!(info.field_validation(), expected, "{method} {uri}");
        }
    }

    #[test]
    fn a_path_says_what_a_request_is_about() {
        for (method, uri, expected) in [
            ("GET", "/api/v1/pods", "LIST//v1/pods//cluster/"),
            ("GET", "/api/v1/namespaces/a/pods?watch=true", "WATCH//v1/pods//namespace/"),
            ("GET", "/api/v1/watch/namespaces/a/pods", "WATCH//v1/pods//namespace/"),
            ("GET", "/api/v1/namespaces/a", "GET//v1/namespaces//resource/"),
            ("PUT", "/api/v1/namespaces/a/finalize", "PUT//v1/namespaces/finalize/resource/"),
            (
                "POST",
                "/apis/apps/v1/namespaces/a/deployments?dryRun=All",
                "POST/apps/v1/deployments//resource/All",
            ),
            (
                "PATCH",
                "/clusters/c/apis/apps/v1/namespaces/a/deployments/d/scale",
                "PATCH/apps/v1/deployments/scale/resource/",
            ),
            ("DELETE", "/api/v1/namespaces/a/pods", "DELETECOLLECTION//v1/pods//namespace/"),
            ("GET", "/version", "GET//////"),
            ("GET", "/clusters/%2A/api/v1/pods", "GET//////"),
            ("GET", "/clusters/%64efault/api/v1/pods", "GET//////"),
        ] {
            let info = RequestInfo::of(&method.parse().unwrap(), &uri.parse().unwrap());
            let labels = info.labels();
            let Labels { verb, group, version, resource, subresource, scope, dry_run } = labels;
            let shown = format!("{verb}/{group}/{version}/{resource}/{subresource}/{scope}/{dry_run}");
            assert_eq!(shown, expected, "{uri}");
        }
    }
}
