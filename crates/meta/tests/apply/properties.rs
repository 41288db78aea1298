//! Property tests with random objects, writers and malformed input.

use coracle_meta::apply::{
    FieldFilter, FieldManager, FieldSet, ManagedFields, ManagedFieldsEntry, ManagerId, Operation, Path,
    PathElement, ResetFields, Writer,
};
use serde_json::{Map, Value, json};

use crate::fixture::{Kind, ObjectHistory, VERSION, deployment};

/// A seeded random generator (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % limit
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    fn one_of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[usize::try_from(self.below(choices.len() as u64)).unwrap()]
    }

    fn letter(&mut self) -> Value {
        json!(self.one_of(&["a", "b", "c", "d"]))
    }

    /// Returns distinct letters in random order.
    fn letters(&mut self) -> Vec<Value> {
        let mut letters: Vec<Value> = Vec::new();
        for _ in 0..self.below(4) {
            let letter = self.letter();
            if !letters.contains(&letter) {
                letters.push(letter);
            }
        }
        letters
    }

    fn map(&mut self) -> Value {
        let keys = self.letters();
        keys.iter().map(|key| (key.as_str().unwrap().to_owned(), self.letter())).collect()
    }

    fn container(&mut self, name: Value) -> Value {
        let mut container = json!({"name": name});
        if self.chance(60) {
            container["image"] = self.letter();
        }
        if self.chance(30) {
            container["args"] = self.letters().into();
        }
        if self.chance(40) {
            let ports: Vec<_> = [(80, "TCP"), (80, "UDP"), (443, "TCP")]
                .into_iter()
                .filter(|_| self.chance(60))
                .map(|(port, protocol)| json!({"containerPort": port, "protocol": protocol}))
                .collect();
            container["ports"] = ports.into();
        }
        if self.chance(20) {
            container["resources"] = json!({"limits": self.map()});
        }
        container
    }

    fn spec(&mut self) -> Value {
        let mut spec = json!({});
        if self.chance(50) {
            spec["replicas"] = json!(self.below(3));
        }
        if self.chance(40) {
            spec["selector"] = json!({"matchLabels": self.map()});
        }
        if self.chance(50) {
            spec["nodeSelector"] = self.map();
        }
        if self.chance(40) {
            spec["tags"] = self.letters().into();
        }
        if self.chance(60) {
            let names = self.letters();
            let containers: Vec<_> = names.into_iter().map(|name| self.container(name)).collect();
            spec["template"] = json!({"containers": containers});
        }
        if self.chance(20) {
            spec["free"] = json!({"known": self.letter(), "x": self.map()});
        }
        spec
    }

    fn manager(&mut self) -> &'static str {
        self.one_of(&["x", "y", "z"])
    }

    fn garbage(&mut self, depth: u32) -> Value {
        let keys = [
            "metadata",
            "managedFields",
            "spec",
            "f:a",
            "k:{\"name\":\"a\"}",
            "v:1",
            "i:1",
            ".",
            "",
            "fieldsV1",
            "operation",
            "apiVersion",
            "manager",
            "fieldsType",
            "time",
            "kind",
            "template",
            "containers",
            "name",
            "tags",
        ];
        match self.below(if depth == 0 { 5 } else { 9 }) {
            0 => Value::Null,
            1 => json!(self.chance(50)),
            2 => json!(i64::try_from(self.below(200)).unwrap() - 100),
            3 => json!(1.5e300),
            4 => json!(self.one_of(&[
                "",
                "Apply",
                "Update",
                "FieldsV1",
                VERSION,
                "2024-01-01T00:00:00Z",
                "\u{0}é<"
            ])),
            5 | 6 => (0..self.below(4)).map(|_| self.garbage(depth - 1)).collect(),
            _ => {
                let fields =
                    (0..self.below(5)).map(|_| (self.one_of(&keys).to_owned(), self.garbage(depth - 1)));
                Value::Object(fields.collect::<Map<_, _>>())
            }
        }
    }

    fn field_set(&mut self, depth: u32) -> FieldSet {
        let mut set = FieldSet::new();
        for _ in 0..self.below(12) {
            let steps = 1 + self.below(u64::from(depth));
            set.insert(&(0..steps).map(|_| self.element()).collect::<Path>());
        }
        set
    }

    fn element(&mut self) -> PathElement {
        let text = match self.below(5) {
            0 => format!("v:{}", json!(self.one_of(&["a", "<", "\"", "é", "\u{2028}"]))),
            1 => format!("v:{}", self.below(200)),
            2 => format!("k:{}", json!({"name": self.letter(), "port": self.below(100)})),
            3 => format!("i:{}", self.below(20)),
            _ => format!("f:{}", self.one_of(&["a", "b/c", "", "\n", "\"", "é"])),
        };
        PathElement::parse(&text).unwrap().unwrap()
    }
}

