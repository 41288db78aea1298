//! Secret: small amounts of confidential data.

use std::borrow::Cow;
use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use coracle_meta::field::{ErrorList, FieldError, Path};
use coracle_meta::name;
use serde_json::{Map, Value};

use super::{key_pair, rules};
use crate::kind::{Column, Declaration, Kind, Scope, texts};
use crate::view;

/// Maximum size of all values together in bytes, as in kube-apiserver.
const MAX_TOTAL_BYTES: usize = 1024 * 1024;

/// Annotation with the name of the service account that a token belongs to.
const SERVICE_ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";

/// [`Kind`] of Secret objects.
pub struct Secret;

static DECLARATION: LazyLock<Declaration> = LazyLock::new(|| Declaration {
    metadata_checks: 1,
    selectable_fields: texts(&["type"]),
    columns: vec![
        Column::name(),
        Column::text("Type", "type of the secret"),
        Column::text("Data", "number of keys"),
        Column::age(),
    ],
    storage_version_hash: "S6u1pOWzb84=".into(),
    ..Declaration::new("", &["v1"], "Secret", "secrets", "secret", Scope::Namespaced)
});

impl Kind for Secret {
    fn declaration(&self) -> &Declaration {
        &DECLARATION
    }

    fn set_defaults(&self, object: &mut Value) {
        merge_string_data(object);
        if view::text(object, &["type"]).is_empty() {
            object["type"] = "Opaque".into();
        }
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        let path = Path::root("data");
        let mut total = 0;
        for (key, value) in view::fields(object, &["data"]) {
            rules::text(key, name::config_map_key, &path.key(key), errors);
            // Base64: four characters encode three bytes.
            total += value.as_str().map_or(0, |text| text.trim_end_matches('=').len() * 3 / 4);
        }
        if total > MAX_TOTAL_BYTES {
            errors.push(FieldError::too_long(&path, MAX_TOTAL_BYTES));
        }
        check_type(object, &path, errors);
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        rules::immutable("S", new.get("type"), old.get("type"), &Path::root("type"), errors);
        if !view::is_true(old, &["immutable"]) {
            return;
        }
        let frozen = "field is immutable when `immutable` is set";
        if !view::is_true(new, &["immutable"]) {
            errors.push(FieldError::forbidden(&Path::root("immutable"), frozen));
        }
        if new.get("data") != old.get("data") {
            errors.push(FieldError::forbidden(&Path::root("data"), frozen));
        }
    }

    fn warnings(&self, new: &Value, _old: Option<&Value>) -> Vec<String> {
        if view::text(new, &["type"]) == "kubernetes.io/tls" {
            return key_pair::warning(new).into_iter().collect();
        }
        Vec::new()
    }

    fn selectable_value<'a>(&self, object: &'a Value, _field: &str) -> Cow<'a, str> {
        Cow::Borrowed(view::text(object, &["type"]))
    }

    fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        let count = view::fields(object, &["data"]).count();
        vec![
            view::name(object).into(),
            view::text(object, &["type"]).into(),
            count.into(),
            view::age(object, now),
        ]
    }

    #[cfg(any(test, feature = "samples"))]
    fn samples(&self) -> crate::samples::Samples {
        samples()
    }

    #[cfg(any(test, feature = "samples"))]
    fn warned_samples(&self) -> Vec<crate::samples::Warned> {
        use serde_json::json;

        let secret = |certificate: &str, key: &str| {
            let data = json!({"tls.crt": STANDARD.encode(certificate), "tls.key": STANDARD.encode(key)});
            json!({"type": "kubernetes.io/tls", "data": data})
        };
        let pem = |label: &str| format!("-----BEGIN {label}-----\nMAA=\n-----END {label}-----\n");
        let (certificate, key) = (&*pem("CERTIFICATE"), &*pem("PRIVATE KEY"));
        let warned = |certificate: &str, key: &str, warning: &'static str| {
            crate::samples::Warned::created(secret(certificate, key), &[warning])
        };
        vec![
            crate::samples::Warned::created(secret(certificate, key), &[]),
            warned("x", key, "tls: failed to find any PEM data in certificate input"),
            warned(certificate, "x", "tls: failed to find any PEM data in key input"),
            warned(
                certificate,
                certificate,
                "tls: found a certificate rather than a key in the PEM for the private key",
            ),
            warned(
                key,
                key,
                "tls: failed to find certificate PEM data in certificate input, but did find a private key; \
                 PEM inputs may have been switched",
            ),
            warned(
                &pem("X509 CRL"),
                key,
                "tls: failed to find \"CERTIFICATE\" PEM block in certificate input after skipping PEM blocks of \
                 the following types: [X509 CRL]",
            ),
        ]
    }
}

