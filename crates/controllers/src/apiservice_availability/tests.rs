//! The condition of an APIService, by its service and endpoints.

use std::sync::Arc;

use serde_json::{Value, json};

use super::plan::{Availability, judge};
use crate::view::{EndpointSlice, Service};

fn availability(service: Value, conditions: Value) -> Option<Availability> {
    let spec = json!({
        "group": "example.com", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1,
        "service": service,
    });
    let status = serde_json::from_value(json!({"conditions": conditions})).unwrap();
    Availability::of(&serde_json::from_value(spec).unwrap(), &status)
}

fn remote() -> Availability {
    availability(json!({"namespace": "n", "name": "s", "port": 443}), json!([])).unwrap()
}

fn service(r#type: &str, port: i32) -> Service {
    let ports = json!([{"name": "https", "port": port}]);
    let spec = json!({"type": r#type, "clusterIP": "10.0.0.1", "ports": ports});
    serde_json::from_value(json!({"spec": spec})).unwrap()
}

fn slice(ready: bool, port_name: &str) -> Arc<EndpointSlice> {
    let endpoints = json!([{"addresses": ["10.1.0.1"], "conditions": {"ready": ready}}]);
    let ports = json!([{"name": port_name, "port": 8443}]);
    Arc::new(serde_json::from_value(json!({"endpoints": endpoints, "ports": ports})).unwrap())
}

fn check(service: Option<&Service>, slices: &[Arc<EndpointSlice>], reason: &str, message: &str) {
    let verdict = judge(&remote(), service, slices);
    assert_eq!((verdict.status, verdict.reason, &*verdict.message), ("False", reason, message));
}

#[test]
fn api_service_with_a_service_is_unavailable_for_the_reason_of_kube_aggregator() {
    check(None, &[], "ServiceNotFound", "service/s in \"n\" is not present");
    let message = "service/s in \"n\" is not listening on port 443";
    check(Some(&service("ClusterIP", 80)), &[], "ServicePortError", message);
    let found = service("ClusterIP", 443);
    check(Some(&found), &[], "EndpointsNotFound", "cannot find endpointslices for service/s in \"n\"");
    let message = "endpointslices for service/s in \"n\" have no addresses with port name \"https\"";
    for slice in [slice(false, "https"), slice(true, "other")] {
        check(Some(&found), &[slice], "MissingEndpoints", message);
    }
    let message = "failing or missing response from https://10.0.0.1:443/apis/example.com/v1: aggregated API servers are not implemented";
    check(Some(&found), &[slice(true, "https")], "FailedDiscoveryCheck", message);
    check(Some(&service("LoadBalancer", 80)), &[], "FailedDiscoveryCheck", message);
}

#[test]
fn local_api_service_is_available() {
    let local = |status: &str, reason: &str| {
        let message = "Local APIServices are always available";
        json!([{"type": "Available", "status": status, "reason": reason, "message": message}])
    };
    assert!(availability(Value::Null, local("True", "Local")).is_none());
    for conditions in [json!([]), local("False", "ServiceNotFound")] {
        let stale = availability(Value::Null, conditions).unwrap();
        let verdict = judge(&stale, None, &[]);
        assert_eq!((verdict.status, verdict.reason), ("True", "Local"));
    }
}
