//! Custom objects together with the schema of their kind: both come from clients.

use coracle_api::codec::{Decoded, Problem, Target as DecodeTarget, json};
use coracle_api::schema::{TypeId, graph, types};
use coracle_crd::{CustomKind, ExpressionCosts, Metadata, OpenApi, Structural, UnknownInDefaults};
use coracle_meta::apply::typed::{Strictness, Type};
use coracle_meta::field::{ErrorList, Path};
use serde_json::Value;

use super::{outcome, outline};

pub(super) const SEEDS: &[&[u8]] = &[
    br#"{"schema":{"type":"object","properties":{"spec":{"type":"object","required":["a"],"properties":{"a":{"type":"string","maxLength":3,"pattern":"^[a-z\\d]+$","format":"uri"},"n":{"type":"integer","minimum":1,"multipleOf":2,"default":4,"enum":[2,4]},"p":{"x-kubernetes-int-or-string":true}}}}},"object":{"spec":{"a":"b","n":3,"p":"x","q":null}},"old":{"spec":{"a":"b"}}}"#,
    br#"{"schema":{"type":"object","properties":{"l":{"type":"array","maxItems":2,"items":{"type":"object","properties":{"k":{"type":"string","nullable":true},"v":{"type":"number","maximum":1.5}}},"x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"]},"s":{"type":"array","items":{"type":"string"},"x-kubernetes-list-type":"set"},"m":{"type":"object","additionalProperties":{"type":"integer","default":1},"maxProperties":1}}},"object":{"l":[{"k":"a","v":2},{"k":"a"}],"s":["a","a"],"m":{"x":null,"y":2}},"old":{"l":[{"k":"a","v":2}]}}"#,
    br#"{"schema":{"type":"object","properties":{"pod":{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true,"properties":{"o":{"type":"object","properties":{"a":{"type":"integer"}},"anyOf":[{"required":["a"]},{"properties":{"a":{"minimum":3}}}],"not":{"maxProperties":0},"oneOf":[{},{"allOf":[{"minProperties":9}]}]}}}}},"object":{"pod":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","x":1},"o":{"a":1,"b":2}}}}"#,
];

/// Seeds with validation rules, which have outcomes of their own.
pub(super) const WITH_RULES: &[&[u8]] = &[
    br#"{"schema":{"type":"object","x-kubernetes-validations":[{"rule":"self.metadata.name.size() < 5","fieldPath":".l"}],"properties":{"l":{"type":"array","items":{"type":"object","properties":{"k":{"type":"string","default":"z"},"v":{"x-kubernetes-int-or-string":true}},"x-kubernetes-validations":[{"rule":"self.v > oldSelf.v","messageExpression":"'v is ' + string(self.v)","reason":"FieldValueForbidden"}]},"x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"]},"d":{"type":"string","format":"duration","x-kubernetes-validations":[{"rule":"self < duration('1h') || oldSelf.hasValue()","optionalOldSelf":true,"message":"too long"}]}}},"object":{"metadata":{"name":"long-name"},"l":[{"k":"a","v":1},{"k":"b","v":"x"}],"d":"2h"},"old":{"l":[{"k":"a","v":2}]}}"#,
];

/// Parses a schema and an object, and applies all processing steps of custom objects.
pub(super) fn run(input: &[u8]) -> String {
    let Ok(decoded) = json::decode(input, DecodeTarget::Any) else { return "no JSON".into() };
    let part = |name: &str| decoded.object.get(name).cloned().unwrap_or_default();
    let (document, old) = (part("schema"), part("old"));
    outcome(Structural::parse(&document).map(|schema| {
        publish(&document);
        define(&schema);
        let mut object = part("object");
        let conformed = schema.conform(&mut object, &read_metadata, false).map_err(|error| error.to_string());
        let unknown = match &conformed {
            Ok(unknown) => unknown.len().min(3).to_string(),
            Err(message) => format!("refused: {}", outline(message)),
        };
        settle(&schema, &mut object);
        format!("{unknown}; {}", check(&schema, &object, &old))
    }))
}

fn object_meta() -> TypeId {
    types().named("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta").expect("it is built in")
}

fn read_metadata(found: &Value) -> Result<Metadata, String> {
    let Decoded { object, problems } =
        json::conform(found.clone(), object_meta()).map_err(|error| error.to_string())?;
    let unknown = problems.into_iter().filter_map(|problem| match problem {
        Problem::Unknown(path) => Some(path),
        _ => None,
    });
    Ok(Metadata { value: object, unknown: unknown.collect() })
}

/// Asserts that every step is idempotent.
fn settle(schema: &Structural, object: &mut Value) {
    schema.prune(object);
    let pruned = object.clone();
    assert!(schema.prune(object).is_empty() && *object == pruned, "pruning is idempotent");
    schema.drop_nulls(object);
    let dropped = object.clone();
    schema.drop_nulls(object);
    assert_eq!(*object, dropped, "dropping nulls is idempotent");
    schema.set_defaults(object);
    let defaulted = object.clone();
    schema.set_defaults(object);
    assert_eq!(*object, defaulted, "defaulting is idempotent");
}

fn check(schema: &Structural, object: &Value, old: &Value) -> String {
    let (mut created, mut updated, mut same) = (ErrorList::new(), ErrorList::new(), ErrorList::new());
    schema.check_create(object, &mut created);
    schema.check_update(object, old, &mut updated);
    schema.check_status_update(object, old, &mut updated);
    schema.validate(object, Some(object), &Path::NIL, &mut same);
    assert!(same.len() <= created.len(), "an unchanged object has no new errors");
    let (known, root) = schema.to_schema((graph().schema(), graph().node(object_meta())));
    let ty = Type::new(&known, root);
    let applied = if ty.validate(object, Strictness::Applied).is_ok() { "applies" } else { "does not apply" };
    let first = created.iter().next().map(|error| outline(&error.body()));
    format!("{} {} {applied}", first.unwrap_or_default(), updated.len().min(2))
}

/// Checks the schema itself.
fn define(schema: &Structural) {
    let (path, mut found, mut in_rules) = (Path::root("schema"), ErrorList::new(), ErrorList::new());
    schema.check_defaults(UnknownInDefaults::Refused, &path, &read_metadata, &mut found);
    schema.check_rules(ExpressionCosts::Limited, &path, &found, &mut in_rules);
}

fn publish(schema: &Value) {
    let kind = CustomKind {
        group: "example.com",
        version: "v1",
        kind: "Boat",
        list_kind: "BoatList",
        plural: "boats",
        selectable_fields: &[],
    };
    for open_api in [OpenApi::V2, OpenApi::V3] {
        let definition = kind.definition(Some(schema), open_api);
        assert!(definition["x-kubernetes-group-version-kind"].is_array());
    }
}