/// Runs a check with many seeds, and reports the seed of a failure.
fn for_seeds(count: u64, check: impl Fn(&mut Random) + std::panic::RefUnwindSafe) {
    for seed in 0..count {
        let result = std::panic::catch_unwind(|| check(&mut Random(seed)));
        assert!(result.is_ok(), "failed with seed {seed}");
    }
}

/// Removes empty lists and maps, which may appear and disappear with their contents: an empty list
/// that is merged by items has no field that a manager could own.
fn without_empty(value: &Value) -> Option<Value> {
    match value {
        Value::Object(fields) => {
            let fields =
                fields.iter().filter_map(|(name, field)| Some((name.clone(), without_empty(field)?)));
            let fields: Map<_, _> = fields.collect();
            (!fields.is_empty()).then_some(Value::Object(fields))
        }
        Value::Array(items) => {
            let items: Vec<_> = items.iter().filter_map(without_empty).collect();
            (!items.is_empty()).then_some(Value::Array(items))
        }
        Value::Null => None,
        scalar => Some(scalar.clone()),
    }
}

fn all_owned(managed: &ManagedFields) -> FieldSet {
    managed.entries.iter().map(|entry| entry.fields().into_owned()).fold(FieldSet::new(), FieldSet::union)
}

fn server_side() -> FieldSet {
    FieldSet::of_fields(&[&["apiVersion"], &["kind"], &["metadata"]])
}

fn random_history(random: &mut Random, writes: u64) -> ObjectHistory {
    let mut history = ObjectHistory::new();
    for _ in 0..writes {
        let (manager, spec) = (random.manager(), random.spec());
        if random.chance(50) {
            history.put(manager, deployment(json!({"spec": spec})));
        } else {
            // A conflict changes nothing.
            let _ = history.apply_config(manager, &deployment(json!({"spec": spec})), random.chance(50));
        }
    }
    history
}

#[test]
fn every_leaf_written_by_updates_is_owned() {
    for_seeds(400, |random| {
        let mut history = ObjectHistory::new();
        for _ in 0..6 {
            let spec = random.spec();
            history.put(random.manager(), deployment(json!({"spec": spec})));
            let mut leaves = history.kind.object_type().to_field_set(history.live()).leaves();
            leaves.remove_subtrees(&server_side());
            leaves.remove(&all_owned(&history.managed()));
            assert!(leaves.is_empty(), "nobody owns\n{leaves}");
        }
    });
}

#[test]
fn owned_fields_exist_in_object() {
    for_seeds(400, |random| {
        let mut history = ObjectHistory::new();
        for _ in 0..6 {
            let spec = random.spec();
            history.put(random.manager(), deployment(json!({"spec": spec})));
            let object_type = history.kind.object_type();
            let there = object_type.with_named_fields(object_type.to_field_set(history.live()));
            let mut owned = all_owned(&history.managed()).leaves();
            owned.remove(&there);
            // An empty list exists and has no field.
            let empty = object_type.extract(history.live(), &owned);
            let has_content = object_type.to_field_set(&empty);
            assert!(has_content.intersection(&owned).is_empty(), "owned but absent\n{owned}");
        }
    });
}

#[test]
fn second_apply_changes_nothing() {
    for_seeds(400, |random| {
        let mut history = random_history(random, 4);
        let config = without_empty(&deployment(json!({"spec": random.spec()}))).unwrap();
        history.apply_config("x", &config, true).unwrap();
        let before = history.live().clone();
        assert!(!history.apply_config("x", &config, random.chance(50)).unwrap());
        assert_eq!(*history.live(), before);
    });
}

#[test]
fn empty_apply_removes_exactly_solely_owned_fields() {
    for_seeds(400, |random| {
        let mut history = ObjectHistory::new();
        let (mine, theirs) = (random.spec(), without_empty(&random.spec()).unwrap_or(json!({"replicas": 1})));
        history.apply_config("them", &deployment(json!({"spec": theirs})), true).unwrap();
        if history.apply_config("me", &deployment(json!({"spec": mine})), false).is_err() {
            return;
        }
        history.apply("me", json!({})).unwrap();
        let remains = without_empty(&history.live()["spec"]);
        let difference =
            history.kind.object_type().compare(&json!({"spec": theirs}), &json!({"spec": remains}));
        assert!(difference.is_same(), "{difference:?}");
        assert_eq!(history.entries(), ["them Apply"]);
    });
}

