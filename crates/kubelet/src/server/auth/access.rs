//! The permissions that a request to the kubelet's API requires.

use http::Method;
use percent_encoding::percent_decode_str;

/// A permission on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// The verb, such as `get`; empty for methods without a verb.
    pub verb: &'static str,
    /// The name of the node.
    pub node: String,
    /// The subresource, such as `metrics`.
    pub subresource: &'static str,
}

/// Paths with a subresource of their own, for which `nodes/proxy` is sufficient as well.
const FINE_GRAINED: &[(&str, &str)] =
    &[("/pods", "pods"), ("/healthz", "healthz"), ("/configz", "configz"), ("/runningpods", "pods")];

/// Paths with a subresource of their own that `nodes/proxy` does not include.
const SEPARATE: &[(&str, &str)] = &[
    ("/stats", "stats"),
    ("/metrics", "metrics"),
    ("/logs", "log"),
    ("/checkpoint", "checkpoint"),
    ("/statusz", "statusz"),
    ("/flagz", "configz"),
];

/// The subresource of all other paths.
const PROXY: &str = "proxy";

impl Access {
    /// The permissions of which one is required for a request.
    pub(super) fn all_of(node: &str, method: &Method, path: &str) -> Vec<Self> {
        let verb = match *method {
            Method::POST => "create",
            Method::GET => "get",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::DELETE => "delete",
            _ => "",
        };
        let fine_grained = subresource_of(FINE_GRAINED, path);
        let other = subresource_of(SEPARATE, path).unwrap_or(PROXY);
        fine_grained
            .into_iter()
            .chain([other])
            .map(|subresource| Self { verb, node: node.to_owned(), subresource })
            .collect()
    }
}

fn subresource_of(table: &[(&str, &'static str)], path: &str) -> Option<&'static str> {
    let is_within =
        |outer: &str| path.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    table.iter().find(|(outer, _)| is_within(outer)).map(|(_, subresource_of)| *subresource_of)
}

/// True if the path is unambiguous: no `..`, no empty segments, no encoded separators.
pub(super) fn is_plain(path: &str) -> bool {
    let Some(inner) = path.strip_prefix('/') else { return false };
    let inner = inner.strip_suffix('/').unwrap_or(inner);
    if inner.is_empty() {
        return true;
    }
    inner.split('/').all(|segment| {
        let decoded = percent_decode_str(segment).decode_utf8_lossy();
        !matches!(&*decoded, "" | "." | "..") && !decoded.contains(['/', '\\', '\0'])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_require_the_permissions_of_the_kubelet() {
        for (path, subresources) in [
            ("/", &["proxy"][..]),
            ("/exec/n/p/c", &["proxy"]),
            ("/run/n/p/c", &["proxy"]),
            ("/containerLogs/n/p/c", &["proxy"]),
            ("/pods", &["pods", "proxy"]),
            ("/pods/", &["pods", "proxy"]),
            ("/podsx", &["proxy"]),
            ("/runningpods/", &["pods", "proxy"]),
            ("/healthz/ping", &["healthz", "proxy"]),
            ("/configz", &["configz", "proxy"]),
            ("/stats/summary", &["stats"]),
            ("/metrics", &["metrics"]),
            ("/metrics/cadvisor", &["metrics"]),
            ("/metricsx", &["proxy"]),
            ("/logs/", &["log"]),
            ("/checkpoint/n/p/c", &["checkpoint"]),
            ("/statusz", &["statusz"]),
            ("/flagz", &["configz"]),
            ("/%70ods", &["proxy"]),
            ("/Pods", &["proxy"]),
        ] {
            let accesses = Access::all_of("a", &Method::GET, path);
            let found: Vec<&str> = accesses.iter().map(|access| access.subresource).collect();
            assert_eq!(found, subresources, "{path}");
            assert!(accesses.iter().all(|access| access.node == "a" && access.verb == "get"));
        }
    }

    #[test]
    fn methods_map_to_verbs() {
        for (method, verb) in [
            (Method::POST, "create"),
            (Method::PUT, "update"),
            (Method::PATCH, "patch"),
            (Method::DELETE, "delete"),
            (Method::HEAD, ""),
            (Method::OPTIONS, ""),
        ] {
            assert_eq!(Access::all_of("a", &method, "/run/n/p/c")[0].verb, verb);
        }
    }

    #[test]
    fn ambiguous_path_is_not_plain() {
        for path in ["/", "/pods", "/pods/", "/logs/a.log", "/exec/n/p/c", "/logs/a%20b"] {
            assert!(is_plain(path), "{path}");
        }
        for path in [
            "//pods",
            "/pods//x",
            "/pods/../exec/n/p/c",
            "/pods/%2e%2e/exec",
            "/pods/%2E./exec",
            "/./exec",
            "/pods%2f..%2fexec",
            "/pods/..%5cexec",
            "/pods/%00",
            "*",
            "pods",
        ] {
            assert!(!is_plain(path), "{path}");
        }
    }
}
