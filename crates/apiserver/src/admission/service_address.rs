//! ServiceAddress: creates an IPAddress with the allocator's label only while its Service has the address.
//!
//! The server allocates and releases addresses in the transactions of their Services. Otherwise only the repair
//! controller creates such objects, for Services that it has read before. The Service is a condition of the
//! transaction, so an address cannot be created after its Service is deleted, when nothing would release it.
//! kube-apiserver has no such rule: it allocates in two steps, and its repair loop removes leaked addresses after a
//! minute. IPAddress objects without the allocator's label are not affected.

use std::net::IpAddr;

use coracle_meta::object::Meta;
use coracle_registry::admission::{Attributes, BoxFuture, Operation};
use coracle_registry::kinds::core::service::Service;
use coracle_registry::{Error, Result, Subject, view};
use serde_json::Value;

use super::plugin::{Plugin, Rule, name_of, nothing_to_say};

const MANAGED_BY: &str = "ipaddress.kubernetes.io/managed-by";
const ALLOCATOR: &str = "ipallocator.k8s.io";

pub(super) struct ServiceAddress;

impl Plugin for ServiceAddress {
    fn name(&self) -> &str {
        "ServiceAddress"
    }

    fn validates(&self) -> Vec<Rule> {
        vec![Rule::new("networking.k8s.io", "ipaddresses", &[Operation::Create])]
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        address: &'a Value,
        _warnings: &'a mut Vec<String>,
    ) -> BoxFuture<'a, Result<()>> {
        let parent = |field: &str| view::text(address, &["spec", "parentRef", field]).to_owned();
        let is_allocated = Meta::of(address).label(MANAGED_BY) == Some(ALLOCATOR);
        if !is_allocated || !parent("group").is_empty() || parent("resource") != "services" {
            return nothing_to_say();
        }
        let (namespace, name) = (parent("namespace"), parent("name"));
        let allocation = Allocation {
            subject: Subject::of(attributes.write.kind.declaration(), name_of(attributes, address)),
            service: format!("{namespace}/{name}"),
        };
        Box::pin(async move {
            attributes.require(&Service, &namespace, &name, move |service| allocation.judge(service)).await
        })
    }
}

/// An address that refers to a Service.
struct Allocation {
    subject: Subject,
    service: String,
}

impl Allocation {
    fn judge(&self, service: Option<&Value>) -> Result<()> {
        let ip: Option<IpAddr> = self.subject.name.parse().ok();
        let held = service.map(|service| view::items(service, &["spec", "clusterIPs"])).unwrap_or_default();
        let mut held = held.iter().filter_map(|ip| ip.as_str()?.parse::<IpAddr>().ok());
        if held.any(|held| Some(held) == ip) {
            return Ok(());
        }
        let reason = format!("the Service {} does not exist or has another address", self.service);
        Err(Error::Conflict { subject: Box::new(self.subject.clone()), reason })
    }
}

#[cfg(test)]
mod tests {
    use coracle_registry::kinds::networking::ip_address::IpAddress;
    use serde_json::json;

    use super::super::testing::Bench;
    use super::*;

    const IP: &str = "10.96.0.77";

    fn address(labels: Value) -> Value {
        let parent = json!({"resource": "services", "namespace": "default", "name": "s"});
        json!({"metadata": {"name": IP, "labels": labels}, "spec": {"parentRef": parent}})
    }

    #[tokio::test]
    async fn allocated_address_is_rejected_unless_its_service_has_it() {
        let bench = Bench::new().await;
        let allocated = || address(json!({MANAGED_BY: ALLOCATOR}));
        let refused = bench.admit_new(ServiceAddress, &IpAddress, allocated()).await.unwrap_err();
        let message = "Operation cannot be fulfilled on ipaddresses.networking.k8s.io \"10.96.0.77\": \
                       the Service default/s does not exist or has another address";
        assert_eq!(refused, message);
        assert!(
            bench.admit_new(ServiceAddress, &IpAddress, address(json!({}))).await.is_ok(),
            "a user's own"
        );
        let spec = json!({"clusterIP": IP, "ports": [{"port": 80}]});
        bench.create(&Service, json!({"metadata": {"name": "s"}, "spec": spec})).await;
        assert!(bench.admit_new(ServiceAddress, &IpAddress, allocated()).await.is_ok());
    }
}
