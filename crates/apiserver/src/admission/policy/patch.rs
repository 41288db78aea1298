//! Mutations by the expressions of a MutatingAdmissionPolicy.

use std::fmt::Write as _;

use coracle_cel::{Budget, EvalError, Object, Value as CelValue};
use coracle_meta::apply::typed::{Strictness, Type};
use coracle_meta::patch::json::JsonPatch;
use coracle_meta::patch::{OperationError, PatchError};
use coracle_meta::schema::{ListMerge, Node, NodeId, Schema};
use coracle_registry::form::ObjectForm;
use serde_json::{Map, Value, json};

use super::compiled::{Mutation, Policy};
use super::evaluation::{Failure, Inputs};
use super::request::{PolicyRequest, Representation};

/// Returns the object after a mutation; None if there is no object, or it is unchanged.
///
/// # Errors
/// If the mutation fails.
pub(super) fn apply(
    mutation: &Mutation,
    policy: &Policy,
    params: Option<&Value>,
    inputs: &Inputs<'_>,
    request: &PolicyRequest<'_>,
    representation: Representation<'_>,
    budget: &mut Budget,
) -> Result<Option<Value>, Failure> {
    let Some(object) = inputs.object() else { return Ok(None) };
    let bound = inputs.bind(policy, params);
    let form = request.form(representation);
    match mutation {
        Mutation::ApplyConfiguration(expression) => {
            let config = bound.evaluate(expression, budget)?;
            Ok(Some(apply_configuration(&config, object, &form)?))
        }
        Mutation::JsonPatch(expression) => {
            let operations = bound.evaluate(expression, budget)?;
            Ok(json_patch(&operations, object, &form)?)
        }
    }
}

fn apply_configuration(
    config: &CelValue<'_>,
    object: &Value,
    form: &ObjectForm<'_>,
) -> Result<Value, String> {
    let CelValue::Object(made) = config else {
        return Err("unsupported return type from ApplyConfiguration expression".into());
    };
    check_names(made, "Object").map_err(|error| format!("type mismatch: {error}"))?;
    let mut config = config.to_json().map_err(|error| error.to_string())?;
    for field in ["apiVersion", "kind"] {
        config[field] = object[field].clone();
    }
    let failed = |error: String| format!("error applying patch: {error}");
    let Some(schema) = form.schema() else {
        return Err(failed("type converter must not be nil".into()));
    };
    let object_type = Type::new(schema.schema, schema.node);
    object_type
        .validate(&config, Strictness::Applied)
        .map_err(|errors| failed(format!("failed to convert patch object to typed object: {errors}")))?;
    let mut atomics = Vec::new();
    find_atomics(schema.schema, schema.node, &config, &mut String::new(), &mut atomics);
    if !atomics.is_empty() {
        let places = atomics.join(", ");
        return Err(failed(format!(
            "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {places}"
        )));
    }
    let merged = object_type.merge(object.clone(), &config);
    conform(form, merged)
}

/// Checks that the types of the created objects are named after their path.
fn check_names(object: &Object<'_>, expected: &str) -> Result<(), String> {
    if &*object.type_name != expected {
        return Err(format!(
            "unexpected type name {:?}, expected {expected:?}, which matches field name path from root Object type",
            object.type_name
        ));
    }
    for (field, value) in &object.fields {
        check_value(value, &format!("{expected}.{field}"))?;
    }
    Ok(())
}

fn check_value(value: &CelValue<'_>, expected: &str) -> Result<(), String> {
    match value {
        CelValue::Object(inner) => check_names(inner, expected),
        CelValue::Optional(Some(inner)) => check_value(inner, expected),
        CelValue::List(_) => all(value.elements(), |element| check_value(&element, expected)),
        CelValue::Map(_) => all(value.entries(), |(_, element)| check_value(&element, expected)),
        _ => Ok(()),
    }
}

/// Calls `look` with each element that an expression created.
fn all<T>(
    made: Option<impl Iterator<Item = Result<T, EvalError>>>,
    mut look: impl FnMut(T) -> Result<(), String>,
) -> Result<(), String> {
    made.into_iter().flatten().try_for_each(|made| look(made.map_err(|error| error.to_string())?))
}

/// Finds the atomic fields in a configuration, which are replaced as a whole: an author hardly intends to remove
/// everything that the configuration omits.
fn find_atomics(schema: &Schema, node: NodeId, value: &Value, path: &mut String, found: &mut Vec<String>) {
    let length = path.len();
    match (schema.node(node), value) {
        (Node::Object(object), Value::Object(fields)) => {
            if object.atomic {
                found.push(path.clone());
            }
            for (name, value) in fields {
                let Some(field) = object.field(name) else { continue };
                let _ = write!(path, ".{name}");
                find_atomics(schema, field.node, value, path, found);
                path.truncate(length);
            }
        }
        (Node::List(list), Value::Array(items)) => {
            if list.merge == ListMerge::Atomic {
                found.push(path.clone());
            }
            for (index, item) in items.iter().enumerate() {
                let _ = write!(path, "[{index}]");
                find_atomics(schema, list.item, item, path, found);
                path.truncate(length);
            }
        }
        _ => {}
    }
}

fn json_patch(
    operations: &CelValue<'_>,
    object: &Value,
    form: &ObjectForm<'_>,
) -> Result<Option<Value>, String> {
    let mut made = Vec::new();
    all(operations.elements(), |operation| {
        made.push(json_operation(&operation)?);
        Ok(())
    })?;
    let patch = JsonPatch::from_value(Value::Array(made)).map_err(|error| format!("JSON Patch: {error}"))?;
    match patch.apply(object.clone()) {
        Ok(patched) => conform(form, patched).map(Some),
        // A failing test makes the whole patch a no-op.
        Err(PatchError::OperationFailed { error: OperationError::TestFailed { .. }, .. }) => Ok(None),
        Err(error) => Err(format!("JSON Patch: {error}")),
    }
}

fn json_operation(operation: &CelValue<'_>) -> Result<Value, String> {
    let CelValue::Object(operation) = operation else {
        return Err("type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch".into());
    };
    let mut made = Map::new();
    for field in ["op", "path", "from"] {
        match operation.field(field) {
            Some(CelValue::String(text)) if field != "from" || !text.as_str().is_empty() => {
                made.insert(field.to_owned(), text.as_str().into());
            }
            _ if field != "from" => {
                made.insert(field.to_owned(), json!(""));
            }
            _ => {}
        }
    }
    if let Some(value) = operation.field("value") {
        if let CelValue::Object(inner) = value {
            check_names(inner, &inner.type_name).map_err(|error| format!("type mismatch: {error}"))?;
        }
        let value = value.to_json().map_err(|error| {
            format!("JSONPath valueExpression evaluated to a type that could not marshal to JSON: {error}")
        })?;
        made.insert("value".to_owned(), value);
    }
    Ok(Value::Object(made))
}

/// Checks that the changed object has the type of its kind, as for a client's object.
fn conform(form: &ObjectForm<'_>, object: Value) -> Result<Value, String> {
    let decoded = form.conform(object).map_err(|error| error.to_string())?;
    match decoded.problems.first() {
        None => Ok(decoded.object),
        Some(problem) => Err(format!("strict decoding error: {problem}")),
    }
}
