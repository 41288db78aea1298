//! What a request is about, as authorization sees it: upstream's reading of the path
//! (`pkg/endpoints/request/requestinfo.go` of k8s.io/apiserver).
//!
//! It says something of every path, also of those that lead nowhere, because nobody learns what is there
//! without permission. What is then served is read by `route`; a request of which the two say different
//! things is not served ([`RequestInfo::agrees_with`]).

use coracle_meta::name::path_segment_name;
use coracle_meta::selector::{fields, labels};
use http::{Method, Uri};
use percent_encoding::percent_decode_str;

use super::{Attributes, ResourceTarget, Target};
use crate::options::Query;
use crate::route::{ResourcePath, split_cluster};

/// What comes before the resource in older paths. What is beneath `proxy` has no parts.
const WATCH: &str = "watch";
const PROXY: &str = "proxy";

/// Parts that are talked with for as long as somebody likes.
const LASTING_PARTS: [&str; 5] = ["attach", "exec", "proxy", "log", "portforward"];

/// What is part of a namespace, and not in it.
const NAMESPACE_PARTS: [&str; 2] = ["status", "finalize"];

/// What a request is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestInfo {
    /// Both are cheap to clone, so that a dump can name a request later.
    method: Method,
    uri: Uri,
    verb: String,
    /// Within the cluster, with nothing encoded.
    path: String,
    resource: Option<Resource>,
    field_selector: Vec<fields::Requirement>,
    label_selector: Vec<labels::Requirement>,
    /// Read only if it is about a resource.
    query: Query,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Resource {
    group: String,
    version: String,
    namespace: String,
    resource: String,
    name: String,
    subresource: String,
    /// The verb is in the path.
    special: bool,
}

impl RequestInfo {
    /// What a request is about.
    pub(crate) fn of(method: &Method, uri: &Uri) -> Self {
        let (_, path) = split_cluster(uri.path());
        let path = percent_decode_str(path).decode_utf8_lossy().into_owned();
        let mut info = Self {
            method: method.clone(),
            uri: uri.clone(),
            verb: method.as_str().to_lowercase(),
            ..Self::default()
        };
        if let Some((verb, resource)) = resource_of(method, &path) {
            verb.clone_into(&mut info.verb);
            info.resource = Some(resource);
            info.query = Query::parse(uri.query().unwrap_or_default());
            info.look_into_query();
        }
        Self { path, ..info }
    }

