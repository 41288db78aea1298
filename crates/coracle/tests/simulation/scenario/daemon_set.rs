//! A DaemonSet with a node selector.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::workload::{image_of, template, write};
use super::{Context, Scenario};
use crate::control_plane;
use crate::state::{
    DAEMON_SETS, NODES, PODS, State, app, format_pods, image, is_ready, is_terminating, name, number, text,
};

const NAME: &str = "agent";

#[derive(Default)]
pub(super) struct DaemonSet {
    version: u64,
}

impl DaemonSet {
    async fn update(&mut self, context: &mut Context) {
        self.version += 1;
        let mut template = template(context, NAME, self.version);
        template["spec"]["nodeSelector"] = json!({context.namespace.clone(): "yes"});
        let set = json!({"metadata": {"name": NAME}, "spec": {
            "selector": {"matchLabels": {"app": NAME}}, "template": template,
        }});
        write(context, &context.path("apps/v1", DAEMON_SETS), &set).await;
    }
}

impl Scenario for DaemonSet {
    async fn change(&mut self, context: &mut Context) {
        match context.rng.below(5) {
            _ if self.version == 0 => {
                toggle_node(context).await;
                self.update(context).await;
            }
            0 => context.delete_a_pod().await,
            1 | 2 => toggle_node(context).await,
            _ => self.update(context).await,
        }
    }

    fn differences(&self, namespace: &str, state: &State) -> Vec<String> {
        let pods: Vec<_> = state.list(PODS, namespace).filter(|pod| app(pod) == NAME).collect();
        let is_right =
            |pod: &&&Value| image(pod) == image_of(self.version) && !is_terminating(pod) && is_ready(pod);
        let on: BTreeSet<_> = pods.iter().filter(is_right).map(|pod| text(pod, "/spec/nodeName")).collect();
        let desired = if self.version == 0 { BTreeSet::new() } else { selected_nodes(namespace, state) };
        let mut differences = Vec::new();
        if on != desired || pods.len() != desired.len() {
            differences.push(format!(
                "{NAME} {} should be on {desired:?}: {}",
                self.version,
                format_pods(pods)
            ));
        }
        if let Some(set) = state.get(DAEMON_SETS, namespace, NAME) {
            let observed = number(set, "/status/observedGeneration") == number(set, "/metadata/generation");
            let updated = number(set, "/status/updatedNumberScheduled") == desired.len() as u64;
            if !observed || !updated {
                differences.push(format!("{NAME} has status {}", set["status"]));
            }
        }
        differences
    }
}

/// Adds or removes the label of a node.
async fn toggle_node(context: &mut Context) {
    let node = format!("fake-{}", context.rng.below(u64::from(control_plane::NODES)));
    let is_selected =
        context.history.with_state(|state| selected_nodes(&context.namespace, state).contains(node.as_str()));
    let label = if is_selected { Value::Null } else { json!("yes") };
    let patch = json!({"metadata": {"labels": {context.namespace.clone(): label}}});
    context.users.patch(&format!("/api/v1/nodes/{node}"), &patch).await;
}

/// The nodes with the label. A recreated node does not have it.
fn selected_nodes<'a>(namespace: &str, state: &'a State) -> BTreeSet<&'a str> {
    let is_selected = |node: &&Value| node["metadata"]["labels"][namespace] == "yes";
    state.list(NODES, "").filter(is_selected).map(name).collect()
}
