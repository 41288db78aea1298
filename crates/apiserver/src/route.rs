//! What a path means.

use coracle_meta::name::dns1123_label;
pub(crate) use coracle_registry::DEFAULT_CLUSTER;
use coracle_registry::lifecycle::EVERYWHERE;
use percent_encoding::percent_decode_str;

/// What a path leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// `/`: the paths there are.
    Index,
    /// `/version`.
    Version,
    /// `/api`: the versions of the core group.
    CoreVersions,
    /// `/apis`: all other groups.
    Groups,
    /// `/apis/GROUP`.
    Group(String),
    /// `/api/v1` or `/apis/GROUP/VERSION`: the resources of a version.
    Resources { group: String, version: String },
    /// `/openapi/v2`: everything in one document.
    OpenApiV2,
    /// `/openapi/v3`: the documents there are.
    OpenApiIndex,
    /// One of them, by its path, such as `api/v1`.
    OpenApi(String),
    /// `/.well-known/openid-configuration`: who issues tokens.
    OpenIdConfiguration,
    /// `/openid/v1/jwks`: the keys of the tokens.
    KeySet,
    /// `/admin/clusters`, or one cluster below it. See [`crate::admin`].
    Clusters(Option<String>),
    /// A collection, an object, or a part of one.
    Resource(ResourcePath),
}

/// A collection, an object, or a part of one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResourcePath {
    pub(crate) group: String,
    pub(crate) version: String,
    /// Empty for all namespaces, and for kinds that have none.
    pub(crate) namespace: String,
    pub(crate) resource: String,
    /// Empty for the collection.
    pub(crate) name: String,
    /// Empty for the object itself.
    pub(crate) subresource: String,
    /// Changes are asked for by the path itself, as older clients do.
    pub(crate) watch: bool,
}

/// The cluster of a path, and where it leads there. `None` if nowhere.
pub(crate) fn parse(path: &str) -> Option<(String, Route)> {
    // Upstream does not mind a slash at the end, and some clients put one there.
    if matches!(path, "/" | "/index.html") {
        return Some((DEFAULT_CLUSTER.to_owned(), Route::Index));
    }
    let cluster = cluster_id(path)?.to_owned();
    let (_, path) = split_cluster(path);
    let path = path.strip_prefix('/')?.trim_end_matches('/');
    let mut segments: Vec<&str> = path.split('/').collect();
    // What comes after is for somebody else to understand.
    segments.truncate(proxied_from(&segments).unwrap_or(segments.len()));
    let segments: Option<Vec<String>> = segments.into_iter().map(decode).collect();
    let segments = segments?;
    if segments.len() < 4 && segments.iter().any(|segment| is_step(segment)) {
        return None;
    }
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let route = match segments.as_slice() {
        ["version"] => Route::Version,
        ["admin", "clusters"] => Route::Clusters(None),
        ["admin", "clusters", id] => Route::Clusters(Some((*id).to_owned())),
        [".well-known", "openid-configuration"] => Route::OpenIdConfiguration,
        ["openid", "v1", "jwks"] => Route::KeySet,
        ["openapi", "v3"] => Route::OpenApiIndex,
        ["openapi", "v3", path @ ..] => Route::OpenApi(path.join("/")),
        ["openapi", "v2"] => Route::OpenApiV2,
        ["api"] => Route::CoreVersions,
        ["apis"] => Route::Groups,
        ["apis", group] => Route::Group((*group).to_owned()),
        ["api", version] => Route::Resources { group: String::new(), version: (*version).to_owned() },
        ["apis", group, version] => {
            Route::Resources { group: (*group).to_owned(), version: (*version).to_owned() }
        }
        ["api", version, "watch", rest @ ..] if !rest.is_empty() => {
            Route::Resource(watched("", version, rest)?)
        }
        ["apis", group, version, "watch", rest @ ..] if !rest.is_empty() => {
            Route::Resource(watched(group, version, rest)?)
        }
        ["api", version, rest @ ..] => Route::Resource(resource("", version, rest)?),
        ["apis", group, version, rest @ ..] => Route::Resource(resource(group, version, rest)?),
        _ => return None,
    };
    Some((cluster, route))
}

