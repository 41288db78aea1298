//! The grammar of paths within a cluster.

use std::borrow::Cow;
use std::sync::Arc;

use percent_encoding::percent_decode_str;

use super::Route;

/// Verbs that older clients put before the resource in the path. Below `proxy` there are no subresources.
const WATCH: &str = "watch";
const PROXY: &str = "proxy";

/// Subresources of a namespace; any other segment after its name is a resource in it.
const NAMESPACE_SUBRESOURCES: [&str; 2] = ["status", "finalize"];

/// A collection, an object, or a subresource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResourcePath {
    pub(crate) group: String,
    pub(crate) version: String,
    /// Empty for all namespaces, and for kinds that are cluster-scoped.
    pub(crate) namespace: String,
    pub(crate) resource: String,
    /// Empty for the collection.
    pub(crate) name: String,
    /// Empty for the object itself.
    pub(crate) subresource: String,
    /// True for the deprecated watch paths of older clients (`/api/v1/watch/…`).
    pub(crate) watch: bool,
}

impl ResourcePath {
    /// The namespace for authorization. A Namespace object belongs to itself, so that a role in it can permit to read
    /// it.
    pub(super) fn authorized_namespace(&self) -> &str {
        if self.resource == "namespaces" && self.namespace.is_empty() { &self.name } else { &self.namespace }
    }
}

/// The resource that a path names.
#[derive(Clone, Debug)]
pub(super) struct Resource {
    pub(super) path: Arc<ResourcePath>,
    /// The verb, if the path has it.
    pub(super) verb: Option<&'static str>,
    /// The only name that the field selector of a list or watch admits, or empty.
    pub(super) selected_name: String,
}

/// A path within a cluster.
#[derive(Debug)]
pub(super) struct ParsedPath {
    /// Decoded.
    pub(super) path: String,
    pub(super) resource: Option<Resource>,
    pub(super) route: Option<Route>,
}

impl ParsedPath {
    /// Parses a path as it was sent. The resource is that of kube-apiserver, which decodes the path first and ignores
    /// slashes at both ends. It is served only if its segments are also those of the path as it was sent: an encoded or
    /// doubled slash, or a step such as `..`, is authorized and then not found.
    pub(super) fn parse(raw: &str) -> Self {
        let path = percent_decode_str(raw).decode_utf8_lossy().into_owned();
        let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
        let found = resource_of(&segments);
        let route = match &found {
            _ if matches!(raw, "/" | "/index.html") => Some(Route::Index),
            None => sent_segments(raw, usize::MAX)
                .filter(|sent| !sent.iter().any(|segment| is_step(segment)))
                .and_then(|sent| Route::of_segments(&sent.iter().map(Cow::as_ref).collect::<Vec<_>>())),
            Some(found) => found.is_served(raw, &segments).then_some(Route::Resource),
        };
        let resource = found.map(|found| found.resource);
        Self { resource, route, path }
    }
}

/// A resource with the number of segments up to its end.
struct Found {
    resource: Resource,
    end: usize,
}

impl Found {
    /// Returns true if the path as it was sent names this resource unambiguously.
    fn is_served(&self, raw: &str, segments: &[&str]) -> bool {
        let ResourcePath { group, version, namespace, resource, subresource, .. } = &*self.resource.path;
        // The backend parses the segments after `proxy`.
        let is_proxied = subresource == PROXY;
        let ends_here = is_proxied || segments.len() == self.end;
        let in_path = match self.resource.verb {
            Some(PROXY) => false,
            Some(_) => subresource.is_empty(),
            None => true,
        };
        let has_step =
            [group, version, namespace, resource, subresource].into_iter().any(|part| is_step(part));
        let limit = if is_proxied { self.end } else { usize::MAX };
        ends_here
            && in_path
            && !resource.is_empty()
            && !has_step
            && sent_segments(raw, limit).is_some_and(|sent| sent == segments[..self.end])
    }
}

/// Parses decoded segments; none if they do not have the form of a resource path.
fn resource_of(segments: &[&str]) -> Option<Found> {
    let (group, version, rest) = match segments {
        ["api", version, rest @ ..] => ("", *version, rest),
        ["apis", group, version, rest @ ..] => (*group, *version, rest),
        _ => return None,
    };
    let (verb, rest) = match rest {
        [] => return None,
        [verb, rest @ ..] if *verb == WATCH => (Some(WATCH), rest),
        [verb, rest @ ..] if *verb == PROXY => (Some(PROXY), rest),
        rest => (None, rest),
    };
    let (namespace, rest) = match rest {
        ["namespaces", namespace, part, ..] if !NAMESPACE_SUBRESOURCES.contains(part) => {
            (*namespace, &rest[2..])
        }
        rest => ("", rest),
    };
    let at = |index: usize| rest.get(index).copied().unwrap_or_default().to_owned();
    let path = ResourcePath {
        group: group.to_owned(),
        version: version.to_owned(),
        namespace: namespace.to_owned(),
        resource: at(0),
        name: at(1),
        subresource: if verb == Some(PROXY) { String::new() } else { at(2) },
        watch: verb == Some(WATCH),
    };
    let end = segments.len() - rest.len() + rest.len().min(3);
    Some(Found { resource: Resource { path: Arc::new(path), verb, selected_name: String::new() }, end })
}

