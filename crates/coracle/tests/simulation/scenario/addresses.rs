//! Services with fixed addresses. They are deleted, and created again with the same address.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Context, NAMESPACE_PREFIX, Scenario};
use crate::state::{IP_ADDRESSES, SERVICES, State, name, text};

/// The number of services of a scenario.
const COUNT: usize = 2;

/// The number of changes to services in one change of the scenario.
const ROUNDS: u64 = 8;

/// The longest time between the deletion of a service and its recreation: longer than a watch lags.
const MAX_GONE_MS: u64 = 3_000;

#[derive(Default)]
pub(super) struct Addresses {
    /// True for the services that should exist.
    desired: [bool; COUNT],
}

fn service_name(index: usize) -> String {
    format!("fixed-{index}")
}

/// The address of a service, different in each scenario.
fn address(namespace: &str, index: usize) -> String {
    let number = namespace.trim_start_matches(NAMESPACE_PREFIX);
    format!("10.96.{number}.{}", 100 + index)
}

impl Addresses {
    async fn create(&mut self, context: &Context, index: usize) {
        let spec = json!({"clusterIP": address(&context.namespace, index), "ports": [{"port": 80}]});
        let service = json!({"metadata": {"name": service_name(index)}, "spec": spec});
        // An address that is still allocated is rejected with a code that no scenario expects.
        let created = context.users.create(&context.path("v1", SERVICES), &service).await;
        assert!(!created.is_null(), "the server rejects {service}");
        self.desired[index] = true;
    }

    async fn delete(&mut self, context: &Context, index: usize) {
        let path = format!("{}/{}", context.path("v1", SERVICES), service_name(index));
        context.users.delete(&path, &Value::Null).await;
        self.desired[index] = false;
    }
}

impl Scenario for Addresses {
    async fn change(&mut self, context: &mut Context) {
        for _ in 0..ROUNDS {
            let index = usize::try_from(context.rng.below(COUNT as u64)).unwrap();
            if self.desired[index] {
                self.delete(context, index).await;
                let pause = if context.rng.one_in(2) { 0 } else { context.rng.below(MAX_GONE_MS) };
                tokio::time::sleep(Duration::from_millis(pause)).await;
            }
            if !context.rng.one_in(4) {
                self.create(context, index).await;
            }
        }
    }

    fn differences(&self, namespace: &str, state: &State) -> Vec<String> {
        let differences = |index: usize| {
            let (service, ip) = (service_name(index), address(namespace, index));
            let found = state.get(SERVICES, namespace, &service);
            let is_right = found.is_some_and(|found| text(found, "/spec/clusterIP") == ip);
            (found.is_some() != self.desired[index] || self.desired[index] != is_right)
                .then(|| format!("{service} should be there with {ip}: {}", self.desired[index]))
        };
        (0..COUNT).filter_map(differences).collect()
    }
}

/// The difference between the IPAddress objects and the addresses of the services in a namespace.
pub(super) fn address_differences(namespace: &str, state: &State) -> Vec<String> {
    let held = |service: &Value| match text(service, "/spec/clusterIP") {
        "" | "None" => None,
        ip => Some((ip.to_owned(), name(service).to_owned())),
    };
    let mut held: Vec<_> = state.list(SERVICES, namespace).filter_map(held).collect();
    let is_here = |address: &&Value| text(address, "/spec/parentRef/namespace") == namespace;
    let allocated =
        |address: &Value| (name(address).to_owned(), text(address, "/spec/parentRef/name").to_owned());
    let mut allocated: Vec<_> = state.list(IP_ADDRESSES, "").filter(is_here).map(allocated).collect();
    held.sort();
    allocated.sort();
    let differs = held != allocated;
    differs.then(|| format!("services have {held:?}, allocated are {allocated:?}")).into_iter().collect()
}
