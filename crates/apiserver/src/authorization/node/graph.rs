//! The graph of objects that each node needs, because pods bound to it refer to them.
//!
//! A lookup takes constant time, however many pods there are; only secrets that volumes refer to require a scan of all
//! claims of one node.

use std::collections::HashMap;
use std::sync::Arc;

use coracle_registry::kinds::core::persistent_volume::{PersistentVolume, node_secrets};
use coracle_registry::kinds::core::pod::Pod;
use coracle_registry::kinds::core::pod::references::{
    claim_names, config_map_names, is_mirror, resource_claim_names, secret_names,
};
use coracle_registry::kinds::resource::resource_slice::ResourceSlice;
use coracle_registry::kinds::storage::volume_attachment::VolumeAttachment;
use coracle_registry::lifecycle::Place;
use coracle_registry::view;
use serde_json::Value;

use crate::cluster_cache::{ObjectIndex, Source};

/// Resources of the objects that pods refer to, as in paths.
pub(super) const SECRETS: &str = "secrets";
pub(super) const CONFIG_MAPS: &str = "configmaps";
pub(super) const SERVICE_ACCOUNTS: &str = "serviceaccounts";
pub(super) const CLAIMS: &str = "persistentvolumeclaims";
pub(super) const RESOURCE_CLAIMS: &str = "resourceclaims";

/// All relations in a cluster that the Node authorizer uses.
#[derive(Default)]
pub(super) struct Graph {
    /// Bound pods, by namespace and name.
    pods: HashMap<Box<str>, Bound>,
    /// Objects that each node needs, with the number of its pods that refer to them.
    nodes: HashMap<Arc<str>, HashMap<Arc<str>, u32>>,
    volumes: Volumes,
    /// The node of each volume attachment, by name.
    attachments: HashMap<Box<str>, Box<str>>,
    /// The node of each resource slice, by name.
    slices: HashMap<Box<str>, Box<str>>,
}

/// A pod that is bound to a node.
#[derive(PartialEq, Eq)]
struct Bound {
    node: Arc<str>,
    needs: Vec<Arc<str>>,
}

/// Persistent volumes that are bound to a claim.
#[derive(Default)]
struct Volumes {
    by_name: HashMap<Box<str>, Volume>,
    by_claim: HashMap<Box<str>, Vec<Box<str>>>,
    /// How many volumes refer to a secret.
    secrets: HashMap<Box<str>, u32>,
}

#[derive(PartialEq, Eq)]
struct Volume {
    claim: Box<str>,
    secrets: Vec<Box<str>>,
}

impl ObjectIndex for Graph {
    const SOURCES: &'static [Source] = &[
        Source::Kind(&Pod),
        Source::Kind(&PersistentVolume),
        Source::Kind(&VolumeAttachment),
        Source::Kind(&ResourceSlice),
    ];

    fn note(&mut self, place: Place<'_>, object: Option<&Value>) {
        let Place { plural, namespace, name } = place;
        match plural {
            "pods" => self.note_pod(namespace, name, object),
            "persistentvolumes" => self.note_volume(name, object),
            "volumeattachments" => self.note_attachment(name, object),
            "resourceslices" => self.note_slice(name, object),
            _ => {}
        }
    }
}

impl Graph {
    /// Records a pod; None if it was deleted.
    pub(super) fn note_pod(&mut self, namespace: &str, name: &str, pod: Option<&Value>) {
        let key = format!("{namespace}/{name}");
        let new = pod.and_then(|pod| bound(namespace, pod));
        // Most updates change only the status.
        if self.pods.get(&*key) == new.as_ref() {
            return;
        }
        if let Some(old) = self.pods.remove(&*key) {
            self.release(&old);
        }
        if let Some(mut new) = new {
            self.hold(&mut new);
            self.pods.insert(key.into(), new);
        }
    }

    /// Records a volume; None if it was deleted.
    pub(super) fn note_volume(&mut self, name: &str, volume: Option<&Value>) {
        self.volumes.note(name, volume.and_then(given_volume));
    }

    /// Records an attachment; None if it was deleted.
    pub(super) fn note_attachment(&mut self, name: &str, attachment: Option<&Value>) {
        note_node(&mut self.attachments, name, attachment);
    }

    /// Records a slice; None if it was deleted.
    pub(super) fn note_slice(&mut self, name: &str, slice: Option<&Value>) {
        note_node(&mut self.slices, name, slice);
    }

    /// Returns true if a pod is bound to a node.
    pub(super) fn has_pod(&self, node: &str, namespace: &str, name: &str) -> bool {
        self.pods.get(&*format!("{namespace}/{name}")).is_some_and(|pod| *pod.node == *node)
    }

