//! A DaemonSet with a node selector.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::workload::{image_of, template, write};
use super::{Scenario, Stage};
use crate::control_plane;
use crate::state::{
    DAEMON_SETS, NODES, PODS, State, app, format_pods, image, is_going, is_ready, name, number, text,
};

const NAME: &str = "agent";

#[derive(Default)]
pub(super) struct Daemons {
    version: u64,
}

impl Daemons {
    async fn update(&mut self, stage: &mut Stage) {
        self.version += 1;
        let mut template = template(stage, NAME, self.version);
        template["spec"]["nodeSelector"] = json!({stage.namespace.clone(): "yes"});
        let set = json!({"metadata": {"name": NAME}, "spec": {
            "selector": {"matchLabels": {"app": NAME}}, "template": template,
        }});
        write(stage, &stage.path("apps/v1", DAEMON_SETS), &set).await;
    }
}

impl Scenario for Daemons {
    async fn change(&mut self, stage: &mut Stage) {
        match stage.rng.below(5) {
            _ if self.version == 0 => {
                choose_a_node(stage).await;
                self.update(stage).await;
            }
            0 => stage.delete_a_pod().await,
            1 | 2 => choose_a_node(stage).await,
            _ => self.update(stage).await,
        }
    }

    fn differences(&self, namespace: &str, state: &State) -> Vec<String> {
        let pods: Vec<_> = state.list(PODS, namespace).filter(|pod| app(pod) == NAME).collect();
        let is_right =
            |pod: &&&Value| image(pod) == image_of(self.version) && !is_going(pod) && is_ready(pod);
        let on: BTreeSet<_> = pods.iter().filter(is_right).map(|pod| text(pod, "/spec/nodeName")).collect();
        let wanted = if self.version == 0 { BTreeSet::new() } else { chosen(namespace, state) };
        let mut differences = Vec::new();
        if on != wanted || pods.len() != wanted.len() {
            differences.push(format!(
                "{NAME} {} should be on {wanted:?}: {}",
                self.version,
                format_pods(pods)
            ));
        }
        if let Some(set) = state.get(DAEMON_SETS, namespace, NAME) {
            let observed = number(set, "/status/observedGeneration") == number(set, "/metadata/generation");
            let updated = number(set, "/status/updatedNumberScheduled") == wanted.len() as u64;
            if !observed || !updated {
                differences.push(format!("{NAME} says {}", set["status"]));
            }
        }
        differences
    }
}

/// Adds or removes the label of a node.
async fn choose_a_node(stage: &mut Stage) {
    let node = format!("fake-{}", stage.rng.below(u64::from(control_plane::NODES)));
    let is_chosen = stage.history.look(|state| chosen(&stage.namespace, state).contains(node.as_str()));
    let label = if is_chosen { Value::Null } else { json!("yes") };
    let patch = json!({"metadata": {"labels": {stage.namespace.clone(): label}}});
    stage.users.patch(&format!("/api/v1/nodes/{node}"), &patch).await;
}

/// The nodes with the label. A recreated node does not have it.
fn chosen<'a>(namespace: &str, state: &'a State) -> BTreeSet<&'a str> {
    let is_chosen = |node: &&Value| node["metadata"]["labels"][namespace] == "yes";
    state.list(NODES, "").filter(is_chosen).map(name).collect()
}
