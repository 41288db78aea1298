//! `RequestInfo`: the parsed request. It is parsed once before the filter chain runs and used by metrics,
//! authentication, flow control, authorization, routing and the verbs.
//!
//! Attributes for authorization follow kube-apiserver (`pkg/endpoints/request/requestinfo.go` of k8s.io/apiserver):
//! every path has attributes, because a client without permission must not learn which paths exist. Routing uses the
//! same attributes, so a request cannot be authorized for one resource and served another.

mod cluster;
mod path;
mod route;

pub(crate) use cluster::ClusterSelector;
pub(crate) use path::ResourcePath;
pub(crate) use route::Route;

use std::sync::Arc;

use coracle_meta::name::path_segment_name;
use coracle_meta::selector::{fields, labels};
use http::{Method, Uri};

use crate::authorization::{Attributes, ResourceTarget, Target};
use crate::negotiate::AcceptHeaders;
use crate::options::Query;
use path::{ParsedPath, Resource};

/// Subresources whose requests last until the client or the container ends them.
const LONG_RUNNING_SUBRESOURCES: [&str; 5] = ["attach", "exec", "proxy", "log", "portforward"];

/// The attributes of a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestInfo {
    method: Method,
    uri: Uri,
    cluster: ClusterSelector,
    /// The verb of Kubernetes for a resource, the method in lower case for any other path.
    verb: String,
    /// Within the cluster, decoded.
    path: String,
    resource: Option<Resource>,
    /// None if nothing is served at the path.
    route: Option<Route>,
    field_selector: Vec<fields::Requirement>,
    label_selector: Vec<labels::Requirement>,
    /// Parsed for requests for a resource only.
    query: Arc<Query>,
    accept: AcceptHeaders,
}

impl RequestInfo {
    pub(crate) fn of<B>(request: &http::Request<B>) -> Self {
        Self { accept: AcceptHeaders::of(request.headers()), ..Self::new(request.method(), request.uri()) }
    }

    /// The attributes of a request without headers.
    pub(crate) fn new(method: &Method, uri: &Uri) -> Self {
        let (cluster, raw_path) = ClusterSelector::split(uri.path());
        let ParsedPath { path, resource, route } = ParsedPath::parse(raw_path);
        let mut info = Self {
            method: method.clone(),
            uri: uri.clone(),
            verb: method.as_str().to_lowercase(),
            route: route.filter(|route| cluster.has(route)),
            cluster,
            path,
            resource,
            ..Self::default()
        };
        if let Some(resource) = &info.resource {
            resource.verb.unwrap_or_else(|| verb_of(method)).clone_into(&mut info.verb);
            info.query = Arc::new(Query::parse(uri.query().unwrap_or_default()));
            info.apply_query();
        }
        info
    }

    /// The attributes for authorizers.
    pub(crate) fn attributes(&self) -> Attributes<'_> {
        let target = match &self.resource {
            None => Target::Path(&self.path),
            Some(Resource { path, selected_name, .. }) => Target::Resource(ResourceTarget {
                group: &path.group,
                version: &path.version,
                resource: &path.resource,
                subresource: &path.subresource,
                namespace: path.authorized_namespace(),
                name: if path.name.is_empty() { selected_name } else { &path.name },
                field_selector: &self.field_selector,
                label_selector: &self.label_selector,
            }),
        };
        Attributes { verb: &self.verb, target }
    }

    /// Returns true if the response may last until the client disconnects (`BasicLongRunningRequestCheck` of
    /// kube-apiserver).
    pub(crate) fn is_long_running(&self) -> bool {
        let subresource = self.resource.as_ref().map_or("", |resource| &*resource.path.subresource);
        matches!(&*self.verb, "watch" | "proxy") || LONG_RUNNING_SUBRESOURCES.contains(&subresource)
    }

    pub(crate) fn is_watch(&self) -> bool {
        self.verb == "watch"
    }

    pub(crate) fn is_read_only(&self) -> bool {
        matches!(self.method, Method::GET | Method::HEAD | Method::OPTIONS)
    }

    pub(crate) fn method(&self) -> &Method {
        &self.method
    }

    pub(crate) fn cluster(&self) -> &ClusterSelector {
        &self.cluster
    }

    /// The path within the cluster, decoded.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// The route of the path; none for 404.
    pub(crate) fn route(&self) -> Option<&Route> {
        self.route.as_ref()
    }

    /// The resource that the path names, served or not.
    pub(crate) fn resource(&self) -> Option<&Arc<ResourcePath>> {
        self.resource.as_ref().map(|resource| &resource.path)
    }

    /// The query of a request for a resource; empty for other paths.
    pub(crate) fn query(&self) -> &Arc<Query> {
        &self.query
    }

    /// The query as it was sent.
    pub(crate) fn raw_query(&self) -> &str {
        self.uri.query().unwrap_or_default()
    }

    /// The format that an error is written in.
    pub(crate) fn accept(&self) -> &AcceptHeaders {
        &self.accept
    }

    /// Adds verb, name and selectors of the query to the attributes of lists, watches and `deletecollection`.
    fn apply_query(&mut self) {
        let Self { resource: Some(resource), query, .. } = self else { return };
        let is_collection = resource.path.name.is_empty();
        if is_collection && self.verb == "get" {
            self.verb = if query.flag("watch") { "watch" } else { "list" }.to_owned();
            let selector = query.text("fieldSelector").parse::<fields::Selector>().unwrap_or_default();
            let name = selector.requires_exact_match("metadata.name").unwrap_or_default();
            if path_segment_name(name).is_empty() {
                name.clone_into(&mut resource.selected_name);
            }
        }
        if is_collection && self.verb == "delete" {
            "deletecollection".clone_into(&mut self.verb);
        }
        if resource.verb.is_some() || !matches!(&*self.verb, "list" | "watch" | "deletecollection") {
            return;
        }
        if let Ok(selector) = query.text("fieldSelector").parse::<fields::Selector>() {
            self.field_selector = selector.requirements().to_vec();
        }
        if let Ok(selector) = query.text("labelSelector").parse::<labels::Selector>() {
            self.label_selector = selector.requirements().to_vec();
        }
    }
}

