//! Creation of a patch from two objects.

use serde_json::{Map, Value};

use super::difference_of_lists;
use super::directives::{DELETE_FROM_LIST, RETAIN_KEYS, SET_ELEMENT_ORDER, key_for};
use super::patch_meta::PatchMeta;
use crate::patch::error::PatchError;

/// The parts of a difference that go into a patch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scope {
    /// Fields that were added or set.
    pub(super) changes: bool,
    /// Fields that were removed.
    pub(super) deletions: bool,
    /// `$setElementOrder` for merged lists.
    pub(super) element_order: bool,
}

/// Creates the patch between two objects, with `$retainKeys` if the schema requires it.
pub(super) fn of_objects(
    meta: PatchMeta<'_>,
    original: &Map<String, Value>,
    modified: &Map<String, Value>,
    scope: Scope,
    retain_keys: bool,
) -> Result<Map<String, Value>, PatchError> {
    let mut patch = Map::new();
    for (name, after) in modified {
        match (original.get(name), after) {
            (Some(before), after) if before == after => {}
            (Some(Value::Object(before)), Value::Object(after)) => {
                let field = meta.object_field(name)?;
                let changes = of_objects(field.meta, before, after, scope, field.strategy.retain_keys)?;
                if !changes.is_empty() {
                    patch.insert(name.clone(), Value::Object(changes));
                }
            }
            (Some(Value::Array(before)), Value::Array(after)) => {
                of_list_fields(meta, name, before, after, scope, &mut patch)?;
            }
            _ if scope.changes => {
                patch.insert(name.clone(), after.clone());
            }
            _ => {}
        }
    }
    if scope.deletions {
        let deleted = original.keys().filter(|name| !modified.contains_key(*name));
        patch.extend(deleted.map(|name| (name.clone(), Value::Null)));
    }
    if retain_keys {
        add_retain_keys(original, modified, &mut patch);
    }
    Ok(patch)
}

fn of_list_fields(
    meta: PatchMeta<'_>,
    name: &str,
    before: &[Value],
    after: &[Value],
    scope: Scope,
    patch: &mut Map<String, Value>,
) -> Result<(), PatchError> {
    let field = meta.list_field(name)?;
    if !field.strategy.merge {
        if scope.changes {
            patch.insert(name.to_owned(), Value::from(after));
        }
        return Ok(());
    }
    let lists = difference_of_lists::of_lists(field, before, after, scope)?;
    let parts = [
        (name.to_owned(), lists.items),
        (key_for(DELETE_FROM_LIST, name), lists.deletions),
        (key_for(SET_ELEMENT_ORDER, name), lists.order),
    ];
    let parts = parts.into_iter().filter(|(_, items)| !items.is_empty());
    patch.extend(parts.map(|(key, items)| (key, Value::Array(items))));
    Ok(())
}

/// Adds `$retainKeys` if the patch has other changes or a field is removed.
fn add_retain_keys(
    original: &Map<String, Value>,
    modified: &Map<String, Value>,
    patch: &mut Map<String, Value>,
) {
    let mut retained: Vec<&str> =
        modified.iter().filter(|(_, value)| !value.is_null()).map(|(name, _)| name.as_str()).collect();
    let drops_field = original.iter().any(|(name, value)| !value.is_null() && !modified.contains_key(name));
    if !retained.is_empty() && (!patch.is_empty() || drops_field) {
        retained.sort_unstable();
        patch.insert(RETAIN_KEYS.to_owned(), Value::from(retained));
    }
}
