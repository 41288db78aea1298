//! Plans for StatefulSets as tables, and random simulations.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use coracle_base::{Rng, Timestamp};
use serde_json::{Value, json};

use super::claims::claim_name;
use super::identity::ordinal;
use super::object::{StatefulSet, Status};
use super::plan::{Observed, Plan, Step, plan};
use crate::view::{PersistentVolumeClaim, Pod};

const NOW: Timestamp = Timestamp::from_millis(1_000_000);

fn set(replicas: i32, more: Value) -> StatefulSet {
    let mut spec = json!({
        "replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": {"spec": {}},
        "minReadySeconds": 10, "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
    });
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    let metadata = json!({"name": "web", "namespace": "n", "uid": "set", "generation": 2});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
}

/// A pod as `ordinal:revision:state`. States are `a`vailable, `r`eady, `p`ending, `f`ailed, `d`eleted.
fn pod(text: &str) -> Arc<Pod> {
    let parts: Vec<_> = text.split(':').collect();
    let [ordinal, revision, state] = parts[..] else { panic!("{text}") };
    let ready_since = match state {
        "a" => Some("1970-01-01T00:00:00Z"),
        "r" => Some("1970-01-01T00:16:35Z"),
        _ => None,
    };
    let phase = match state {
        "f" => "Failed",
        "p" => "Pending",
        _ => "Running",
    };
    let conditions =
        ready_since.map(|since| json!([{"type": "Ready", "status": "True", "lastTransitionTime": since}]));
    let name = format!("web-{ordinal}");
    let labels = json!({"controller-revision-hash": revision, "statefulset.kubernetes.io/pod-name": name});
    let deleted = (state == "d").then_some("1970-01-01T00:16:00Z");
    let volumes = json!([{"name": "data", "persistentVolumeClaim": {"claimName": format!("data-{name}")}}]);
    let object = json!({
        "metadata": {"name": name, "namespace": "n", "uid": text, "labels": labels, "deletionTimestamp": deleted},
        "spec": {"volumes": volumes},
        "status": {"phase": phase, "conditions": conditions.unwrap_or_else(|| json!([]))},
    });
    Arc::new(serde_json::from_value(object).unwrap())
}

fn pods(text: &str) -> Vec<Arc<Pod>> {
    text.split_whitespace().map(pod).collect()
}

fn planned(set: &StatefulSet, pods: &[Arc<Pod>], claims: &BTreeMap<String, Value>) -> Plan {
    let claim = |name: &str| -> Option<Arc<PersistentVolumeClaim>> {
        Some(Arc::new(serde_json::from_value(claims.get(name)?.clone()).unwrap()))
    };
    let (current_revision, update_revision) = ("old", "new");
    plan(&Observed {
        set,
        pods,
        claim: &claim,
        current_revision,
        update_revision,
        collision_count: 0,
        now: NOW,
    })
}

fn text(plan: &Plan) -> String {
    let act = |act: &Step| match act {
        Step::Create { ordinal, is_updated: true } => format!("+{ordinal}"),
        Step::Create { ordinal, is_updated: false } => format!("+{ordinal}old"),
        Step::Delete(pod) => format!("-{}", ordinal("web", pod.metadata.name()).unwrap()),
        Step::CompleteClaims { ordinal, .. } => format!("?{ordinal}"),
        Step::Repair { ordinal, .. } => format!("!{ordinal}"),
        Step::RepairClaims { ordinal, .. } => format!("~{ordinal}"),
    };
    plan.phases.iter().flatten().map(act).collect::<Vec<_>>().join(" ")
}

fn check(set: &StatefulSet, having: &str, expected: &str) {
    assert_eq!(text(&planned(set, &pods(having), &BTreeMap::new())), expected, "with {having}");
}

#[test]
fn pods_are_created_and_deleted_in_order() {
    let ordered = set(3, json!({}));
    for (having, expected) in [
        ("", "+0"),
        ("0:new:p", ""),
        ("0:new:r", ""),
        ("0:new:a", "+1"),
        ("0:new:a 1:new:a", "+2"),
        ("0:new:a 2:new:a", "+1"),
        ("0:new:d 1:new:a 2:new:a", ""),
        ("0:new:f 1:new:a", "-0"),
        ("0:new:a 1:new:a 2:new:a", ""),
        ("0:new:a 1:new:a 2:new:a 3:new:a 4:new:a", "-4"),
        ("0:new:a 1:new:a 2:new:a 3:new:a 4:new:d", ""),
        ("0:new:a 1:new:a 2:new:a 3:new:p 4:new:a", "-4"),
        ("0:new:a 1:new:a 2:new:a 3:new:a 4:new:p", "-4"),
        ("0:new:a 1:new:a 2:new:a 3:new:p 4:new:p", ""),
        ("0:new:a 1:new:p 2:new:a 3:new:a", ""),
    ] {
        check(&ordered, having, expected);
    }
    check(&set(2, json!({"ordinals": {"start": 3}})), "0:new:a 3:new:a", "+4");
    check(&set(2, json!({"ordinals": {"start": 3}})), "0:new:a 3:new:a 4:new:a", "-0");
    check(&set(0, json!({})), "0:new:a", "-0");
}

