//! A small schema with every type of node, and random objects and patches for it.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use coracle_meta::schema::{Field, ListMerge, ListNode, Node, NodeId, ObjectNode, Scalar, Schema};
use serde_json::{Map, Value, json};

/// A seeded random generator (SplitMix64).
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `limit`.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).unwrap()
    }

    /// Returns true with probability 1/`times`.
    pub(crate) fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub(crate) fn pick<'a, T>(&mut self, among: &'a [T]) -> &'a T {
        &among[self.below(among.len())]
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, self.below(at + 1));
        }
    }
}

/// Returns the schema, and the type of its objects.
pub(crate) fn schema() -> (Schema, NodeId) {
    let mut schema = Schema::new();
    let root = schema.reserve();
    let item = schema.reserve();
    let text = schema.add(Node::Scalar(Scalar::String));
    let number = schema.add(Node::Scalar(Scalar::Int64));
    let any = schema.add(Node::Any);
    let labels = schema.add(Node::Object(ObjectNode::map_of(text)));
    let item_map = schema.add(Node::Object(ObjectNode::map_of(item)));
    let list =
        |schema: &mut Schema, item| schema.add(Node::List(ListNode { item, merge: ListMerge::Atomic }));
    let texts = list(&mut schema, text);
    let numbers = list(&mut schema, number);
    let items = list(&mut schema, item);
    let table = list(&mut schema, numbers);
    let patched = |name: &str, node, (merge, key, retain_keys): (bool, Option<&str>, bool)| {
        let mut field = Field::new(name, node);
        field.patch.merge = merge;
        field.patch.merge_key = key.map(Into::into);
        field.patch.retain_keys = retain_keys;
        field
    };
    let fields = |extra: Vec<Field>| {
        let mut fields = vec![
            Field::new("name", text),
            Field::new("port", number),
            Field::new("labels", labels),
            Field::new("atomic", texts),
            patched("tags", texts, (true, None, false)),
            patched("numbers", numbers, (true, None, false)),
            patched("items", items, (true, Some("name"), false)),
        ];
        fields.extend(extra);
        Node::Object(ObjectNode::new(fields))
    };
    let item_node = fields(vec![]);
    schema.set(item, item_node);
    let root_node = fields(vec![
        Field::new("atomicItems", items),
        Field::new("table", table),
        Field::new("free", any),
        Field::new("itemMap", item_map),
        patched("ports", items, (true, Some("port"), false)),
        patched("volumes", items, (true, Some("name"), true)),
        patched("strategy", item, (false, None, true)),
        Field::new("child", root),
    ]);
    schema.set(root, root_node);
    (schema, root)
}

const NAMES: [&str; 6] = ["a", "b", "c", "d", "a/b", "m~n"];

/// Returns a complete object that matches the schema: no nulls, no duplicate items.
pub(crate) fn object(rng: &mut Rng, depth: usize) -> Value {
    let mut fields = item_fields(rng, depth);
    let mut set = |rng: &mut Rng, name: &str, make: &mut dyn FnMut(&mut Rng) -> Value| {
        if rng.one_in(3) {
            let value = make(rng);
            fields.insert(name.to_owned(), value);
        }
    };
    set(rng, "atomicItems", &mut |rng| items(rng, depth, "name"));
    set(rng, "free", &mut |rng| json!({*rng.pick(&NAMES): rng.below(3), "name": *rng.pick(&NAMES)}));
    set(rng, "ports", &mut |rng| items(rng, depth, "port"));
    set(rng, "volumes", &mut |rng| items(rng, depth, "name"));
    set(rng, "strategy", &mut |rng| Value::Object(item_fields(rng, depth)));
    if depth > 0 {
        set(rng, "child", &mut |rng| object(rng, depth - 1));
    }
    Value::Object(fields)
}

fn item_fields(rng: &mut Rng, depth: usize) -> Map<String, Value> {
    let mut fields = Map::new();
    for name in ["name", "port", "labels", "atomic", "tags", "numbers", "items"] {
        if rng.one_in(2) {
            continue;
        }
        let value = match name {
            "name" => json!(*rng.pick(&NAMES)),
            "port" => json!(rng.below(5)),
            "labels" => {
                let some = subset(rng, &NAMES);
                some.into_iter().map(|key| (key.to_owned(), json!(*rng.pick(&NAMES)))).collect()
            }
            "atomic" => (0..rng.below(3)).map(|_| *rng.pick(&NAMES)).collect(),
            "tags" => json!(subset(rng, &NAMES)),
            "numbers" => json!(subset(rng, &[1, 2, 3, 10])),
            _ if depth == 0 || rng.one_in(2) => continue,
            _ => items(rng, depth, "name"),
        };
        fields.insert(name.to_owned(), value);
    }
    fields
}