#[test]
fn forced_apply_sets_values_and_takes_ownership_of_changes() {
    for_seeds(400, |random| {
        let mut history = random_history(random, 4);
        let before = history.managed();
        let live = history.live.clone().unwrap_or_else(|| json!({}));
        let config = deployment(json!({"spec": random.spec()}));
        history.apply_config("me", &config, true).unwrap();
        let object_type = history.kind.object_type();
        let changes = object_type.compare(&live, history.live());
        for entry in history.managed().entries.iter().filter(|entry| entry.id.manager != "me") {
            let taken = entry.fields().intersection(&changes.modified);
            assert!(taken.is_empty(), "{} still owns\n{taken}", entry.id.manager);
            let owned_before =
                before.get(&entry.id).map(|entry| entry.fields().into_owned()).unwrap_or_default();
            let mut gained = entry.fields().into_owned();
            gained.remove(&owned_before);
            assert!(gained.is_empty() || before.entries.is_empty(), "{} gained\n{gained}", entry.id.manager);
        }
        let missing = object_type.compare(&config, history.live());
        let applied = object_type.to_field_set(&config);
        assert!(missing.modified.leaves().intersection(&applied.leaves()).is_empty(), "{}", missing.modified);
    });
}

#[test]
fn field_sets_round_trip_through_json() {
    for_seeds(2_000, |random| {
        let set = random.field_set(5);
        assert_eq!(FieldSet::from_json(&set.to_json()).unwrap(), set);
        assert_eq!(FieldSet::from_fields_v1(&set.to_fields_v1()).unwrap(), set);
        let id = ManagerId::new("m", Operation::Update, VERSION, "status");
        let entry = ManagedFieldsEntry::new(id, VERSION, Some("2024-01-01T00:00:00Z".to_owned()), set);
        let managed = ManagedFields { entries: vec![entry] };
        let encoded = managed.clone().encode();
        assert_eq!(ManagedFields::decode(encoded.as_ref()).unwrap(), managed);
    });
}

#[test]
fn field_sets_obey_set_algebra() {
    for_seeds(2_000, |random| {
        let (a, b) = (random.field_set(3), random.field_set(3));
        let (both, either) = (a.intersection(&b), a.clone().union(b.clone()));
        assert_eq!(either, b.clone().union(a.clone()));
        assert_eq!(both, b.intersection(&a));
        assert_eq!(either.len() + both.len(), a.len() + b.len());
        let (mut only_a, mut without) = (a.clone(), a.clone());
        only_a.remove(&b);
        assert_eq!(only_a.clone().union(both), a);
        without.remove_subtrees(&b);
        assert_eq!(
            without.intersection(&only_a),
            without,
            "remove_subtrees also removes children of removed members"
        );
        assert!(a.paths().iter().all(|path| a.contains(path)));
    });
}

#[test]
fn malformed_input_never_panics() {
    for_seeds(1_500, |random| {
        let mut history = ObjectHistory::new();
        let mut valid = deployment(json!({"spec": random.spec()}));
        history.put("m", valid.clone());
        valid["metadata"]["managedFields"] = random.garbage(5);
        if random.chance(50) {
            valid["spec"] = random.garbage(5);
        }
        let garbage = if random.chance(30) { random.garbage(5) } else { valid };
        let live = if random.chance(30) { random.garbage(5) } else { history.live().clone() };
        let object_type = history.kind.object_type();
        object_type.compare(&live, &garbage);
        let fields = FieldSet::from_fields_v1(&random.garbage(4)).unwrap_or_default();
        object_type.remove(garbage.clone(), &fields);
        object_type.extract(&garbage, &fields);
        object_type.merge(live.clone(), &garbage);
        history.live = Some(live);
        let _ = history.try_put(garbage.clone());
        let _ = history.apply_config("m", &garbage, random.chance(50));
        let _ =
            history.apply_config("kubectl", &deployment(json!({"spec": random.spec()})), random.chance(50));
    });
}

#[test]
fn fast_path_for_create_equals_update_of_empty_object() {
    let kind = Kind::new();
    let versions = kind.versions();
    let status =
        ResetFields::default().with(VERSION, FieldFilter::Except(FieldSet::of_fields(&[&["status"]])));
    let initial = json!({"metadata": {}, "spec": {"template": {"containers": null}}, "status": {}});
    let writer = Writer { manager: "x", now: "2026-01-01T00:00:00Z" };
    for_seeds(400, |random| {
        let mut new =
            if random.chance(20) { random.garbage(6) } else { deployment(json!({"spec": random.spec()})) };
        if random.chance(30) && new.is_object() {
            new["status"] = json!({"readyReplicas": 1, "conditions": [{"type": "a"}, {"type": "a"}]});
            new["metadata"] = json!({"name": "n", "labels": {}, "uid": "1", "annotations": {"a": "b"}});
        }
        let reset_fields = if random.chance(50) { &status } else { ResetFields::NONE };
        let initial = random.chance(50).then_some(&initial);
        let manager = FieldManager {
            versions: &versions,
            api_version: VERSION,
            kind: "Deployment",
            subresource: "",
            reset_fields,
            initial,
        };
        // Initial values passed to the field manager are compared field by field.
        let mut start = initial.cloned().unwrap_or_else(|| json!({}));
        start["apiVersion"] = VERSION.into();
        start["kind"] = "Deployment".into();
        let created = manager.update_no_errors(None, new.clone(), &writer);
        assert_eq!(created, manager.update_no_errors(Some(&start), new, &writer));
    });
}