#[test]
fn parallel_sets_do_not_wait() {
    let parallel = set(3, json!({"podManagementPolicy": "Parallel"}));
    for (having, expected) in [
        ("", "+0 +1 +2"),
        ("0:new:p 1:new:f", "-1 +2"),
        ("0:new:p 3:new:p 4:new:a 5:new:d", "+1 +2 -4 -3"),
        ("0:old:a 1:old:a 2:old:a", "-2"),
        ("0:old:a 1:old:a 2:new:p", ""),
    ] {
        check(&parallel, having, expected);
    }
    let huge = planned(&set(i32::MAX, json!({"podManagementPolicy": "Parallel"})), &[], &BTreeMap::new());
    assert_eq!(huge.phases.iter().map(Vec::len).sum::<usize>(), 500, "not all at once");
}

#[test]
fn rolling_update_replaces_from_the_last_pod_to_the_partition() {
    let rolling = |partition: i32| {
        let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": partition}});
        set(3, json!({"updateStrategy": strategy}))
    };
    for (partition, having, expected) in [
        (0, "0:old:a 1:old:a 2:old:a", "-2"),
        (0, "0:old:a 1:old:a 2:old:d", ""),
        (0, "0:old:a 1:old:a", "+2"),
        (0, "0:old:a 1:old:a 2:new:p", ""),
        (0, "0:old:a 1:old:a 2:new:a", "-1"),
        (0, "0:old:a 1:new:a 2:new:a", "-0"),
        (2, "0:old:a 1:old:a 2:old:a", "-2"),
        (2, "0:old:a 1:old:a 2:new:a", ""),
        (2, "0:old:a 2:new:a", "+1old"),
        (5, "0:old:a 1:old:a 2:old:a", ""),
        (5, "0:old:a 1:old:a", "+2old"),
    ] {
        check(&rolling(partition), having, expected);
    }
    let on_delete = set(3, json!({"updateStrategy": {"type": "OnDelete"}}));
    check(&on_delete, "0:old:a 1:old:a 2:old:a", "");
    check(&on_delete, "0:old:a 1:old:a", "+2");
}

