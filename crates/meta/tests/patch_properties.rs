//! Property tests of all patch types with random patches. A failure reports its seed.

mod patch_model;

use coracle_meta::patch::json::{JsonPatch, create_patch};
use coracle_meta::patch::strategic::{self, OnConflict, PatchMeta};
use coracle_meta::patch::{MAX_DEPTH, merge};
use patch_model::{Rng, changed, garbage, object, operations, patch, schema};
use serde_json::{Value, json};

const SEEDS: u64 = 2000;

#[test]
fn created_json_patch_yields_modified_document() {
    for seed in 0..SEEDS {
        let rng = &mut Rng::new(seed);
        let original = if rng.one_in(2) { object(rng, 2) } else { json!({"any": garbage(rng, 4)}) };
        let modified = if rng.one_in(2) { changed(rng, &original) } else { json!({"any": garbage(rng, 4)}) };
        let patch = create_patch(&original, &modified).unwrap();
        let patched = JsonPatch::from_value(patch.clone()).unwrap().apply(original.clone()).unwrap();
        assert_eq!(patched, modified, "seed {seed}: {original} patched with {patch}");
    }
}

#[test]
fn created_merge_patch_yields_modified_object() {
    for seed in 0..SEEDS {
        let rng = &mut Rng::new(seed);
        let original = object(rng, 2);
        let modified = if rng.one_in(4) { object(rng, 2) } else { changed(rng, &original) };
        let patch = merge::create_merge_patch(&original, &modified).unwrap();
        let patched = merge::apply(original.clone(), patch.clone()).unwrap();
        assert_eq!(patched, modified, "seed {seed}: {original} patched with {patch}");
        assert_eq!(merge::apply(patched, patch).unwrap(), modified, "seed {seed}: twice is as once");
    }
}

#[test]
fn created_strategic_patch_yields_modified_object() {
    let (schema, root) = schema();
    let meta = PatchMeta::new(&schema, root);
    for seed in 0..SEEDS {
        let rng = &mut Rng::new(seed);
        let original = object(rng, 2);
        let modified = if rng.one_in(4) { object(rng, 2) } else { changed(rng, &original) };
        let patch = strategic::create_two_way_merge_patch(meta, &original, &modified).unwrap();
        let patched = strategic::apply(meta, original.clone(), patch.clone())
            .unwrap_or_else(|error| panic!("seed {seed}: {original} patched with {patch}: {error}"));
        assert_eq!(patched, modified, "seed {seed}: {original} patched with {patch}");
        let again = strategic::create_two_way_merge_patch(meta, &patched, &modified).unwrap();
        assert_eq!(again, json!({}), "seed {seed}: nothing is left to patch");
        let twice = strategic::apply(meta, patched, patch.clone()).unwrap();
        assert_eq!(twice, modified, "seed {seed}: {patch} twice is as once");
    }
}

#[test]
fn strategic_patch_without_schema_yields_modified_object() {
    for seed in 0..SEEDS {
        let rng = &mut Rng::new(seed);
        let original = object(rng, 2);
        let modified = changed(rng, &original);
        let meta = PatchMeta::untyped();
        let patch = strategic::create_two_way_merge_patch(meta, &original, &modified).unwrap();
        assert_eq!(patch, merge::create_merge_patch(&original, &modified).unwrap(), "seed {seed}");
        assert_eq!(strategic::apply(meta, original, patch).unwrap(), modified, "seed {seed}");
    }
}

#[test]
fn three_way_patch_without_other_changes_equals_two_way_patch() {
    let (schema, root) = schema();
    let meta = PatchMeta::new(&schema, root);
    for seed in 0..SEEDS {
        let rng = &mut Rng::new(seed);
        let original = object(rng, 2);
        let modified = changed(rng, &original);
        for on_conflict in [OnConflict::Overwrite, OnConflict::Refuse] {
            let patch =
                strategic::create_three_way_merge_patch(meta, &original, &modified, &original, on_conflict);
            let patched = strategic::apply(meta, original.clone(), patch.unwrap()).unwrap();
            assert_eq!(patched, modified, "seed {seed}");
        }
        let patch = merge::create_three_way_merge_patch(&original, &modified, &original).unwrap();
        assert_eq!(merge::apply(original, patch).unwrap(), modified, "seed {seed}");
    }
}

