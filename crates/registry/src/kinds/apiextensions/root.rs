//! Root of a schema with a status subresource: only fields that do not constrain the status are allowed, because the
//! status is validated against its own part of the schema.

use coracle_meta::field::{ErrorList, FieldError, Path};
use serde_json::Value;

use crate::{internal_types, view};

/// Go's field names in kube-apiserver's order, as the message prints them.
const ALLOWED: [&str; 22] = [
    "Description",
    "Type",
    "Format",
    "Title",
    "Maximum",
    "ExclusiveMaximum",
    "Minimum",
    "ExclusiveMinimum",
    "MaxLength",
    "MinLength",
    "Pattern",
    "MaxItems",
    "MinItems",
    "UniqueItems",
    "MultipleOf",
    "Required",
    "Items",
    "Properties",
    "ExternalDocs",
    "Example",
    "XPreserveUnknownFields",
    "XValidations",
];

/// Reports the first field that is not allowed.
pub(super) fn check(schema: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    for field in internal_types::fields_set("apiextensions.JSONSchemaProps", schema) {
        if field == "Type" {
            let found = view::text(schema, &["type"]);
            if found != "object" {
                let detail = "only \"object\" is allowed as the type at the root of the schema if the status \
                              subresource is enabled";
                return errors.push(FieldError::invalid(&path.child("type"), found, detail));
            }
        } else if !ALLOWED.contains(&field) {
            let detail = format!(
                "only [{}] fields are allowed at the root of the schema if the status subresource is enabled",
                ALLOWED.join(" ")
            );
            return errors.push(FieldError::invalid(
                path,
                internal_types::printed("*@apiextensions.JSONSchemaProps", Some(schema)),
                detail,
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fields(schema: Value) -> Vec<String> {
        let mut errors = ErrorList::new();
        check(&schema, &Path::root("s"), &mut errors);
        errors.iter().map(|error| error.field.to_string()).collect()
    }

    #[test]
    fn first_disallowed_field_is_reported() {
        let allowed = json!({"type": "object", "required": ["spec"], "nullable": false, "properties": {}});
        assert!(fields(allowed).is_empty());
        assert_eq!(fields(json!({"type": "array", "minProperties": 1})), ["s.type"]);
        assert_eq!(fields(json!({"type": "object", "minProperties": 1, "anyOf": []})), ["s"]);
    }
}
