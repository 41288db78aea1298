//! Services: with a selector, with a fixed address, with a node port.

use std::ops::Range;

use coracle::kube;
use coracle::kube::ResourceExt;
use coracle::kube::api::{Api, DeleteParams, ListParams, PostParams};
use futures_util::future::BoxFuture;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::networking::v1::IPAddress;
use serde_json::{Value, json};

use crate::server::Server;

/// Allocatable addresses of the range: without network address, broadcast address and the address of the
/// service `kubernetes`.
const FREE_ADDRESSES: usize = 13;

fn service(name: &str, spec: &Value) -> Service {
    serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap()
}

fn api(server: &Server) -> Api<Service> {
    Api::namespaced(server.client(), "default")
}

/// Creates and deletes one service for each number.
pub(crate) fn cycle(server: &Server, numbers: Range<usize>) -> BoxFuture<'_, ()> {
    Box::pin(async move {
        let services = api(server);
        for number in numbers {
            let ports = json!([{"port": 80}]);
            let spec = match number % 4 {
                0 => json!({"type": "NodePort", "ports": ports, "selector": {"app": "a"}}),
                1 => json!({"clusterIP": "10.0.0.9", "ports": ports}),
                2 => json!({"clusterIP": "None", "ports": ports, "selector": {"app": "a"}}),
                _ => json!({"ports": ports, "selector": {"app": "a"}}),
            };
            let name = format!("service-{}", number % 8);
            services.create(&PostParams::default(), &service(&name, &spec)).await.unwrap();
            services.delete(&name, &DeleteParams::default()).await.unwrap();
        }
        server.idle().await;
    })
}

/// Asserts that all addresses are free, and that no IPAddress is left but that of the service `kubernetes`.
pub(crate) fn check(server: &Server) -> BoxFuture<'_, ()> {
    Box::pin(async move {
        let addresses = Api::<IPAddress>::all(server.client()).list(&ListParams::default()).await.unwrap();
        let names: Vec<String> = addresses.iter().map(ResourceExt::name_any).collect();
        assert_eq!(names, ["10.0.0.1"]);
        let services = api(server);
        let spec = json!({"ports": [{"port": 80}]});
        let name = |number: usize| format!("all-{number}");
        for number in 0..FREE_ADDRESSES {
            let created = services.create(&PostParams::default(), &service(&name(number), &spec)).await;
            created
                .unwrap_or_else(|error| panic!("address {number} of {FREE_ADDRESSES} is not free: {error}"));
        }
        let full = services.create(&PostParams::default(), &service("one-more", &spec)).await;
        assert!(
            matches!(full, Err(kube::Error::Api(_))),
            "the range has more addresses than expected: {full:?}"
        );
        for number in 0..FREE_ADDRESSES {
            services.delete(&name(number), &DeleteParams::default()).await.unwrap();
        }
        server.idle().await;
    })
}