fn verb_of(method: &Method) -> &'static str {
    match *method {
        Method::POST => "create",
        Method::GET | Method::HEAD => "get",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(method: &str, uri: &str) -> RequestInfo {
        RequestInfo::new(&method.parse().unwrap(), &uri.parse().unwrap())
    }

    fn attributes(method: &str, uri: &str) -> String {
        let info = parse(method, uri);
        let Attributes { verb, target } = info.attributes();
        match target {
            Target::Path(path) => format!("{verb} {path}"),
            Target::Resource(target) => format!(
                "{verb}|{}|{}|{}|{}|{}",
                target.group, target.namespace, target.resource, target.name, target.subresource
            ),
        }
    }

    #[test]
    fn attributes_are_those_of_kube_apiserver() {
        for (method, uri, expected) in [
            ("GET", "/", "get /"),
            ("GET", "/api/v1", "get /api/v1"),
            ("POST", "/apis/apps/v1/", "post /apis/apps/v1/"),
            ("GET", "/clusters/t/apis/apps", "get /apis/apps"),
            ("GET", "/clusters/t/api/v1/pods", "list|||pods||"),
            ("GET", "/clusters/t", "get /clusters/t"),
            ("GET", "/%76ersion", "get /version"),
            ("GET", "/api/v1/pods", "list|||pods||"),
            ("HEAD", "/api/v1/pods", "list|||pods||"),
            ("OPTIONS", "/api/v1/pods", "|||pods||"),
            ("GET", "/api/v1/pods?watch=1", "watch|||pods||"),
            ("GET", "/api/v1/pods?watch=false", "list|||pods||"),
            ("GET", "/api/v1/pods?watch=False", "list|||pods||"),
            ("GET", "/api/v1/namespaces/watch", "get||watch|namespaces|watch|"),
            ("GET", "/api/v1/watch/pods", "watch|||pods||"),
            ("GET", "/api/v1/watch/namespaces/a/pods/p", "watch||a|pods|p|"),
            ("GET", "/api/v1/proxy/namespaces/a/pods/p/x", "proxy||a|pods|p|"),
            ("DELETE", "/api/v1/namespaces/a/pods", "deletecollection||a|pods||"),
            ("DELETE", "/api/v1/namespaces/a/pods/p", "delete||a|pods|p|"),
            ("GET", "/api/v1/namespaces", "list|||namespaces||"),
            ("GET", "/api/v1/namespaces/a", "get||a|namespaces|a|"),
            ("PUT", "/api/v1/namespaces/a/finalize", "update||a|namespaces|a|finalize"),
            ("GET", "/api/v1/namespaces/a/status/x", "get||a|namespaces|a|status"),
            ("GET", "/api/v1/namespaces/a/pods/p/log", "get||a|pods|p|log"),
            ("POST", "/api/v1/namespaces/a/pods/p/exec", "create||a|pods|p|exec"),
            ("GET", "/api/v1/namespaces/a/pods/p/exec", "get||a|pods|p|exec"),
            ("POST", "/api/v1/namespaces/a/pods/p/proxy/x/y", "create||a|pods|p|proxy"),
            ("PATCH", "/apis/apps/v1/namespaces/a/d/x/scale", "patch|apps|a|d|x|scale"),
            ("GET", "/api/v1/pods?fieldSelector=metadata.name%3Dx", "list|||pods|x|"),
            ("GET", "/api/v1/pods?watch&fieldSelector=metadata.name=x,a!=b", "watch|||pods|x|"),
            ("GET", "/api/v1/pods?fieldSelector=metadata.name!=x", "list|||pods||"),
            ("GET", "/api/v1/pods?fieldSelector=metadata.name=..", "list|||pods||"),
            ("DELETE", "/api/v1/pods?fieldSelector=metadata.name=x", "deletecollection|||pods||"),
            ("GET", "//api/v1/pods", "list|||pods||"),
            ("GET", "/api/v1/namespaces/a%2Fsecrets%2Fb", "get||a|secrets|b|"),
            ("GET", "/API/v1/pods", "get /API/v1/pods"),
        ] {
            assert_eq!(attributes(method, uri), expected, "{method} {uri}");
        }
    }

    #[test]
    fn long_running_requests_are_those_of_kube_apiserver() {
        for (uri, expected) in [
            ("/api/v1/pods?watch=1", true),
            ("/api/v1/pods?watch=False", false),
            ("/api/v1/namespaces/watch", false),
            ("/api/v1/namespaces/a/pods/p/log", true),
            ("/api/v1/namespaces/a/pods/p/status", false),
            ("/version?watch=1", false),
        ] {
            assert_eq!(parse("GET", uri).is_long_running(), expected, "{uri}");
        }
    }

    #[test]
    fn all_clusters_and_named_clusters_serve_no_admin_api() {
        for (uri, is_served) in [
            ("/admin/clusters", true),
            ("/clusters/t/admin/clusters", false),
            ("/clusters/*/admin/clusters", false),
            ("/clusters/*/api/v1/pods", true),
            ("/clusters/*/version", false),
            ("/clusters/t/version", true),
            ("/clusters/%2A/api/v1/pods", false),
        ] {
            assert_eq!(parse("GET", uri).route().is_some(), is_served, "{uri}");
        }
    }
}
