//! Every route in the OpenAPI document, and some that are not.

use http::Method;
use serde_json::Value;

use crate::server::Server;

/// Routes that the OpenAPI document does not name.
const OTHERS: [&str; 7] = [
    "/metrics",
    "/openapi/v2",
    "/openapi/v3/api/v1",
    "/openid/v1/jwks",
    "/.well-known/openid-configuration",
    "/nothing",
    "/api/v1/namespaces/default/secrets?watch=true",
];

#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) method: Method,
    pub(crate) path: String,
}

impl Route {
    /// True if it is a read whose response ends by itself.
    pub(crate) fn is_short_read(&self) -> bool {
        let lasts = ["watch", "/proxy", "/exec", "/attach", "/portforward", "/log"];
        self.method == Method::GET && !lasts.iter().any(|part| self.path.contains(part))
    }
}

/// All routes within a cluster.
pub(crate) async fn all(server: &Server) -> Vec<Route> {
    let document = server.send(Method::GET, "/openapi/v2", &Value::Null).await;
    let mut routes = Vec::new();
    for (template, operations) in document["paths"].as_object().unwrap() {
        let path = filled(template);
        for method in operations.as_object().unwrap().keys().filter(|key| *key != "parameters") {
            let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
            routes.push(Route { method, path: path.clone() });
        }
    }
    let others = OTHERS.into_iter().map(|path| Route { method: Method::GET, path: path.to_owned() });
    routes.extend(others);
    routes
}

/// A path of the document with names in place of its parameters.
fn filled(template: &str) -> String {
    let segments = template.split('/').map(|segment| match segment {
        "{namespace}" => "default",
        segment if segment.starts_with('{') => "x",
        segment => segment,
    });
    segments.collect::<Vec<_>>().join("/")
}