    /// Returns true if a pod of a node refers to an object, or a volume of the pod does.
    pub(super) fn needs(&self, node: &str, resource: &str, namespace: &str, name: &str) -> bool {
        let Some(needs) = self.nodes.get(node) else { return false };
        let key = key(resource, namespace, name);
        needs.contains_key(&*key) || resource == SECRETS && self.volumes.need(needs, &key)
    }

    /// Returns true if a volume is bound to a claim of a pod of a node.
    pub(super) fn needs_volume(&self, node: &str, name: &str) -> bool {
        let (needs, volume) = (self.nodes.get(node), self.volumes.by_name.get(name));
        needs.zip(volume).is_some_and(|(needs, volume)| needs.contains_key(&*volume.claim))
    }

    /// Returns true if a volume attachment belongs to a node.
    pub(super) fn has_attachment(&self, node: &str, name: &str) -> bool {
        self.attachments.get(name).is_some_and(|of| **of == *node)
    }

    /// Returns true if a resource slice belongs to a node.
    pub(super) fn has_slice(&self, node: &str, name: &str) -> bool {
        self.slices.get(name).is_some_and(|of| **of == *node)
    }

    /// Counts the objects that a pod needs, and shares the allocation of keys that exist already.
    fn hold(&mut self, pod: &mut Bound) {
        if let Some((known, _)) = self.nodes.get_key_value(&pod.node) {
            pod.node = known.clone();
        }
        let needs = self.nodes.entry(pod.node.clone()).or_default();
        for need in &mut pod.needs {
            if let Some((known, _)) = needs.get_key_value(need) {
                *need = known.clone();
            }
            *needs.entry(need.clone()).or_default() += 1;
        }
    }

    fn release(&mut self, pod: &Bound) {
        let Some(needs) = self.nodes.get_mut(&pod.node) else { return };
        for need in &pod.needs {
            count_down(needs, need);
        }
        if needs.is_empty() {
            self.nodes.remove(&pod.node);
        }
    }
}

impl Volumes {
    fn note(&mut self, name: &str, new: Option<Volume>) {
        if self.by_name.get(name) == new.as_ref() {
            return;
        }
        if let Some(old) = self.by_name.remove(name) {
            old.secrets.iter().for_each(|secret| count_down(&mut self.secrets, secret));
            if let Some(names) = self.by_claim.get_mut(&old.claim) {
                names.retain(|other| **other != *name);
                if names.is_empty() {
                    self.by_claim.remove(&old.claim);
                }
            }
        }
        if let Some(new) = new {
            for secret in &new.secrets {
                *self.secrets.entry(secret.clone()).or_default() += 1;
            }
            self.by_claim.entry(new.claim.clone()).or_default().push(name.into());
            self.by_name.insert(name.into(), new);
        }
    }

    /// Returns true if a volume bound to one of these claims refers to a secret.
    fn need(&self, needs: &HashMap<Arc<str>, u32>, secret: &str) -> bool {
        if !self.secrets.contains_key(secret) {
            return false;
        }
        let volumes = needs.keys().filter_map(|claim| self.by_claim.get(&**claim)).flatten();
        let mut volumes = volumes.filter_map(|name| self.by_name.get(name));
        volumes.any(|volume| volume.secrets.iter().any(|own| **own == *secret))
    }
}

fn count_down<K: std::hash::Hash + Eq + std::borrow::Borrow<str>>(counts: &mut HashMap<K, u32>, key: &str) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

fn key(resource: &str, namespace: &str, name: &str) -> String {
    format!("{resource}/{namespace}/{name}")
}

/// The objects that a pod refers to, if it is bound to a node.
fn bound(namespace: &str, pod: &Value) -> Option<Bound> {
    let node = Some(view::text(pod, &["spec", "nodeName"])).filter(|node| !node.is_empty())?;
    let mut needs: Vec<Arc<str>> = Vec::new();
    // A mirror pod is created by the node itself, which must not gain access by it.
    if !is_mirror(pod) {
        let mut need = |resource: &str, name: &str| needs.push(key(resource, namespace, name).into());
        let account = view::text(pod, &["spec", "serviceAccountName"]);
        if !account.is_empty() {
            need(SERVICE_ACCOUNTS, account);
        }
        secret_names(pod).for_each(|name| need(SECRETS, name));
        config_map_names(pod).for_each(|name| need(CONFIG_MAPS, name));
        claim_names(pod).for_each(|name| need(CLAIMS, &name));
        resource_claim_names(pod).for_each(|name| need(RESOURCE_CLAIMS, name));
        needs.sort_unstable();
        needs.dedup();
    }
    Some(Bound { node: node.into(), needs })
}

fn given_volume(volume: &Value) -> Option<Volume> {
    let claim = view::at(volume, &["spec", "claimRef"])?;
    let [namespace, name] = ["namespace", "name"].map(|field| view::text(claim, &[field]));
    let secrets = node_secrets(volume).map(|(namespace, name)| key(SECRETS, namespace, name).into());
    Some(Volume { claim: key(CLAIMS, namespace, name).into(), secrets: secrets.collect() })
}