#[test]
fn missing_claims_are_created_and_owners_set() {
    let templates = json!([{"metadata": {"name": "data"}, "spec": {}}]);
    let with = |policy: Value| {
        set(1, json!({"volumeClaimTemplates": templates, "persistentVolumeClaimRetentionPolicy": policy}))
    };
    let claims = |owners: Value| {
        let claim = |name: &str| json!({"metadata": {"name": name, "ownerReferences": owners}});
        ["data-web-0", "data-web-1"].map(|name| (name.to_owned(), claim(name))).into()
    };
    let owner = |kind: &str, name: &str, uid: &str| {
        let api_version = if kind == "Pod" { "v1" } else { "apps/v1" };
        json!([{"apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "controller": true}])
    };
    let retain = with(json!({"whenDeleted": "Retain", "whenScaled": "Retain"}));
    let deleted = with(json!({"whenDeleted": "Delete", "whenScaled": "Retain"}));
    let scaled = with(json!({"whenDeleted": "Retain", "whenScaled": "Delete"}));
    let (none, nobody) = (BTreeMap::new(), claims(json!([])));
    for (set, having, claims, expected) in [
        (&retain, "0:new:p", &none, "?0"),
        (&retain, "0:new:p", &nobody, ""),
        (&retain, "0:new:a", &none, ""),
        (&deleted, "0:new:p", &nobody, "?0"),
        (&deleted, "0:new:a", &nobody, "!0"),
        (&deleted, "0:new:a", &claims(owner("StatefulSet", "web", "set")), ""),
        (&scaled, "0:new:a 1:new:a", &nobody, "~1 -1"),
        (&scaled, "0:new:a 1:new:a", &claims(owner("Pod", "web-1", "1:new:a")), "-1"),
        (&scaled, "", &claims(owner("Pod", "web-0", "gone")), ""),
        (&scaled, "", &nobody, "+0"),
    ] {
        assert_eq!(text(&planned(set, &pods(having), claims)), expected, "{having} {claims:?}");
    }
}

#[test]
fn status_counts_pods_and_completes_updates() {
    let rolled = planned(&set(2, json!({})), &pods("0:new:a 1:new:r"), &BTreeMap::new());
    let expected = Status {
        observed_generation: 2,
        replicas: 2,
        ready_replicas: 2,
        available_replicas: 1,
        current_replicas: 2,
        updated_replicas: 2,
        current_revision: "new".into(),
        update_revision: "new".into(),
        collision_count: Some(0),
    };
    assert_eq!(rolled.status, expected);
    assert_eq!(rolled.requeue_after.map(|requeue_after| requeue_after.as_secs()), Some(5));
    let rolling = planned(&set(3, json!({})), &pods("0:old:a 1:old:a 2:new:a 3:new:d"), &BTreeMap::new());
    let Status { replicas, current_replicas, updated_replicas, current_revision, .. } = rolling.status;
    assert_eq!((replicas, current_replicas, updated_replicas, &*current_revision), (4, 2, 1, "old"));
}

/// A simulated set: pods by ordinal with revision and state, and all claims ever created.
struct Simulation {
    seed: u64,
    rng: Rng,
    set: StatefulSet,
    pods: BTreeMap<i64, (&'static str, char)>,
    claims: BTreeSet<String>,
}

impl Simulation {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::seeded(seed);
        let replicas = i32::try_from(rng.below(5)).unwrap();
        let policy = if rng.one_in(2) { "Parallel" } else { "OrderedReady" };
        let templates = json!([{"metadata": {"name": "data"}, "spec": {}}]);
        let more = json!({
            "podManagementPolicy": policy, "volumeClaimTemplates": templates,
            "ordinals": {"start": rng.below(3)},
        });
        let set = set(replicas, more);
        let first = i64::from(set.first_ordinal);
        let pods: BTreeMap<_, _> = (first..first + 3).map(|ordinal| (ordinal, ("old", 'a'))).collect();
        Self { seed, rng, set, pods, claims: BTreeSet::new() }
    }

    /// Applies the plan and checks the invariants. True if there was something to do.
    fn step(&mut self) -> bool {
        let text: Vec<_> = self
            .pods
            .iter()
            .map(|(ordinal, (revision, state))| format!("{ordinal}:{revision}:{state}"))
            .collect();
        let claims =
            self.claims.iter().map(|name| (name.clone(), json!({"metadata": {"name": name}}))).collect();
        let plan = planned(&self.set, &pods(&text.join(" ")), &claims);
        let steps: Vec<_> = plan.phases.into_iter().flatten().collect();
        let seed = self.seed;
        for act in &steps {
            match act {
                Step::Create { ordinal, .. } => {
                    let before = self.set.ordinals().take_while(|before| before < ordinal);
                    let settled =
                        |before: i64| self.pods.get(&before).is_some_and(|(_, state)| *state == 'a');
                    assert!(
                        self.set.is_parallel || before.into_iter().all(settled),
                        "seed {seed}: out of order"
                    );
                    assert!(self.set.ordinals().contains(ordinal), "seed {seed}");
                    self.claims.insert(claim_name(&self.set, &self.set.claim_templates[0], *ordinal));
                    let twice = self.pods.insert(*ordinal, ("new", 'p')).is_some();
                    assert!(!twice, "seed {seed}: {ordinal} is there twice");
                }
                Step::Delete(pod) => {
                    let ordinal = ordinal("web", pod.metadata.name()).unwrap();
                    let (_, state) = self.pods.get_mut(&ordinal).unwrap();
                    *state = 'd';
                }
                Step::CompleteClaims { ordinal, .. }
                | Step::Repair { ordinal, .. }
                | Step::RepairClaims { ordinal, .. } => {
                    self.claims.insert(claim_name(&self.set, &self.set.claim_templates[0], *ordinal));
                }
            }
        }
        let deleted = steps.iter().filter(|act| matches!(act, Step::Delete(_))).count();
        assert!(self.set.is_parallel || steps.len() <= 1 && deleted <= 1, "seed {seed}: one at a time");
        !steps.is_empty()
    }

    /// Advances the state of the pods.
    fn age(&mut self, fails: bool) -> bool {
        let before = self.pods.clone();
        self.pods.retain(|_, (_, state)| *state != 'd');
        for (_, state) in self.pods.values_mut() {
            *state = match *state {
                'p' if fails && self.rng.one_in(5) => 'f',
                'p' => 'r',
                'r' => 'a',
                other => other,
            };
        }
        self.pods != before
    }

    fn play(mut self) {
        for _ in 0..30 {
            self.step();
            self.age(true);
            if self.rng.one_in(10) {
                self.set.replicas = i32::try_from(self.rng.below(5)).unwrap();
            }
        }
        let claims = self.claims.clone();
        while self.step() | self.age(false) {}
        let ordinals: Vec<_> = self.pods.keys().copied().collect();
        assert_eq!(ordinals, self.set.ordinals().collect::<Vec<_>>(), "seed {}", self.seed);
        assert!(self.pods.values().all(|pod| *pod == ("new", 'a')), "seed {}: {:?}", self.seed, self.pods);
        assert!(self.claims.is_superset(&claims), "claims are kept");
    }
}

#[test]
fn random_failures_converge_to_the_desired_state() {
    for seed in 0..100 {
        Simulation::new(seed).play();
    }
}