/// The id of the cluster that a path leads to; [`EVERYWHERE`] for all clusters at once. None if the path names one that
/// is no id. Ids are compared as they are written: an encoded character is not decoded, so `%2A` is not `*`.
pub(crate) fn cluster_id(path: &str) -> Option<&str> {
    match split_cluster(path).0 {
        None => Some(DEFAULT_CLUSTER),
        Some(id) if id == EVERYWHERE || is_cluster_id(id) => Some(id),
        Some(_) => None,
    }
}

/// Whether a segment can be the id of a cluster: a DNS label.
fn is_cluster_id(segment: &str) -> bool {
    dns1123_label(segment).is_empty()
}

/// The cluster that a path names, if it names one, and the path within it. Nothing is decoded.
pub(crate) fn split_cluster(path: &str) -> (Option<&str>, &str) {
    let named = path.strip_prefix("/clusters/").and_then(|rest| rest.split_once('/'));
    match named {
        Some((cluster, rest)) if !rest.is_empty() => (Some(cluster), &path[path.len() - rest.len() - 1..]),
        _ => (None, path),
    }
}

fn watched(group: &str, version: &str, segments: &[&str]) -> Option<ResourcePath> {
    let path = resource(group, version, segments)?;
    path.subresource.is_empty().then_some(ResourcePath { watch: true, ..path })
}

/// From where on a path belongs to what it is passed on to: after `proxy` as a part of an object.
fn proxied_from(segments: &[&str]) -> Option<usize> {
    let resource = match segments {
        ["api", _, "namespaces", _, _, ..] => 4,
        ["api", _, ..] => 2,
        ["apis", _, _, "namespaces", _, _, ..] => 5,
        ["apis", _, _, ..] => 3,
        _ => return None,
    };
    (segments.get(resource + 2) == Some(&"proxy")).then_some(resource + 3)
}

fn resource(group: &str, version: &str, segments: &[&str]) -> Option<ResourcePath> {
    let of_namespace = ["status", "finalize"];
    let (namespace, rest) = match segments {
        // A namespace is an object itself, and has parts of its own.
        ["namespaces", _] => ("", segments),
        ["namespaces", _, part] if of_namespace.contains(part) => ("", segments),
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
        _ => ("", segments),
    };
    let (resource, name, subresource) = match rest {
        [resource] => (*resource, "", ""),
        [resource, name] => (*resource, *name, ""),
        [resource, name, subresource] => (*resource, *name, *subresource),
        _ => return None,
    };
    // A name is refused where it is known of what; elsewhere such steps lead nowhere.
    if [group, version, namespace, resource, subresource].into_iter().any(is_step) {
        return None;
    }
    Some(ResourcePath {
        group: group.to_owned(),
        version: version.to_owned(),
        namespace: namespace.to_owned(),
        resource: resource.to_owned(),
        name: name.to_owned(),
        subresource: subresource.to_owned(),
        watch: false,
    })
}

/// A segment of a path. Tricks that could lead elsewhere lead nowhere.
fn decode(segment: &str) -> Option<String> {
    let text = percent_decode_str(segment).decode_utf8().ok()?.into_owned();
    let tricky = text.is_empty() || text.contains('/');
    (!tricky).then_some(text)
}