fn note_node(nodes: &mut HashMap<Box<str>, Box<str>>, name: &str, object: Option<&Value>) {
    match object.map(|object| view::text(object, &["spec", "nodeName"])).filter(|node| !node.is_empty()) {
        Some(node) => drop(nodes.insert(name.into(), node.into())),
        None => drop(nodes.remove(name)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(node: &str, secret: &str, claim: &str) -> Value {
        json!({
            "metadata": {"name": "p"},
            "spec": {
                "nodeName": node, "serviceAccountName": "s",
                "volumes": [
                    {"name": "a", "secret": {"secretName": secret}},
                    {"name": "b", "configMap": {"name": "m"}},
                    {"name": "c", "persistentVolumeClaim": {"claimName": claim}},
                ],
                "resourceClaims": [{"name": "r", "resourceClaimName": "r"}],
            },
        })
    }

    #[test]
    fn node_needs_objects_only_while_its_pods_refer_to_them() {
        let mut graph = Graph::default();
        graph.note_pod("n", "p", Some(&pod("a", "x", "c")));
        graph.note_pod("n", "q", Some(&pod("b", "y", "d")));
        let all = |name: &'static str| {
            [(SECRETS, name), (CONFIG_MAPS, "m"), (SERVICE_ACCOUNTS, "s"), (RESOURCE_CLAIMS, "r")]
        };
        for (resource, name) in all("x") {
            assert!(graph.needs("a", resource, "n", name), "{resource}");
            assert!(!graph.needs("a", resource, "other", name), "{resource}");
        }
        assert!(!graph.needs("b", SECRETS, "n", "x") && graph.needs("b", SECRETS, "n", "y"));
        assert!(graph.has_pod("a", "n", "p") && !graph.has_pod("b", "n", "p"));
        graph.note_pod("n", "p2", Some(&pod("a", "x", "c")));
        graph.note_pod("n", "p", None);
        assert!(graph.needs("a", SECRETS, "n", "x"), "another pod needs it");
        graph.note_pod("n", "p2", Some(&pod("b", "x", "c")));
        for (resource, name) in all("x") {
            assert!(!graph.needs("a", resource, "n", name), "{resource}");
        }
        graph.note_pod("n", "p2", None);
        graph.note_pod("n", "q", None);
        assert!(graph.nodes.is_empty() && graph.pods.is_empty());
    }

    #[test]
    fn volumes_are_needed_through_their_claims() {
        let mut graph = Graph::default();
        let volume = |claim: &str| {
            json!({"spec": {
                "claimRef": {"namespace": "n", "name": claim},
                "csi": {"nodePublishSecretRef": {"namespace": "vault", "name": "key"}},
            }})
        };
        graph.note_volume("v", Some(&volume("c")));
        assert!(!graph.needs_volume("a", "v"));
        graph.note_pod("n", "p", Some(&pod("a", "x", "c")));
        assert!(graph.needs_volume("a", "v") && graph.needs("a", SECRETS, "vault", "key"));
        assert!(!graph.needs_volume("b", "v") && !graph.needs("b", SECRETS, "vault", "key"));
        graph.note_volume("v", Some(&volume("other")));
        assert!(!graph.needs_volume("a", "v") && !graph.needs("a", SECRETS, "vault", "key"));
        graph.note_volume("v", Some(&volume("c")));
        assert!(graph.needs("a", SECRETS, "vault", "key"));
        graph.note_volume("v", None);
        assert!(!graph.needs("a", SECRETS, "vault", "key"));
        let Volumes { by_name, by_claim, secrets } = &graph.volumes;
        assert!(by_name.is_empty() && by_claim.is_empty() && secrets.is_empty());
    }

    #[test]
    fn mirror_pod_grants_nothing_to_its_node() {
        let mut graph = Graph::default();
        let mut mirror = pod("a", "x", "c");
        mirror["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": ""});
        graph.note_pod("n", "p", Some(&mirror));
        assert!(graph.has_pod("a", "n", "p"));
        assert!(!graph.needs("a", SECRETS, "n", "x") && !graph.needs("a", SERVICE_ACCOUNTS, "n", "s"));
    }

    #[test]
    fn attachments_and_slices_belong_to_one_node() {
        let mut graph = Graph::default();
        let of = |node: &str| json!({"spec": {"nodeName": node}});
        graph.note_attachment("x", Some(&of("a")));
        graph.note_slice("x", Some(&of("b")));
        assert!(graph.has_attachment("a", "x") && !graph.has_attachment("b", "x"));
        assert!(graph.has_slice("b", "x") && !graph.has_slice("a", "x"));
        graph.note_slice("x", Some(&json!({"spec": {"allNodes": true}})));
        graph.note_attachment("x", None);
        assert!(!graph.has_attachment("a", "x") && !graph.has_slice("b", "x"));
    }
}
