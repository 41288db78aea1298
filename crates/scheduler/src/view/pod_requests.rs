//! Effective requests of a pod: the sum of its containers, or the largest step of its initialization if
//! that is more (the rule of KEP-753 for sidecar containers).

use serde::Deserialize;

use super::resources::{ResourceList, Resources};

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct RawResources {
    pub(super) requests: ResourceList,
}

/// The resources of a container.
pub(super) struct ContainerRequests<'a> {
    /// Requests in the spec.
    pub(super) requests: &'a ResourceList,
    /// A restartable init container: it keeps running beside those after it.
    pub(super) is_sidecar: bool,
    /// Resources in the status, which differ from the spec during a resize.
    pub(super) reported: Option<ReportedResources<'a>>,
}

/// Resources of a container as reported by its node.
pub(super) struct ReportedResources<'a> {
    pub(super) actuated: &'a ResourceList,
    pub(super) allocated: &'a ResourceList,
}

/// The resources of a pod.
pub(super) struct PodRequests<'a> {
    pub(super) containers: Vec<ContainerRequests<'a>>,
    pub(super) init_containers: Vec<ContainerRequests<'a>>,
    /// Pod-level requests, which replace the sum of the containers.
    pub(super) pod_level: Option<&'a ResourceList>,
    pub(super) overhead: &'a ResourceList,
    /// The node reported that the requested resize is infeasible.
    pub(super) resize_is_infeasible: bool,
}

impl PodRequests<'_> {
    /// The effective requests.
    pub(super) fn total(&self) -> Resources {
        self.sum(Resources::of)
    }

    /// The effective requests with defaults for missing ones, used for scoring.
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
        let Some(reported) = &container.reported else { return of(container.requests) };
        let mut effective = of(reported.actuated);
        effective.raise_to(&Resources::of(reported.allocated));
        if !self.resize_is_infeasible {
            effective.raise_to(&of(container.requests));
        }
        effective
    }
}

/// True if the resource may be requested at pod level.
fn is_pod_level(name: &str) -> bool {
    name == "cpu" || name == "memory" || name.starts_with("hugepages-")
}
