//! Empty lists and maps in error messages.
//!
//! Objects are decoded into the stored form, which omits empty lists and maps where absent ones mean the same.
//! kube-apiserver drops them later, so its messages print `[]` or `{}` where the client sent that, and `null` where
//! the field was absent.

use coracle_meta::field::ErrorList;
use serde_json::Value;

/// The body of a request as the client sent it.
pub trait SentBody: Send + Sync {
    /// The JSON of the object in the body; none if there is no object or it is too large to be parsed again.
    fn untyped(&self) -> Option<Value>;
}

/// Validates an object. If it is invalid, validates it again with the empty lists and maps of the body and returns
/// those messages, unless the errors differ in more than the printed values.
pub(super) fn validated(
    object: &Value,
    sent: Option<&dyn SentBody>,
    validate: impl Fn(&Value) -> ErrorList,
) -> ErrorList {
    let errors = validate(object);
    if errors.is_empty() {
        return errors;
    }
    let Some(sent) = sent.and_then(SentBody::untyped) else { return errors };
    let mut as_sent = object.clone();
    if !restore_empty(&mut as_sent, &sent) {
        return errors;
    }
    let reprinted = validate(&as_sent);
    let are_same = errors.len() == reprinted.len()
        && errors.iter().zip(reprinted.iter()).all(|(a, b)| (a.kind, &a.field) == (b.kind, &b.field));
    if are_same { reprinted } else { errors }
}

/// Adds the empty lists and maps of `sent` that `object` lacks. Returns whether there were any.
fn restore_empty(object: &mut Value, sent: &Value) -> bool {
    match (object, sent) {
        (Value::Object(fields), Value::Object(sent)) => {
            let mut is_changed = false;
            for (name, sent) in sent.iter().filter(|(name, _)| *name != "managedFields") {
                match fields.get_mut(name) {
                    None | Some(Value::Null) if is_empty(sent) => {
                        fields.insert(name.clone(), sent.clone());
                        is_changed = true;
                    }
                    Some(value) => is_changed |= restore_empty(value, sent),
                    None => {}
                }
            }
            is_changed
        }
        (Value::Array(items), Value::Array(sent)) if items.len() == sent.len() => items
            .iter_mut()
            .zip(sent)
            .fold(false, |is_changed, (item, sent)| restore_empty(item, sent) | is_changed),
        _ => false,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use coracle_meta::field::{BadValue, FieldError, Path};
    use serde_json::json;

    use super::*;

    struct Body(Value);

    impl SentBody for Body {
        fn untyped(&self) -> Option<Value> {
            Some(self.0.clone())
        }
    }

    fn validate(object: &Value) -> ErrorList {
        let value = BadValue::json(object.pointer("/spec/list").unwrap_or(&Value::Null));
        FieldError::invalid(&Path::root("spec.list"), value, "why").into()
    }

    #[test]
    fn empty_list_is_printed_as_it_was_sent() {
        let stored = json!({"spec": {"items": [{"name": "a"}], "list": null}});
        let print = |sent: Value| validated(&stored, Some(&Body(sent)), validate).to_string();
        assert_eq!(print(json!({"spec": {"list": []}})), "spec.list: Invalid value: []: why");
        assert_eq!(print(json!({"spec": {"list": null}})), "spec.list: Invalid value: null: why");
        assert_eq!(print(json!({"spec": {}})), "spec.list: Invalid value: null: why");
        assert_eq!(validated(&stored, None, validate).to_string(), "spec.list: Invalid value: null: why");
    }

    #[test]
    fn empty_values_are_restored_where_they_were_left_out() {
        let mut object = json!({"a": {"b": [{"name": "x"}]}, "c": 1});
        let sent = json!({"a": {"b": [{"name": "x", "labels": {}}], "d": []}, "e": {"f": []}});
        assert!(restore_empty(&mut object, &sent));
        assert_eq!(object, json!({"a": {"b": [{"name": "x", "labels": {}}], "d": []}, "c": 1}));
        assert!(!restore_empty(&mut object, &sent));
    }

    #[test]
    fn other_errors_than_those_of_the_object_are_not_reported() {
        let validate = |object: &Value| match object.get("list") {
            None => ErrorList::from(FieldError::required(&Path::root("list"), "")),
            Some(_) => ErrorList::new(),
        };
        let errors = validated(&json!({}), Some(&Body(json!({"list": []}))), validate);
        assert_eq!(errors.to_string(), "list: Required value");
    }
}