/// Whether a segment means another place and not a thing.
fn is_step(segment: &str) -> bool {
    matches!(segment, "." | "..")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(path: &str) -> String {
        match parse(path) {
            None => "nowhere".into(),
            Some((cluster, Route::Resource(path))) => format!(
                "{cluster}|{}|{}|{}|{}|{}|{}",
                path.group, path.version, path.namespace, path.resource, path.name, path.subresource
            ),
            Some((cluster, route)) => format!("{cluster} {route:?}"),
        }
    }

    /// kube-apiserver looks them up, and finds none.
    #[test]
    fn name_with_a_nul_byte_is_a_name() {
        assert_eq!(
            shown("/api/v1/namespaces/n/pods/a%00"),
            shown("/api/v1/namespaces/n/pods/a").replace("|a|", "|a\0|")
        );
    }

    #[test]
    fn paths_lead_where_upstream_leads_them() {
        for (path, expected) in [
            ("/api/v1/pods", "default||v1||pods||"),
            ("/api/v1/namespaces", "default||v1||namespaces||"),
            ("/api/v1/namespaces/a", "default||v1||namespaces|a|"),
            ("/api/v1/namespaces/a/status", "default||v1||namespaces|a|status"),
            ("/api/v1/namespaces/a/pods", "default||v1|a|pods||"),
            ("/api/v1/namespaces/a/pods/p/log", "default||v1|a|pods|p|log"),
            ("/apis/apps/v1/namespaces/a/deployments/d", "default|apps|v1|a|deployments|d|"),
            (
                "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node",
                "default|rbac.authorization.k8s.io|v1||clusterroles|system:node|",
            ),
            (
                "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode",
                "default|rbac.authorization.k8s.io|v1||clusterroles|system:node|",
            ),
            ("/api/v1/namespaces/a/services/s:80/proxy", "default||v1|a|services|s:80|proxy"),
            ("/api/v1/namespaces/a/services/s:80/proxy/", "default||v1|a|services|s:80|proxy"),
            ("/api/v1/namespaces/a/pods/p/proxy/x//../y", "default||v1|a|pods|p|proxy"),
            ("/clusters/t1/api/v1/nodes/n/proxy/metrics", "t1||v1||nodes|n|proxy"),
            ("/api/v1/namespaces/proxy/pods/proxy/log", "default||v1|proxy|pods|proxy|log"),
            ("/clusters/t1/api/v1/pods", "t1||v1||pods||"),
            ("/version", "default Version"),
            ("/admin/clusters", "default Clusters(None)"),
            ("/admin/clusters/t1", "default Clusters(Some(\"t1\"))"),
            ("/version/", "default Version"),
            ("/api/v1/pods/", "default||v1||pods||"),
            ("/apis", "default Groups"),
            ("/", "default Index"),
            ("/api/v1/namespaces/a/pods/..", "default||v1|a|pods|..|"),
        ] {
            assert_eq!(shown(path), expected, "{path}");
        }
    }

    #[test]
    fn cluster_ids_are_never_decoded() {
        for (path, expected) in [
            ("/api/v1/pods", Some("default")),
            ("/clusters/t1/api/v1/pods", Some("t1")),
            ("/clusters/t1/nothing", Some("t1")),
            ("/clusters/*/api/v1/pods", Some("*")),
            ("/clusters/t1", Some("default")),
            ("/clusters/%2A/api/v1/pods", None),
            ("/clusters/%2a/api/v1/pods", None),
            ("/clusters/%64efault/api/v1/pods", None),
            ("/clusters/%74%31/api/v1/pods", None),
            ("/clusters/**/api/v1/pods", None),
            ("/clusters/T1/api/v1/pods", None),
            ("/clusters/t_1/api/v1/pods", None),
            ("/clusters/./api/v1/pods", None),
            ("/clusters/../api/v1/pods", None),
            ("/clusters//api/v1/pods", None),
        ] {
            assert_eq!(cluster_id(path), expected, "{path}");
            assert!(expected.is_some() || parse(path).is_none(), "{path}");
        }
    }

    #[test]
    fn tricks_lead_nowhere() {
        for path in [
            "",
            "/./",
            "/..",
            "/apis/..",
            "/apis/../v1",
            "/clusters/../api/v1/pods",
            "/clusters//api/v1/pods",
            "/clusters/t1",
            "/clusters/t1/",
            "/admin",
            "/admin/clusters/..",
            "/admin/clusters/t1/x",
            "/%63lusters/t1/api/v1/pods",
            "/clusters/t1/clusters/t2/api/v1/pods",
            "/api/v1/namespaces/../pods",
            "/api/v1/namespaces/./pods/p",
            "/api/v1/pods/p/..",
            "/api/v1/watch/../x",
            "//api/v1/pods",
            "/api//v1",
            "/api/v1/../v1/pods",
            "/api/v1/%2e%2e/pods",
            "/api/v1/namespaces/a%2fb/pods",
            "/API/v1/pods/%ff",
            "/api/v1/a/b/c/d/e/f",
        ] {
            assert_eq!(shown(path), "nowhere", "{path:?}");
        }
    }
}