/// Moves `stringData`, which is write-only, into `data`, where it overwrites existing keys.
fn merge_string_data(object: &mut Value) {
    let Value::Object(fields) = object else { return };
    let Some(Value::Object(strings)) = fields.remove("stringData") else { return };
    let data = fields.entry("data").or_insert_with(|| Value::Object(Map::new()));
    if let Value::Object(data) = data {
        for (key, value) in strings {
            let text = STANDARD.encode(value.as_str().unwrap_or_default());
            data.insert(key, text.into());
        }
    }
}

/// Validates the data that a secret of a known type must contain.
fn check_type(object: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let value = |key: &str| view::at(object, &["data", key]).and_then(Value::as_str);
    let mut require = |key: &str| {
        if value(key).is_none() {
            errors.push(FieldError::required(&path.key(key), ""));
        }
    };
    match view::text(object, &["type"]) {
        "kubernetes.io/service-account-token" => {
            let account = view::text(object, &["metadata", "annotations", SERVICE_ACCOUNT_NAME]);
            let path = Path::root("metadata.annotations");
            require_text(account, &path.key(SERVICE_ACCOUNT_NAME), errors);
        }
        "kubernetes.io/dockercfg" => check_json(".dockercfg", value(".dockercfg"), path, errors),
        "kubernetes.io/dockerconfigjson" => {
            check_json(".dockerconfigjson", value(".dockerconfigjson"), path, errors);
        }
        "kubernetes.io/basic-auth" if value("username").is_none() && value("password").is_none() => {
            require("username");
            require("password");
        }
        "kubernetes.io/ssh-auth" => {
            let key = value("ssh-privatekey").unwrap_or_default();
            require_text(key, &path.key("ssh-privatekey"), errors);
        }
        "kubernetes.io/tls" => {
            require("tls.crt");
            require("tls.key");
        }
        _ => {}
    }
}

fn require_text(text: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if text.is_empty() {
        errors.push(FieldError::required(path, ""));
    }
}

fn check_json(key: &str, value: Option<&str>, path: &Path<'_>, errors: &mut ErrorList) {
    let path = path.key(key);
    let Some(value) = value else {
        errors.push(FieldError::required(&path, ""));
        return;
    };
    let bytes = STANDARD.decode(value).unwrap_or_default();
    if let Some(detail) = json_problem(&bytes) {
        errors.push(FieldError::invalid(&path, "<secret contents redacted>", detail));
    }
}

/// Error text of Go for bytes that are not a JSON object. The message about an invalid character covers only the first
/// character, which is the usual mistake.
fn json_problem(bytes: &[u8]) -> Option<String> {
    let found = match serde_json::from_slice::<Value>(bytes) {
        Ok(Value::Object(_) | Value::Null) => return None,
        Ok(Value::Array(_)) => "array",
        Ok(Value::String(_)) => "string",
        Ok(Value::Number(_)) => "number",
        Ok(Value::Bool(_)) => "bool",
        Err(error) if error.is_eof() => return Some("unexpected end of JSON input".to_owned()),
        Err(_) => {
            let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace()).copied().unwrap_or(b' ');
            let first = char::from(first);
            return Some(format!("invalid character '{first}' looking for beginning of value"));
        }
    };
    Some(format!("json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"))
}

