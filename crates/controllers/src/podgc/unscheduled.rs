//! Deletes terminating pods that were never scheduled: no kubelet would ever delete them.

use coracle_runtime::{Action, Controller, Informer, Manager, ObjectKey, Reconcile};

use super::{Cause, PodDeletion};
use crate::view::Pod;

/// Name of the controller in logs.
const NAME: &str = "pod-garbage-collector-unscheduled";

const WITHOUT_NODE: Cause = Cause { label: "unscheduled", disruption: None };

pub(super) fn register(manager: &mut Manager, pods: &Informer<Pod>, deletion: &PodDeletion) {
    let reconcile = Unscheduled { pods: pods.clone(), deletion: deletion.clone() };
    let controller = Controller::new(NAME, reconcile).watches(pods, |change| {
        change.new.as_deref().filter(|pod| is_stuck(pod)).map(|_| change.key.clone())
    });
    manager.add(controller);
}

fn is_stuck(pod: &Pod) -> bool {
    pod.metadata.is_terminating() && pod.spec.node_name.is_empty()
}

struct Unscheduled {
    pods: Informer<Pod>,
    deletion: PodDeletion,
}

impl Reconcile for Unscheduled {
    type Error = kube::Error;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, kube::Error> {
        if let Some(pod) = self.pods.store().get(key).filter(|pod| is_stuck(pod)) {
            self.deletion.end(key, &pod, &WITHOUT_NODE).await?;
        }
        Ok(Action::AwaitChange)
    }
}
