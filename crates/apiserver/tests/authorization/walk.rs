//! Authorization of every route with every method, generated from the catalog: no new kind can lack authorization.

use coracle_registry::{Declaration, Scope, catalog};
use http::Method;
use serde_json::json;

use super::server::{Client, admin};

const METHODS: [Method; 7] =
    [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::OPTIONS];

/// Paths that every authenticated user may read, from the ClusterRole `system:discovery` of Kubernetes.
const DISCOVERY: [&str; 13] = [
    "/api",
    "/api/",
    "/api/v1",
    "/apis",
    "/apis/",
    "/apis/apps",
    "/apis/apps/v1",
    "/apis/example.com/v1",
    "/apis/unknown.example/v1",
    "/openapi/v2",
    "/openapi/v3",
    "/openapi/v3/api/v1",
    "/openapi/v3/unknown",
];

/// Paths that anonymous users may read, if anonymous requests are allowed, from the ClusterRole
/// `system:public-info-viewer` of Kubernetes.
const PUBLIC: [&str; 2] = ["/version", "/version/"];

/// Reviews that users may create about themselves, from the ClusterRole `system:basic-user` of Kubernetes.
const QUESTIONS: [&str; 3] = [
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
    "/apis/authentication.k8s.io/v1/selfsubjectreviews",
];

/// Paths beside objects that need a permission of their own.
const OTHERS: [&str; 22] = [
    "/",
    "/metrics",
    "/metrics/",
    "/metrics/cadvisor",
    "/logs",
    "/debug/pprof/",
    "/configz",
    "/foo",
    "/version/x",
    "/apiz",
    "/API/v1",
    "/clusters",
    "/clusters/t",
    "/clusters/t/metrics",
    "/clusters/t/clusters/u/api",
    "/.well-known/openid-configuration",
    "/openid/v1/jwks",
    "/api/v1/unknowns",
    "/api/v1/namespaces/ns/unknowns/x/y",
    "/apis/unknown.example/v1/things/x",
    "/apis/apps/v9/deployments",
    "/api/v1/proxy/namespaces/ns/pods/x",
];

/// All paths of the objects of a kind.
fn of_kind(declaration: &Declaration) -> Vec<String> {
    let mut paths = Vec::new();
    for version in &declaration.versions {
        let base = match &*declaration.group {
            "" => format!("/api/{version}"),
            group => format!("/apis/{group}/{version}"),
        };
        let mut places = vec![String::new()];
        if declaration.scope == Scope::Namespaced {
            places.push("/namespaces/ns".to_owned());
        }
        for place in places {
            let all = format!("{base}{place}/{}", declaration.plural);
            let one = format!("{all}/x");
            let parts = declaration.subresources.iter().map(|part| &*part.name).chain(["unknown"]);
            paths.extend(parts.map(|part| format!("{one}/{part}")));
            paths.extend(["proxy/x", "proxy/x/../../y"].map(|rest| format!("{one}/{rest}")));
            paths.extend(
                ["?watch=1", "?fieldSelector=metadata.name=x", "/"].map(|rest| format!("{all}{rest}")),
            );
            paths.push(format!("{base}/watch{place}/{}", declaration.plural));
            paths.push(format!("{base}/watch{place}/{}/x", declaration.plural));
            paths.extend([all, one]);
        }
    }
    paths
}

fn all_paths() -> Vec<String> {
    let boats = Declaration::new("example.com", &["v1"], "Boat", "boats", "boat", Scope::Namespaced);
    let built_in = catalog::BUILT_IN.iter().map(|kind| kind.declaration());
    let mut paths: Vec<String> = built_in.chain([&boats]).flat_map(of_kind).collect();
    paths.extend(DISCOVERY.iter().chain(&PUBLIC).chain(&OTHERS).map(|path| (*path).to_owned()));
    paths
}

