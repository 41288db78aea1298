//! What types and fields mean, in the words that k8s-openapi publishes for them.
//!
//! The text is made of types, each after a [`TYPE`]; in a type, fields follow after a [`FIELD`]
//! each; a name ends at a [`NAME_END`], and what it means follows. `src/openapi/descriptions.rs`
//! reads it.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;

use k8s_openapi::schemars::SchemaGenerator;
use serde_json::Value;

use crate::kinds;

const TYPE: char = '\x1d';
const FIELD: char = '\x1e';
const NAME_END: char = '\x1f';

const WATCH_EVENT: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent";

/// The descriptions of the types in `data/schema.txt`, as one text.
pub(crate) fn of_types(schema: &str) -> Result<String, Box<dyn Error>> {
    let mut generator = SchemaGenerator::default();
    kinds::all(&mut generator);
    let published: BTreeMap<&String, &Value> = generator.definitions().iter().collect();
    let wanted = names(schema);
    let described = published.into_iter().filter(|(name, _)| wanted.contains(name.as_str()));
    let mut out = String::new();
    for (name, definition) in described {
        if name == WATCH_EVENT {
            push_watch_event(&mut out, text(definition))?;
            continue;
        }
        push(&mut out, TYPE, name, text(definition))?;
        for (field, property) in definition["properties"].as_object().into_iter().flatten() {
            push(&mut out, FIELD, field, text(property))?;
        }
    }
    Ok(out)
}

fn text(schema: &Value) -> &str {
    schema["description"].as_str().unwrap_or_default()
}

/// The crate tells of the whole event what is to be told of the object in it.
fn push_watch_event(out: &mut String, text: &str) -> Result<(), Box<dyn Error>> {
    let (event, object) = text.split_once("\n\n").ok_or("the words of watch events have no second part")?;
    push(out, TYPE, WATCH_EVENT, event)?;
    push(out, FIELD, "object", object.trim_end())
}

fn push(out: &mut String, mark: char, name: &str, text: &str) -> Result<(), Box<dyn Error>> {
    if text.contains([TYPE, FIELD, NAME_END]) {
        return Err(format!("the description of {name} has a mark in it").into());
    }
    out.extend([mark]);
    out.push_str(name);
    out.extend([NAME_END]);
    out.push_str(text);
    Ok(())
}

/// The full names of all types. Names of types begin with a capital, other words after `type`
/// are shapes of fields of that name.
fn names(schema: &str) -> BTreeSet<String> {
    let mut package = "";
    let mut found = BTreeSet::new();
    for line in schema.lines() {
        let mut words = line.split(' ');
        match (words.next(), words.next()) {
            (Some("package"), Some(name)) => package = name,
            (Some("type" | "single"), Some(name)) if name.starts_with(|c: char| c.is_ascii_uppercase()) => {
                found.insert(format!("{package}.{name}"));
            }
            _ => {}
        }
    }
    found
}
