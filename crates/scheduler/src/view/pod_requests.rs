//! How much a pod wants of a node, from what its containers say: together while they run, and at most what
//! the greediest step of its initialization needs (the rule of the proposal for sidecar containers).

use serde::Deserialize;

use super::resources::{ResourceList, Resources};

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct RawResources {
    pub(super) requests: ResourceList,
}

/// Of a container, what counts here.
pub(super) struct ContainerRequests<'a> {
    /// What it asks for.
    pub(super) requests: &'a ResourceList,
    /// It keeps running beside those after it.
    pub(super) is_sidecar: bool,
    /// What the node gave it, which differs while it is resized.
    pub(super) given: Option<Given<'a>>,
}

/// What a node reports of the resources of a container.
pub(super) struct Given<'a> {
    pub(super) actuated: &'a ResourceList,
    pub(super) allocated: &'a ResourceList,
}

/// What is wanted by a pod as a whole.
pub(super) struct PodRequests<'a> {
    pub(super) containers: Vec<ContainerRequests<'a>>,
    pub(super) init_containers: Vec<ContainerRequests<'a>>,
    /// What the pod asks for as one, in place of what its containers do.
    pub(super) pod_level: Option<&'a ResourceList>,
    pub(super) overhead: &'a ResourceList,
    /// The node said that it will never give what the specification asks for now.
    pub(super) resize_is_infeasible: bool,
}

impl PodRequests<'_> {
    /// What it takes of a node.
    pub(super) fn total(&self) -> Resources {
        self.sum(Resources::of)
    }

    /// What it counts as when nodes are compared.
    pub(super) fn assumed(&self) -> Resources {
        self.sum(Resources::assumed_of)
    }

    fn sum(&self, of: fn(&ResourceList) -> Resources) -> Resources {
        let mut total = Resources::default();
        for container in &self.containers {
            total.add(&self.effective(container, of));
        }
        let (mut sidecars, mut most) = (Resources::default(), Resources::default());
        for container in &self.init_containers {
            let mut needed = self.effective(container, of);
            if container.is_sidecar {
                total.add(&needed);
                sidecars.add(&needed);
                most.raise_to(&sidecars);
            } else {
                needed.add(&sidecars);
                most.raise_to(&needed);
            }
        }
        total.raise_to(&most);
        for (name, quantity) in self.pod_level.into_iter().flatten() {
            if is_pod_level(name) {
                total.set(name, quantity);
            }
        }
        total.add(&Resources::of(self.overhead));
        total
    }

    fn effective(&self, container: &ContainerRequests<'_>, of: fn(&ResourceList) -> Resources) -> Resources {
        let Some(given) = &container.given else { return of(container.requests) };
        let mut effective = of(given.actuated);
        effective.raise_to(&Resources::of(given.allocated));
        if !self.resize_is_infeasible {
            effective.raise_to(&of(container.requests));
        }
        effective
    }
}

/// Which resources may be asked for by a pod as one.
fn is_pod_level(name: &str) -> bool {
    name == "cpu" || name == "memory" || name.starts_with("hugepages-")
}
