//! Pods with random faults: validation must not panic, and defaulting must be idempotent.

use coracle_meta::field::{ErrorList, Path};
use coracle_meta::time::Time;
use serde_json::{Value, json};

use super::{Pod, samples, validate_ephemeral_containers, validate_resize};
use crate::kind::Kind;
use crate::kinds::core::pod_spec;

const ROUNDS: u64 = 300;

/// Knuth's generator: the same seed gives the same pods on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % limit.max(1)
    }
}

/// Walks down a random path and corrupts the value at its end, without changing its type.
fn corrupt(value: &mut Value, random: &mut Random) {
    let go_on = random.below(5) > 0;
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            let key = fields.keys().nth(random.below(fields.len())).unwrap().clone();
            if go_on {
                corrupt(&mut fields[&key], random);
            } else {
                fields.remove(&key);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            let index = random.below(items.len());
            match random.below(6) {
                0 => items.push(items[index].clone()),
                1 => drop(items.remove(index)),
                _ => corrupt(&mut items[index], random),
            }
        }
        Value::String(text) => {
            let texts = ["", "x", "A b", "../y", "é", "-1", "1.5Gi", "['"];
            texts[random.below(texts.len())].clone_into(text);
        }
        Value::Number(_) => *value = json!([0, -1, 65_536, i64::MAX, i64::MIN][random.below(5)]),
        Value::Bool(set) => *set = !*set,
        _ => {}
    }
}

#[test]
fn random_faults_cause_no_panic_and_defaulting_is_idempotent() {
    let valid = samples::samples().valid;
    for seed in 0..ROUNDS {
        let mut random = Random(seed);
        let old = {
            let mut old = valid[random.below(valid.len())].clone();
            Pod.set_defaults(&mut old);
            Pod.prepare_for_create(&mut old, Time(0));
            old
        };
        let mut pod = old.clone();
        for _ in 0..=random.below(3) {
            corrupt(&mut pod["spec"], &mut random);
        }
        Pod.set_defaults(&mut pod);
        let defaulted = pod.clone();
        Pod.set_defaults(&mut pod);
        assert_eq!(pod, defaulted, "seed {seed}");
        let mut errors = ErrorList::new();
        Pod.validate(&pod, &mut errors);
        Pod.validate_update(&pod, &old, &mut errors);
        Pod.validate_status_update(&pod, &old, &mut errors);
        validate_resize(&pod, &old, &mut errors);
        validate_ephemeral_containers(&pod, &old, &mut errors);
        pod_spec::validate_template(&pod, &Path::root("template"), &mut errors);
        Pod.prepare_for_create(&mut pod, Time(0));
        Pod.warnings(&pod, None);
        Pod.cells(&pod, 0);
    }
}