/// Returns items with distinct keys.
fn items(rng: &mut Rng, depth: usize, key: &str) -> Value {
    let keys: Vec<Value> = match key {
        "port" => subset(rng, &[1, 2, 3, 80]).into_iter().map(Value::from).collect(),
        _ => subset(rng, &NAMES).into_iter().map(Value::from).collect(),
    };
    let item = |identity| {
        let mut fields = item_fields(rng, depth.saturating_sub(1));
        fields.insert(key.to_owned(), identity);
        Value::Object(fields)
    };
    keys.into_iter().map(item).collect()
}

fn subset<T: Copy>(rng: &mut Rng, among: &[T]) -> Vec<T> {
    let mut some: Vec<T> = among.iter().copied().filter(|_| rng.one_in(3)).collect();
    rng.shuffle(&mut some);
    some
}

/// Returns a copy of an object with a few changes.
pub(crate) fn changed(rng: &mut Rng, object: &Value) -> Value {
    let other = self::object(rng, 2);
    mix(rng, object, &other)
}

/// Mixes two values, keeping the keys of items distinct.
fn mix(rng: &mut Rng, left: &Value, right: &Value) -> Value {
    match (left, right) {
        (Value::Object(left), Value::Object(right)) => {
            let mut mixed = left.clone();
            for (name, value) in right {
                let change = match left.get(name) {
                    Some(before) => mix(rng, before, value),
                    None => value.clone(),
                };
                if rng.one_in(2) && name != "name" && name != "port" {
                    mixed.insert(name.clone(), change);
                }
            }
            let dropped = rng.one_in(3).then(|| mixed.keys().nth(rng.below(left.len().max(1))).cloned());
            if let Some(name) = dropped.flatten().filter(|name| name != "name" && name != "port") {
                mixed.remove(&name);
            }
            Value::Object(mixed)
        }
        (Value::Array(items), Value::Array(_)) if rng.one_in(3) => {
            let mut items = items.clone();
            rng.shuffle(&mut items);
            items.truncate(rng.below(items.len() + 1));
            Value::Array(items)
        }
        _ => right.clone(),
    }
}

/// Returns a patch with many directives, most of them valid.
pub(crate) fn patch(rng: &mut Rng, depth: usize) -> Value {
    let Value::Object(mut fields) = object(rng, depth) else { return Value::Null };
    add_nulls_and_directives(rng, &mut fields);
    Value::Object(fields)
}

fn add_nulls_and_directives(rng: &mut Rng, fields: &mut Map<String, Value>) {
    for (name, value) in fields.iter_mut() {
        match value {
            Value::Object(fields) => add_nulls_and_directives(rng, fields),
            Value::Array(items) => {
                items
                    .iter_mut()
                    .filter_map(Value::as_object_mut)
                    .for_each(|item| add_nulls_and_directives(rng, item));
            }
            _ if name != "name" && name != "port" && rng.one_in(4) => *value = Value::Null,
            _ => {}
        }
    }
    add_directives(rng, fields);
}

fn add_directives(rng: &mut Rng, fields: &mut Map<String, Value>) {
    if rng.one_in(6) {
        let name = *rng.pick(&["labels", "tags", "items", "child", "strategy", "free", "volumes", "atomic"]);
        fields.insert(name.to_owned(), Value::Null);
    }
    if rng.one_in(12) {
        let directive = *rng.pick(&["delete", "delete", "replace", "replace", "merge", "other"]);
        fields.insert("$patch".to_owned(), json!(directive));
    }
    if rng.one_in(12) {
        let mut keys: Vec<String> = fields.keys().filter(|key| !key.starts_with('$')).cloned().collect();
        keys.retain(|_| !rng.one_in(20));
        fields.insert("$retainKeys".to_owned(), json!(keys));
    }
    if rng.one_in(4) {
        let deleted = json!(subset(rng, &NAMES));
        fields.insert("$deleteFromPrimitiveList/tags".to_owned(), deleted);
        // Without an order the result is undefined if both are present.
        fields.remove("tags");
    }
    for name in ["tags", "numbers", "items", "ports", "volumes"] {
        if rng.one_in(3) {
            let order = element_order(rng, name, fields.get(name));
            fields.insert(format!("$setElementOrder/{name}"), order);
        }
    }
}