/// Requests every path with every method, in both forms, and returns the requests that were wrongly allowed or wrongly
/// rejected.
async fn walk(client: &Client, is_open: impl Fn(&Method, &str) -> bool) -> Vec<String> {
    let mut wrong = Vec::new();
    for path in all_paths() {
        for method in METHODS {
            let open = is_open(&method, &path);
            let elsewhere = format!("/clusters/tenant{path}");
            let forms = if path.starts_with("/clusters") {
                vec![path.clone()]
            } else {
                vec![path.clone(), elsewhere]
            };
            for form in forms {
                let code = client.code(&method, &form).await;
                if matches!(code, 401 | 403) == open {
                    wrong.push(format!("{method} {form}: {code}"));
                }
            }
        }
    }
    wrong
}

async fn with_boats() -> Client {
    let admin = admin().await;
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    let names = json!({"plural": "boats", "singular": "boat", "kind": "Boat", "listKind": "BoatList"});
    let definition = json!({
        "metadata": {"name": "boats.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": names,
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    });
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let (code, mut definition) = admin.post(path, definition).await;
    assert_eq!(code, 201, "{definition}");
    definition["status"]["acceptedNames"] = names;
    definition["status"]["conditions"] = json!([
        {"type": "NamesAccepted", "status": "True", "reason": "NoConflicts", "message": ""},
        {"type": "Established", "status": "True", "reason": "InitialNamesAccepted", "message": ""},
    ]);
    let path = format!("{path}/boats.example.com/status");
    let (code, answer) = admin.send(Method::PUT, &path, "application/json", definition).await;
    assert_eq!(code, 200, "{answer}");
    assert_eq!(admin.code(&Method::GET, "/apis/example.com/v1/namespaces/ns/boats").await, 200);
    admin
}

fn is_read(method: &Method, path: &str, open: &[&str]) -> bool {
    *method == Method::GET && open.contains(&path)
}

#[tokio::test]
async fn a_user_without_roles_gets_nothing_but_discovery() {
    let user = with_boats().await.user("jane");
    let wrong = walk(&user, |method, path| {
        let asks = |question: &&str| path == *question || path.strip_prefix(*question) == Some("/x");
        let asks_about_self = QUESTIONS.iter().any(|question| {
            asks(question)
                || [format!("{question}?watch=1"), format!("{question}/")].iter().any(|one| one == path)
                || path == format!("{question}?fieldSelector=metadata.name=x")
        });
        *method == Method::POST && asks_about_self
            || is_read(method, path, &DISCOVERY)
            || is_read(method, path, &PUBLIC)
    });
    assert_eq!(wrong.await, [""; 0]);
}

#[tokio::test]
async fn anonymous_user_may_read_the_version_only() {
    let anonymous = with_boats().await.named("system:anonymous", &["system:unauthenticated"]);
    let wrong = walk(&anonymous, |method, path| is_read(method, path, &PUBLIC)).await;
    assert_eq!(wrong, [""; 0]);
}

#[tokio::test]
async fn client_without_credentials_is_rejected_on_every_path_but_health() {
    let admin = with_boats().await;
    let stranger = admin.stranger();
    let wrong = walk(&stranger, |_, _| false).await;
    assert_eq!(wrong, [""; 0]);
    for path in ["/healthz", "/livez", "/readyz", "/livez/ping"] {
        assert_eq!(stranger.code(&Method::GET, path).await, 200, "{path} is for everyone");
        assert_eq!(stranger.code(&Method::POST, path).await, 403, "{path}");
        assert_eq!(admin.code(&Method::POST, path).await, 200, "{path}");
    }
}

#[tokio::test]
async fn system_masters_may_read_every_path() {
    let admin = with_boats().await;
    // Watches are excluded, since they last until the client disconnects, and so are deletions, which would remove
    // objects that other requests need.
    for path in all_paths().iter().filter(|path| !path.contains("watch")) {
        let code = admin.code(&Method::GET, path).await;
        assert!(!matches!(code, 401 | 403), "{path}: {code}");
    }
}