    /// What authorizers are asked.
    pub(crate) fn attributes(&self) -> Attributes<'_> {
        let target = match &self.resource {
            None => Target::Path(&self.path),
            Some(resource) => Target::Resource(ResourceTarget {
                group: &resource.group,
                version: &resource.version,
                resource: &resource.resource,
                subresource: &resource.subresource,
                namespace: &resource.namespace,
                name: &resource.name,
                field_selector: &self.field_selector,
                label_selector: &self.label_selector,
            }),
        };
        Attributes { verb: &self.verb, target }
    }

    /// Whether the answer lasts as long as somebody listens, as upstream sees it
    /// (`BasicLongRunningRequestCheck`).
    pub(crate) fn lasts(&self) -> bool {
        let part = self.resource.as_ref().map_or("", |resource| &*resource.subresource);
        matches!(&*self.verb, "watch" | "proxy") || LASTING_PARTS.contains(&part)
    }

    pub(crate) fn is_watch(&self) -> bool {
        self.verb == "watch"
    }

    /// Whether what is served is what was asked for: else somebody with a trick in a path could be
    /// allowed one thing and get another.
    pub(crate) fn agrees_with(&self, path: &ResourcePath) -> bool {
        let Some(resource) = &self.resource else { return false };
        // A namespace is in itself, so that permissions in it are permissions for it.
        let namespace = if path.resource == "namespaces" && path.namespace.is_empty() {
            &path.name
        } else {
            &path.namespace
        };
        // A collection may be asked for one name only; then that is the name.
        let named = path.name.is_empty() || path.name == resource.name;
        named
            && *namespace == resource.namespace
            && path.group == resource.group
            && path.version == resource.version
            && path.resource == resource.resource
            && path.subresource == resource.subresource
            && path.watch == resource.special
    }

    /// The method and the address of the request.
    pub(crate) fn method_and_uri(&self) -> (&Method, &Uri) {
        (&self.method, &self.uri)
    }

    /// The query; empty for paths without a resource.
    pub(crate) fn query(&self) -> &Query {
        &self.query
    }

    /// The path within the cluster, decoded.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// What the query of a request for a resource says.
    pub(crate) fn into_query(self) -> Query {
        self.query
    }

    /// Lists and watches say more in their query.
    fn look_into_query(&mut self) {
        let Self { resource: Some(resource), query, .. } = self else { return };
        if resource.name.is_empty() && self.verb == "get" {
            self.verb = if query.flag("watch") { "watch" } else { "list" }.to_owned();
            let selector = query.text("fieldSelector").parse::<fields::Selector>().unwrap_or_default();
            let name = selector.requires_exact_match("metadata.name").unwrap_or_default();
            if path_segment_name(name).is_empty() {
                name.clone_into(&mut resource.name);
            }
        }
        if resource.name.is_empty() && self.verb == "delete" {
            "deletecollection".clone_into(&mut self.verb);
        }
        if resource.special || !matches!(&*self.verb, "list" | "watch" | "deletecollection") {
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

/// The verb and the resource of a path, if it has the form of one that has any.
fn resource_of(method: &Method, path: &str) -> Option<(&'static str, Resource)> {
    let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
    let (group, version, rest) = match segments.as_slice() {
        ["api", version, rest @ ..] => ("", *version, rest),
        ["apis", group, version, rest @ ..] => (*group, *version, rest),
        _ => return None,
    };
    let (special, rest) = match rest {
        [] => return None,
        [verb, rest @ ..] if *verb == WATCH => (Some(WATCH), rest),
        [verb, rest @ ..] if *verb == PROXY => (Some(PROXY), rest),
        rest => (None, rest),
    };
    let (namespace, rest) = match rest {
        ["namespaces", namespace, part, ..] if !NAMESPACE_PARTS.contains(part) => (*namespace, &rest[2..]),
        ["namespaces", namespace, ..] => (*namespace, rest),
        rest => ("", rest),
    };
    let at = |index: usize| rest.get(index).copied().unwrap_or_default().to_owned();
    let resource = Resource {
        group: group.to_owned(),
        version: version.to_owned(),
        namespace: namespace.to_owned(),
        resource: at(0),
        name: at(1),
        subresource: if special == Some(PROXY) { String::new() } else { at(2) },
        special: special.is_some(),
    };
    Some((special.unwrap_or_else(|| verb_of(method)), resource))
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
    use crate::route::{self, Route};

    fn shown(method: &str, uri: &str) -> String {
        let info = RequestInfo::of(&method.parse().unwrap(), &uri.parse().unwrap());
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
    fn requests_are_about_what_upstream_says() {
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
            ("GET", "/api/v1/watch/pods", "watch|||pods||"),
            ("GET", "/api/v1/watch/namespaces/a/pods/p", "watch||a|pods|p|"),
            ("GET", "/api/v1/proxy/namespaces/a/pods/p/x", "proxy||a|pods|p|"),
            ("DELETE", "/api/v1/namespaces/a/pods", "deletecollection||a|pods||"),
            ("DELETE", "/api/v1/namespaces/a/pods/p", "delete||a|pods|p|"),
            ("GET", "/api/v1/namespaces", "list|||namespaces||"),
            ("GET", "/api/v1/namespaces/a", "get||a|namespaces|a|"),
            ("PUT", "/api/v1/namespaces/a/finalize", "update||a|namespaces|a|finalize"),
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
            assert_eq!(shown(method, uri), expected, "{method} {uri}");
        }
    }

    #[test]
    fn what_is_served_is_what_was_asked_for() {
        for path in [
            "/api/v1/pods",
            "/api/v1/namespaces",
            "/api/v1/namespaces/a",
            "/api/v1/namespaces/a/status",
            "/api/v1/namespaces/a/pods/p/proxy/x%2fy/../z",
            "/api/v1/watch/namespaces/a/pods/p",
            "/apis/apps/v1/namespaces/a/deployments/d/scale/",
            "/api/v1/pods?fieldSelector=metadata.name%3Dx",
        ] {
            let uri: Uri = path.parse().unwrap();
            let Some((_, Route::Resource(route))) = route::parse(uri.path()) else { panic!("{path}") };
            assert!(RequestInfo::of(&Method::GET, &uri).agrees_with(&route), "{path}");
        }
        for path in ["/api/v1/proxy/nodes/n", "/api/v1/proxy/a"] {
            let Some((_, Route::Resource(route))) = route::parse(path) else { panic!("{path}") };
            assert!(!RequestInfo::of(&Method::GET, &path.parse().unwrap()).agrees_with(&route), "{path}");
        }
    }
}
