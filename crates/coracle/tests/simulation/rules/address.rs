//! No two services have the same address.

use super::Rule;
use crate::history::Change;
use crate::scenario::NAMESPACE_PREFIX;
use crate::state::{SERVICES, State, name, namespace, text};

pub(super) struct Addresses {
    namespaces: Vec<String>,
}

impl Addresses {
    pub(super) fn new(scenarios: u64) -> Self {
        Self { namespaces: (0..scenarios).map(|number| format!("{NAMESPACE_PREFIX}{number}")).collect() }
    }
}

impl Rule for Addresses {
    fn check(&mut self, change: &Change, state: &State) -> Result<(), String> {
        let Some(service) = change.now().filter(|_| change.resource == SERVICES) else { return Ok(()) };
        let ip = text(service, "/spec/clusterIP");
        let own = (namespace(service), name(service));
        let mut others = self.namespaces.iter().flat_map(|namespace| state.list(SERVICES, namespace));
        let other = others.find(|other| {
            (namespace(other), name(other)) != own && text(other, "/spec/clusterIP") == ip && ip != "None"
        });
        other.map_or(Ok(()), |other| Err(format!("{} and {} both have {ip}", own.1, name(other))))
    }
}
