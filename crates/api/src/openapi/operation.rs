//! One operation: parameters, body and responses.

use serde_json::{Map, Value, json};

use super::descriptions::Descriptions;
use super::parameters::{self, Parameter};
use super::{GroupVersion, object, reference};
use crate::schema::types;

pub(super) const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
pub(super) const ANSWERS: &[&str] =
    &["application/json", "application/vnd.kubernetes.protobuf", "application/yaml"];
/// Response media types of kinds without protobuf.
pub(super) const TEXTS: &[&str] = &["application/json", "application/yaml"];
pub(super) const STREAMS: &[&str] =
    &["application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch"];

/// A kind with its group and version.
pub(super) type FullKind<'a> = (GroupVersion<'a>, &'a str);

/// An operation.
pub(super) struct Operation<'a> {
    pub(super) method: &'static str,
    pub(super) action: &'static str,
    pub(super) description: String,
    pub(super) id: String,
    pub(super) kind: FullKind<'a>,
    pub(super) parameters: &'static [Parameter],
    pub(super) body: Option<Value>,
    pub(super) answers: &'static [&'static str],
    /// The response content by media type.
    pub(super) content: Value,
}

/// The operations of a path. Parameters of all operations are listed once for the path.
pub(super) fn path_item(
    path: &str,
    kind: &str,
    tag: &str,
    operations: Vec<Operation<'_>>,
    descriptions: &Descriptions,
) -> Value {
    let in_path = parameters::of_path(path, kind);
    let mut taken: Vec<Vec<Value>> =
        operations.iter().map(|one| parameters(one, &in_path, descriptions)).collect();
    let mut shared = taken.first().cloned().unwrap_or_default();
    shared.retain(|one| taken.iter().all(|taken| taken.contains(one)));
    taken.iter_mut().for_each(|taken| taken.retain(|one| !shared.contains(one)));
    let mut item: Map<String, Value> = operations
        .into_iter()
        .zip(taken)
        .map(|(operation, parameters)| (operation.method.to_owned(), operation.write(tag, parameters)))
        .collect();
    item.insert("parameters".into(), shared.into());
    Value::Object(item)
}

/// All parameters of an operation, sorted by name.
fn parameters(operation: &Operation<'_>, in_path: &[Value], descriptions: &Descriptions) -> Vec<Value> {
    let common = if operation.action == "connect" { &[] } else { parameters::COMMON };
    let query = [common, operation.parameters].map(|some| parameters::query(some, descriptions));
    let query = query.into_iter().flatten();
    let mut all: Vec<Value> = in_path.iter().cloned().chain(query).collect();
    let key = |one: &Value| (one["name"].to_string(), one["in"].to_string());
    all.sort_by_key(key);
    all
}

impl Operation<'_> {
    fn write(self, tag: &str, parameters: Vec<Value>) -> Value {
        let (GroupVersion { group, version }, kind) = self.kind;
        Value::Object(object([
            ("description", Some(self.description.into())),
            ("operationId", Some(self.id.into())),
            ("tags", Some(json!([tag]))),
            ("parameters", (!parameters.is_empty()).then(|| parameters.into())),
            ("requestBody", self.body),
            ("responses", Some(responses(self.answers, &self.content))),
            ("x-kubernetes-action", Some(self.action.into())),
            (
                "x-kubernetes-group-version-kind",
                Some(json!({ "group": group, "version": version, "kind": kind })),
            ),
        ]))
    }
}

/// A GET without parameters and kind.
pub(super) fn plain_get(description: &str, id: &str, tag: &str, content: &Value) -> Value {
    json!({ "get": {
        "description": description,
        "operationId": id,
        "tags": [tag],
        "responses": responses(&["200"], content),
    } })
}

/// The full name of a kind.
pub(super) fn name_of((GroupVersion { group, version }, kind): FullKind<'_>) -> String {
    match types().kind(group, version, kind) {
        Some(id) => format!("{}.{}", types().get(id).package, types().get(id).name),
        // The naming scheme of custom kinds.
        None => {
            let parts: Vec<&str> = group.split('.').rev().collect();
            format!("{}.{version}.{kind}", parts.join("."))
        }
    }
}

pub(super) fn schema(kind: FullKind<'_>) -> Value {
    reference(&name_of(kind))
}

pub(super) fn content(media: &[&str], schema: &Value) -> Value {
    media.iter().map(|media| ((*media).to_owned(), json!({ "schema": schema }))).collect::<Map<_, _>>().into()
}

pub(super) fn body(media: &[&str], schema: &Value, required: bool) -> Value {
    let required = required.then_some(Value::Bool(true));
    Value::Object(object([("content", Some(content(media, schema))), ("required", required)]))
}

fn responses(codes: &[&str], content: &Value) -> Value {
    let name = |code: &str| match code {
        "201" => "Created",
        "202" => "Accepted",
        _ => "OK",
    };
    let good = codes
        .iter()
        .map(|code| ((*code).to_owned(), json!({ "description": name(code), "content": content })));
    let refused = ("401".to_owned(), json!({ "description": "Unauthorized" }));
    good.chain([refused]).collect::<Map<_, _>>().into()
}