#[test]
fn three_way_patch_sets_all_modified_fields() {
    let (schema, root) = schema();
    let meta = PatchMeta::new(&schema, root);
    for seed in 0..SEEDS {
        let rng = &mut Rng::new(seed);
        let original = object(rng, 2);
        let modified = changed(rng, &original);
        let current = changed(rng, &original);
        let make = |current: &Value| {
            let overwrite = OnConflict::Overwrite;
            strategic::create_three_way_merge_patch(meta, &original, &modified, current, overwrite).unwrap()
        };
        let once = decoded(strategic::apply(meta, current.clone(), make(&current)).unwrap());
        let twice = decoded(strategic::apply(meta, once.clone(), make(&once)).unwrap());
        assert_eq!(twice, once, "seed {seed}: nothing is left to do");
    }
}

#[test]
fn malformed_patch_never_panics() {
    let (schema, root) = schema();
    let meta = PatchMeta::new(&schema, root);
    for seed in 0..SEEDS * 2 {
        let rng = &mut Rng::new(seed);
        let original = if rng.one_in(3) { garbage(rng, 5) } else { object(rng, 2) };
        let change = if rng.one_in(2) { garbage(rng, 5) } else { patch(rng, 2) };
        let results = [
            strategic::apply(meta, original.clone(), change.clone()),
            strategic::apply(PatchMeta::untyped(), original.clone(), change.clone()),
            strategic::create_two_way_merge_patch(meta, &original, &change),
            strategic::create_three_way_merge_patch(meta, &original, &change, &original, OnConflict::Refuse),
            strategic::create_three_way_merge_patch(meta, &original, &original, &change, OnConflict::Refuse),
            merge::apply(original.clone(), change.clone()),
            merge::create_three_way_merge_patch(&original, &change, &original),
            JsonPatch::from_value(operations(rng, &original)).unwrap().apply(original.clone()),
            JsonPatch::from_value(change).and_then(|patch| patch.apply(original)),
        ];
        for error in results.into_iter().filter_map(Result::err) {
            assert!(!error.to_string().is_empty(), "seed {seed}");
            let _ = error.class();
        }
    }
}

/// Removes nulls and leftover directives, as the decoder does.
fn decoded(mut value: Value) -> Value {
    match &mut value {
        Value::Object(fields) => {
            fields.retain(|name, field| !name.starts_with('$') && !field.is_null());
            fields.values_mut().for_each(|field| *field = decoded(field.take()));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| *item = decoded(item.take())),
        _ => {}
    }
    value
}

/// Returns lists, or fields of one name, nested `levels` deep.
fn nested(levels: usize, name: Option<&str>) -> Value {
    (0..levels).fold(json!({}), |inner, _| match name {
        Some(name) => [(name.to_owned(), inner)].into_iter().collect(),
        None => Value::Array(vec![inner]),
    })
}

#[test]
fn deeply_nested_value_is_handled_or_rejected() {
    let thread = std::thread::Builder::new().stack_size(256 << 20).spawn(check_deep_nesting).unwrap();
    thread.join().unwrap();
}

fn check_deep_nesting() {
    let (schema, root) = schema();
    let meta = PatchMeta::new(&schema, root);
    for name in [Some("child"), Some("$patch"), Some("$retainKeys"), None] {
        for levels in [MAX_DEPTH - 2, MAX_DEPTH + 1, 2 * MAX_DEPTH] {
            let hostile = json!({"child": nested(levels, name)});
            let is_allowed = levels < MAX_DEPTH;
            let merged = merge::apply(hostile.clone(), hostile.clone());
            assert_eq!(merged.is_ok(), is_allowed, "{name:?} {levels}");
            let operations = json!([{"op": "add", "path": "/a", "value": hostile}]);
            let added = JsonPatch::from_value(operations).and_then(|patch| patch.apply(json!({})));
            assert_eq!(added.is_ok(), levels < MAX_DEPTH - 2, "{name:?} {levels}");
            let patched = strategic::apply(meta, hostile.clone(), hostile.clone());
            assert!(is_allowed || patched.is_err(), "{name:?} {levels}");
            let two_way = strategic::create_two_way_merge_patch(meta, &json!({}), &hostile);
            assert_eq!(two_way.is_ok(), is_allowed, "{name:?} {levels}");
        }
    }
}