/// The first segments of a path as it was sent, each decoded by itself, without a slash at the end. None if one of them
/// is empty, holds an encoded slash or is not UTF-8.
fn sent_segments(raw: &str, limit: usize) -> Option<Vec<Cow<'_, str>>> {
    let path = raw.strip_prefix('/')?.trim_end_matches('/');
    let decoded = |segment| -> Option<Cow<'_, str>> {
        let text = percent_decode_str(segment).decode_utf8().ok()?;
        (!text.is_empty() && !text.contains('/')).then_some(text)
    };
    path.split('/').take(limit).map(decoded).collect()
}

/// Returns true for the relative segments `.` and `..`.
fn is_step(segment: &str) -> bool {
    matches!(segment, "." | "..")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served(path: &str) -> String {
        let parsed = ParsedPath::parse(path);
        match (parsed.route, parsed.resource) {
            (None, _) => "404".into(),
            (Some(Route::Resource), Some(Resource { path, .. })) => format!(
                "{}|{}|{}|{}|{}|{}{}",
                path.group,
                path.version,
                path.namespace,
                path.resource,
                path.name,
                path.subresource,
                if path.watch { " watch" } else { "" }
            ),
            (Some(route), _) => format!("{route:?}"),
        }
    }

    /// kube-apiserver reads such a name from the store, and returns 404.
    #[test]
    fn name_with_a_nul_byte_is_a_name() {
        assert_eq!(served("/api/v1/namespaces/n/pods/a%00"), "|v1|n|pods|a\0|");
    }

    #[test]
    fn paths_lead_to_the_resources_of_kube_apiserver() {
        for (path, expected) in [
            ("/api/v1/pods", "|v1||pods||"),
            ("/api/v1/namespaces", "|v1||namespaces||"),
            ("/api/v1/namespaces/a", "|v1||namespaces|a|"),
            ("/api/v1/namespaces/a/status", "|v1||namespaces|a|status"),
            ("/api/v1/namespaces/a/pods", "|v1|a|pods||"),
            ("/api/v1/namespaces/a/pods/p/log", "|v1|a|pods|p|log"),
            ("/api/v1/watch/namespaces/a/pods/p", "|v1|a|pods|p| watch"),
            ("/apis/apps/v1/namespaces/a/deployments/d", "apps|v1|a|deployments|d|"),
            ("/apis/apps/v1/namespaces/a/deployments/d/scale/", "apps|v1|a|deployments|d|scale"),
            (
                "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node",
                "rbac.authorization.k8s.io|v1||clusterroles|system:node|",
            ),
            (
                "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode",
                "rbac.authorization.k8s.io|v1||clusterroles|system:node|",
            ),
            ("/api/v1/namespaces/a/services/s:80/proxy", "|v1|a|services|s:80|proxy"),
            ("/api/v1/namespaces/a/services/s:80/proxy/", "|v1|a|services|s:80|proxy"),
            ("/api/v1/namespaces/a/pods/p/proxy/x//../y", "|v1|a|pods|p|proxy"),
            ("/api/v1/namespaces/a/pods/p/proxy/x%2fy/../z", "|v1|a|pods|p|proxy"),
            ("/api/v1/nodes/n/proxy/metrics", "|v1||nodes|n|proxy"),
            ("/api/v1/namespaces/proxy/pods/proxy/log", "|v1|proxy|pods|proxy|log"),
            ("/version", "Version"),
            ("/admin/clusters", "Clusters(None)"),
            ("/admin/clusters/t1", "Clusters(Some(\"t1\"))"),
            ("/version/", "Version"),
            ("/api/v1/pods/", "|v1||pods||"),
            ("/apis", "Groups"),
            ("/", "Index"),
            ("/api/v1/namespaces/a/pods/..", "|v1|a|pods|..|"),
        ] {
            assert_eq!(served(path), expected, "{path}");
        }
    }

    #[test]
    fn ambiguous_paths_are_not_found() {
        for path in [
            "",
            "/./",
            "/..",
            "/apis/..",
            "/apis/../v1",
            "/clusters/t1",
            "/clusters/t1/",
            "/admin",
            "/admin/clusters/..",
            "/admin/clusters/t1/x",
            "/%63lusters/t1/api/v1/pods",
            "/clusters/t2/api/v1/pods",
            "/api/v1/namespaces/../pods",
            "/api/v1/namespaces/./pods/p",
            "/api/v1/namespaces/a/status/x",
            "/api/v1/pods/p/..",
            "/api/v1/watch",
            "/api/v1/watch/../x",
            "/api/v1/watch/namespaces/a/pods/p/status",
            "/api/v1/proxy/nodes/n",
            "/api/v1/proxy/a",
            "//api/v1/pods",
            "/api//v1",
            "/api/v1/../v1/pods",
            "/api/v1/%2e%2e/pods",
            "/api/v1/namespaces/a%2fb/pods",
            "/api/v1/namespaces/a%2Fsecrets%2Fb",
            "/api/v1/namespaces/a%2Fservices/s/proxy/x",
            "/API/v1/pods/%ff",
            "/api/v1/pods/%ff",
            "/api/v1/a/b/c/d/e/f",
        ] {
            assert_eq!(served(path), "404", "{path:?}");
        }
    }
}
