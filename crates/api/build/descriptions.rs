//! Descriptions of types and fields from k8s-openapi.
//!
//! The text consists of types, each after a [`TYPE`]; the fields of a type follow after a [`FIELD`] each; a name ends
//! at a [`NAME_END`], and its description follows. `src/openapi/descriptions.rs` parses it.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;

use k8s_openapi::schemars::SchemaGenerator;
use serde_json::Value;

use crate::kinds;

const TYPE: char = '\x1d';
const FIELD: char = '\x1e';
const NAME_END: char = '\x1f';

const WATCH_EVENT: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent";

/// Descriptions of a type (under an empty name) and of its fields.
type Described = BTreeMap<String, String>;

/// The descriptions of the types in `data/schema.txt`, as one text. `more` has those of types that the crate does not
/// publish, lists and options of requests, from Kubernetes' own OpenAPI document (v1.36.4, Apache-2.0).
pub(crate) fn of_types(schema: &str, more: &str) -> Result<String, Box<dyn Error>> {
    let mut types = published(schema)?;
    types.extend(serde_json::from_str::<BTreeMap<String, Described>>(more)?);
    let mut out = String::new();
    for (name, described) in types {
        push(&mut out, TYPE, &name, described.get("").map_or("", String::as_str))?;
        for (field, text) in described.iter().filter(|(field, _)| !field.is_empty()) {
            push(&mut out, FIELD, field, text)?;
        }
    }
    Ok(out)
}

fn published(schema: &str) -> Result<BTreeMap<String, Described>, Box<dyn Error>> {
    let mut generator = SchemaGenerator::default();
    kinds::all(&mut generator);
    let wanted = names(schema);
    let mut types = BTreeMap::new();
    for (name, definition) in generator.definitions().iter().filter(|(name, _)| wanted.contains(*name)) {
        let described = match name.as_str() {
            WATCH_EVENT => watch_event(text(definition))?,
            _ => {
                let fields = definition["properties"].as_object().into_iter().flatten();
                let fields = fields.map(|(field, property)| (field.clone(), text(property).to_owned()));
                fields.chain([(String::new(), text(definition).to_owned())]).collect()
            }
        };
        types.insert(name.clone(), described);
    }
    Ok(types)
}

fn text(schema: &Value) -> &str {
    schema["description"].as_str().unwrap_or_default()
}

/// The crate describes the object of a watch event in the description of the event.
fn watch_event(text: &str) -> Result<Described, Box<dyn Error>> {
    let (event, object) = text.split_once("\n\n").ok_or("the words of watch events have no second part")?;
    let fields = [("", event), ("object", object.trim_end())];
    Ok(fields.map(|(field, text)| (field.to_owned(), text.to_owned())).into())
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

/// The full names of all types. Names of types begin with a capital; other words after `type` are shapes of fields
/// with that name.
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