#[cfg(any(test, feature = "samples"))]
fn samples() -> crate::samples::Samples {
    use serde_json::json;

    use crate::samples::{Refused, Samples};

    let with = |extra: Value| {
        let mut object = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "sample", "namespace": "default"}});
        if let (Value::Object(fields), Value::Object(extra)) = (&mut object, extra) {
            fields.extend(extra);
        }
        object
    };
    let typed = |secret_type: &str, data: Value| with(json!({"type": secret_type, "data": data}));
    let required = "FieldValueRequired";
    Samples {
        valid: vec![
            with(json!({"data": {"key": "dmFsdWU="}, "stringData": {"other": "text"}})),
            typed("kubernetes.io/dockerconfigjson", json!({".dockerconfigjson": "e30="})),
            typed("kubernetes.io/tls", json!({"tls.crt": "", "tls.key": ""})),
            typed("kubernetes.io/basic-auth", json!({"username": "dQ=="})),
            typed("example.com/own", json!({})),
        ],
        invalid: vec![
            Refused::new(with(json!({"data": {"a/b": ""}})), "data[a/b]", "FieldValueInvalid"),
            Refused::new(with(json!({"stringData": {"": "x"}})), "data[]", "FieldValueInvalid"),
            Refused::new(
                with(json!({"stringData": {"a": "x".repeat(MAX_TOTAL_BYTES + 1)}})),
                "data",
                "FieldValueTooLong",
            ),
            Refused::new(
                typed("kubernetes.io/dockerconfigjson", json!({".dockerconfigjson": "eA=="})),
                "data[.dockerconfigjson]",
                "FieldValueInvalid",
            ),
            Refused::new(typed("kubernetes.io/dockercfg", json!({})), "data[.dockercfg]", required),
            Refused::new(typed("kubernetes.io/tls", json!({"tls.crt": ""})), "data[tls.key]", required),
            Refused::new(
                typed("kubernetes.io/ssh-auth", json!({"ssh-privatekey": ""})),
                "data[ssh-privatekey]",
                required,
            ),
            Refused::new(typed("kubernetes.io/basic-auth", json!({})), "data[username]", required),
            Refused::new(
                typed("kubernetes.io/service-account-token", json!({})),
                "metadata.annotations[kubernetes.io/service-account.name]",
                required,
            ),
        ],
        updates: vec![json!({"data": {"key": "AA=="}}), json!({"immutable": true})],
        invalid_updates: vec![Refused::new(json!({"type": "example.com/x"}), "type", "FieldValueInvalid")],
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::samples::errors_on_update;

    #[test]
    fn string_data_overwrites_data_and_disappears() {
        let mut secret = json!({"data": {"a": "AA==", "b": "AA=="}, "stringData": {"a": "hi"}});
        Secret.set_defaults(&mut secret);
        assert_eq!(secret, json!({"type": "Opaque", "data": {"a": "aGk=", "b": "AA=="}}));
    }

    #[test]
    fn immutable_secret_update_is_rejected() {
        let old = json!({"immutable": true, "data": {"a": "AA=="}});
        let errors = errors_on_update(&Secret, &old, &json!({"data": {"a": "AQ=="}, "immutable": null}));
        let fields: Vec<_> = errors.iter().map(|error| error.field.clone()).collect();
        assert_eq!(fields, ["immutable", "data"]);
    }

    #[test]
    fn invalid_json_object_error_matches_go() {
        assert_eq!(json_problem(b"{}"), None);
        assert_eq!(json_problem(b"").as_deref(), Some("unexpected end of JSON input"));
        assert_eq!(
            json_problem(b"x").as_deref(),
            Some("invalid character 'x' looking for beginning of value")
        );
    }
}
