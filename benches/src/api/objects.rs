//! Objects and requests of the loads.

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{Method, Request};

use crate::client::Outgoing;

pub(crate) const JSON: &str = "application/json";
pub(crate) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const AGGREGATED_DISCOVERY: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
const MERGE_PATCH: &str = "application/merge-patch+json";
const APPLY_PATCH: &str = "application/apply-patch+yaml";

/// Payload size with which an encoded ConfigMap has 1 KiB.
const PAYLOAD_BYTES: usize = 910;

/// One in this many pods has a given value of the label `shard`.
pub(crate) const SHARDS: u64 = 100;

/// The namespace of all objects.
pub(crate) struct Namespace {
    pub(crate) name: String,
    payload: String,
}

impl Namespace {
    pub(crate) fn new(name: String) -> Self {
        // Varied letters, in case a server compresses them.
        let payload = (0..PAYLOAD_BYTES).map(|n| char::from(b'a' + (n * 7 % 26) as u8)).collect();
        Self { name, payload }
    }

    fn path(&self, resource: &str) -> String {
        format!("/api/v1/namespaces/{}/{resource}", self.name)
    }

    pub(crate) fn create(&self) -> Outgoing {
        let body =
            format!(r#"{{"apiVersion":"v1","kind":"Namespace","metadata":{{"name":"{}"}}}}"#, self.name);
        with_body(Method::POST, "/api/v1/namespaces", JSON, body)
    }

    pub(crate) fn delete(&self) -> Outgoing {
        without_body(Method::DELETE, &format!("/api/v1/namespaces/{}", self.name), JSON)
    }

    /// Deletes all objects of a resource with one request.
    pub(crate) fn delete_all(&self, resource: &str) -> Outgoing {
        without_body(Method::DELETE, &self.path(resource), JSON)
    }

    /// The ServiceAccount admission plugin rejects pods without it; usually a controller creates it.
    pub(crate) fn create_service_account(&self) -> Outgoing {
        let body = r#"{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"default"}}"#;
        with_body(Method::POST, &self.path("serviceaccounts"), JSON, body.to_owned())
    }

    pub(crate) fn create_config_map(&self, number: u64) -> Outgoing {
        let body = format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"map-{number}","labels":{{"app":"bench"}}}},"data":{{"payload":"{}"}}}}"#,
            self.payload
        );
        with_body(Method::POST, &self.path("configmaps"), JSON, body)
    }

    pub(crate) fn create_pod(&self, number: u64) -> Outgoing {
        let shard = number % SHARDS;
        let body = format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"pod-{number}","labels":{{"app":"bench","shard":"{shard}"}}}},"spec":{{"automountServiceAccountToken":false,"containers":[{{"name":"main","image":"registry.example/app:1.0","ports":[{{"containerPort":8080}}],"resources":{{"requests":{{"cpu":"100m","memory":"64Mi"}}}}}}]}}}}"#
        );
        with_body(Method::POST, &self.path("pods"), JSON, body)
    }

    pub(crate) fn get_config_map(&self, number: u64, accept: &str) -> Outgoing {
        without_body(Method::GET, &self.path(&format!("configmaps/map-{number}")), accept)
    }

    /// Changes one value of an existing object.
    pub(crate) fn merge_patch(&self, name: &str, number: u64) -> Outgoing {
        let path = self.path(&format!("configmaps/{name}"));
        with_body(Method::PATCH, &path, MERGE_PATCH, format!(r#"{{"data":{{"seq":"{number}"}}}}"#))
    }

    /// Creates the object on the first apply, changes one value of it later.
    pub(crate) fn apply(&self, object: u64, number: u64) -> Outgoing {
        let path = self.path(&format!("configmaps/applied-{object}?fieldManager=coracle-bench&force=true"));
        let body = format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"applied-{object}","labels":{{"app":"bench"}}}},"data":{{"seq":"{number}","other":"same"}}}}"#
        );
        with_body(Method::PATCH, &path, APPLY_PATCH, body)
    }

    /// A small object whose number watchers find in the event.
    pub(crate) fn create_event_source(&self, number: u64) -> Outgoing {
        let body = format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"event-{number}"}},"data":{{"seq":"{number}"}}}}"#
        );
        with_body(Method::POST, &self.path("configmaps"), JSON, body)
    }

    /// `query` begins with `?` or is empty.
    pub(crate) fn list(&self, resource: &str, query: &str, accept: &str) -> Outgoing {
        without_body(Method::GET, &(self.path(resource) + query), accept)
    }
}

/// A GET of any path.
pub(crate) fn get(path: &str) -> Outgoing {
    without_body(Method::GET, path, JSON)
}

/// Aggregated discovery, as recent clients request it.
pub(crate) fn aggregated_discovery() -> Outgoing {
    without_body(Method::GET, "/apis", AGGREGATED_DISCOVERY)
}

/// A POST of any object.
pub(crate) fn post(path: &str, body: String) -> Outgoing {
    with_body(Method::POST, path, JSON, body)
}

/// A DELETE of any path.
pub(crate) fn delete(path: &str) -> Outgoing {
    without_body(Method::DELETE, path, JSON)
}

fn without_body(method: Method, path: &str, accept: &str) -> Outgoing {
    build(Request::builder().method(method).uri(path).header(ACCEPT, accept), Bytes::new())
}

fn with_body(method: Method, path: &str, content_type: &str, body: String) -> Outgoing {
    let request = Request::builder().method(method).uri(path);
    build(request.header(CONTENT_TYPE, content_type).header(ACCEPT, JSON), Bytes::from(body))
}

fn build(request: http::request::Builder, body: Bytes) -> Outgoing {
    request.body(body).expect("paths are made of names and numbers")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(request: Outgoing) -> serde_json::Value {
        serde_json::from_slice(request.body()).unwrap()
    }

    #[test]
    fn every_body_is_an_object_with_its_name() {
        let namespace = Namespace::new("bench".to_owned());
        assert_eq!(body(namespace.create())["metadata"]["name"], "bench");
        assert_eq!(body(namespace.create_pod(207))["metadata"]["labels"]["shard"], "7");
        assert_eq!(body(namespace.apply(3, 9))["data"]["seq"], "9");
        assert_eq!(body(namespace.merge_patch("map-3", 9))["data"]["seq"], "9");
        assert_eq!(body(namespace.create_event_source(4))["metadata"]["name"], "event-4");
    }

    #[test]
    fn a_config_map_has_a_kibibyte() {
        let length = Namespace::new("bench".to_owned()).create_config_map(1234).body().len();
        assert!((1000..=1050).contains(&length), "{length}");
    }
}
