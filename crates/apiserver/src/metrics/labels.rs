//! The labels of a request in metrics.

use http::Method;

use crate::request_info::RequestInfo;

/// The labels of a request, borrowed from its attributes.
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

impl<'a> Labels<'a> {
    /// The labels of a request; those of the resource are empty for other paths.
    pub(super) fn of(info: &'a RequestInfo) -> Self {
        let path = info.resource().filter(|path| !path.resource.is_empty() && info.cluster().id().is_some());
        let Some(path) = path else {
            return Self { verb: verb(info, true), ..Self::default() };
        };
        let is_named = !path.name.is_empty();
        let verb = verb(info, is_named);
        let scope = match verb {
            _ if is_named => "resource",
            "POST" => "resource",
            _ if path.namespace.is_empty() => "cluster",
            _ => "namespace",
        };
        Self {
            verb,
            group: &path.group,
            version: &path.version,
            resource: &path.resource,
            subresource: &path.subresource,
            scope,
            dry_run: dry_run(info),
        }
    }

    /// The labels without the resource: paths that are not served share them, so that a client cannot create series.
    pub(super) fn without_resource(self) -> Self {
        Self { verb: self.verb, ..Self::default() }
    }
}

fn verb(info: &RequestInfo, is_named: bool) -> &'static str {
    match *info.method() {
        Method::GET if info.is_watch() => "WATCH",
        Method::GET if !is_named => "LIST",
        Method::GET => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE if !is_named => "DELETECOLLECTION",
        Method::DELETE => "DELETE",
        _ => "other",
    }
}

fn dry_run(info: &RequestInfo) -> &'static str {
    if !info.is_read_only() && info.query().has("dryRun", "All") { "All" } else { "" }
}

/// The mode of field validation of a request with a body. As in kube-apiserver, invalid values share one label.
pub(super) fn field_validation(info: &RequestInfo) -> Option<&'static str> {
    if !matches!(*info.method(), Method::POST | Method::PUT | Method::PATCH) {
        return None;
    }
    let mut values = info.query().values("fieldValidation");
    Some(match (values.next(), values.next()) {
        (None, _) => "",
        (Some("Ignore"), None) => "Ignore",
        (Some("Warn"), None) => "Warn",
        (Some("Strict"), None) => "Strict",
        _ => "invalid",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(method: &str, uri: &str) -> RequestInfo {
        RequestInfo::new(&method.parse().unwrap(), &uri.parse().unwrap())
    }

    #[test]
    fn field_validation_is_that_of_the_query() {
        for (method, uri, expected) in [
            ("GET", "/api/v1/pods?fieldValidation=Strict", None),
            ("POST", "/api/v1/namespaces/a/pods", Some("")),
            ("POST", "/api/v1/namespaces/a/pods?dryRun=All&fieldValidation=Strict", Some("Strict")),
            ("PUT", "/api/v1/nodes/n?fieldValidation=x", Some("invalid")),
            ("PATCH", "/api/v1/nodes/n?fieldValidation=Warn&fieldValidation=Warn", Some("invalid")),
        ] {
            assert_eq!(field_validation(&info(method, uri)), expected, "{method} {uri}");
        }
    }

    #[test]
    fn labels_follow_the_attributes_of_the_request() {
        for (method, uri, expected) in [
            ("GET", "/api/v1/pods", "LIST//v1/pods//cluster/"),
            ("GET", "/api/v1/pods?watch=False", "LIST//v1/pods//cluster/"),
            ("GET", "/api/v1/namespaces/watch", "GET//v1/namespaces//resource/"),
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
            ("GET", "/clusters/%64efault/api/v1/pods/p", "GET//////"),
        ] {
            let info = info(method, uri);
            let Labels { verb, group, version, resource, subresource, scope, dry_run } = Labels::of(&info);
            let shown = format!("{verb}/{group}/{version}/{resource}/{subresource}/{scope}/{dry_run}");
            assert_eq!(shown, expected, "{uri}");
        }
    }
}