/// Returns `$setElementOrder` of a list in a patch, with its items and others.
fn element_order(rng: &mut Rng, name: &str, items: Option<&Value>) -> Value {
    let key = match name {
        "ports" => Some("port"),
        "tags" | "numbers" => None,
        _ => Some("name"),
    };
    let mut order: Vec<Value> = items.and_then(Value::as_array).cloned().unwrap_or_default();
    if let Some(key) = key {
        order.iter_mut().for_each(|item| *item = json!({key: item[key]}));
    }
    let others: Vec<Value> = match name {
        "ports" | "numbers" => subset(rng, &[1, 2, 3, 10, 80]).into_iter().map(Value::from).collect(),
        _ => subset(rng, &NAMES).into_iter().map(Value::from).collect(),
    };
    for other in others {
        let other = key.map_or(other.clone(), |key| json!({key: other}));
        if !order.contains(&other) {
            order.insert(rng.below(order.len() + 1), other);
        }
    }
    if rng.one_in(20) {
        rng.shuffle(&mut order);
    }
    Value::Array(order)
}

/// Returns random JSON that contains directives and field names.
pub(crate) fn garbage(rng: &mut Rng, depth: usize) -> Value {
    const WORDS: [&str; 26] = [
        "name",
        "port",
        "labels",
        "atomic",
        "tags",
        "numbers",
        "items",
        "atomicItems",
        "table",
        "free",
        "itemMap",
        "ports",
        "volumes",
        "strategy",
        "child",
        "unknown",
        "$patch",
        "$retainKeys",
        "$deleteFromPrimitiveList/tags",
        "$deleteFromPrimitiveList/items",
        "$deleteFromPrimitiveList",
        "$setElementOrder/tags",
        "$setElementOrder/items",
        "$setElementOrder/table",
        "$setElementOrder",
        "$setElementOrder/child",
    ];
    match rng.below(if depth == 0 { 6 } else { 12 }) {
        0 => Value::Null,
        1 => json!(rng.one_in(2)),
        2 => json!(rng.below(4)),
        3 => json!(1.5),
        4 => json!(*rng.pick(&["a", "b", "c", "delete", "replace", "merge", ""])),
        5 => json!(*rng.pick(&WORDS)),
        6..8 => (0..rng.below(4)).map(|_| garbage(rng, depth - 1)).collect(),
        _ => (0..rng.below(6)).map(|_| ((*rng.pick(&WORDS)).to_owned(), garbage(rng, depth - 1))).collect(),
    }
}

/// Returns a JSON patch of random operations, most of them on existing paths.
pub(crate) fn operations(rng: &mut Rng, object: &Value) -> Value {
    let mut paths = vec![String::new()];
    collect_paths(object, &mut String::new(), &mut paths);
    let operation = |rng: &mut Rng| {
        let mut operation = json!({
            "op": *rng.pick(&["add", "remove", "replace", "move", "copy", "test"]),
            "path": path(rng, &paths),
        });
        if !rng.one_in(4) {
            operation["from"] = json!(path(rng, &paths));
            operation["value"] = garbage(rng, 2);
        }
        if rng.one_in(50) {
            operation[*rng.pick(&["op", "path", "from"])] = garbage(rng, 1);
        }
        operation
    };
    (0..=rng.below(4)).map(|_| operation(rng)).collect()
}

fn path(rng: &mut Rng, paths: &[String]) -> String {
    let mut path = rng.pick(paths).clone();
    match rng.below(12) {
        0 => path.push_str("/-"),
        1 => path.push_str("/-1"),
        2 => path.push_str("/0"),
        3 => path.push_str("/x"),
        4 => path.push_str("/a~1b"),
        _ => {}
    }
    path
}

fn collect_paths(value: &Value, path: &mut String, paths: &mut Vec<String>) {
    let parts: Vec<(String, &Value)> = match value {
        Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), value)).collect(),
        Value::Array(items) => items.iter().enumerate().map(|(at, item)| (at.to_string(), item)).collect(),
        _ => return,
    };
    for (part, value) in parts {
        let len = path.len();
        path.push('/');
        path.push_str(&part.replace('~', "~0").replace('/', "~1"));
        paths.push(path.clone());
        collect_paths(value, path, paths);
        path.truncate(len);
    }
}
