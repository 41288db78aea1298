//! Decoding of request bodies.

use coracle_api::codec::{DecodeBudget, DecodeError, Decoded, Target, TypeMeta, json, protobuf, yaml};
use coracle_api::schema::{TypeId, types};
use coracle_meta::status::Status;
use coracle_registry::form::ObjectForm;
use http::{HeaderMap, header};
use serde_json::Value;

use crate::discovery::group_version;
use crate::options::FieldValidation;
use crate::status::Refusal;

/// Supported media types of bodies.
const ACCEPTED: &[&str] = &["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];

/// The kind of the body of a deletion.
const DELETE_OPTIONS: &str = "DeleteOptions";

/// Bytes of a body that the error about an undecodable body shows.
const SUMMARY_BYTES: usize = 30;

/// Bytes of an object that an error shows where kube-apiserver repeats the whole object. This is more than a person
/// reads, and an object of megabytes would be in memory several times while the response is written.
const MAX_SHOWN_BYTES: usize = 64 * 1024;

/// The kind and form into which a body is decoded.
pub(crate) struct Decoding<'a> {
    pub(crate) group: &'a str,
    pub(crate) version: &'a str,
    pub(crate) kind: &'a str,
    /// The form of the path's kind; `None` if the body is decoded as the built-in type of `group`, `version` and
    /// `kind`.
    pub(crate) form: Option<ObjectForm<'a>>,
    pub(crate) validation: FieldValidation,
}

impl<'a> Decoding<'a> {
    pub(crate) fn of(form: ObjectForm<'a>, validation: FieldValidation) -> Self {
        Self { group: form.group(), version: form.version(), kind: form.kind(), form: Some(form), validation }
    }

    fn type_id(&self) -> Option<TypeId> {
        match &self.form {
            Some(form) => form.type_id(),
            None => types().kind(self.group, self.version, self.kind),
        }
    }

    /// Brings an object that was decoded without a type into the form of its kind.
    fn conform(&self, decoded: Decoded) -> Result<Decoded, DecodeError> {
        let Some(form) = self.form.filter(|form| form.type_id().is_none()) else { return Ok(decoded) };
        let Decoded { object, mut problems } = decoded;
        let conformed = form.conform(object)?;
        problems.extend(conformed.problems);
        Ok(Decoded { object: conformed.object, problems })
    }

    fn api_version(&self) -> String {
        group_version(self.group, self.version)
    }

    /// Whether kube-apiserver registers the kinds of another group in the same scheme as those of this group.
    fn knows_group(&self, group: &str) -> bool {
        let has_own_scheme = |group: &str| matches!(group, "apiextensions.k8s.io" | "apiregistration.k8s.io");
        self.group == group || !has_own_scheme(self.group) && !has_own_scheme(group)
    }

    /// The Go source location of kube-apiserver's scheme, which its error messages contain.
    fn scheme(&self) -> &'static str {
        match &self.form {
            Some(form) if form.is_custom() => "k8s.io/client-go/scale/util.go:146",
            _ if self.group == "apiextensions.k8s.io" => {
                "k8s.io/apiextensions-apiserver/pkg/apiserver/apiserver.go:55"
            }
            _ if self.group == "apiregistration.k8s.io" => {
                "k8s.io/kube-aggregator/pkg/apiserver/scheme/scheme.go:28"
            }
            _ => "pkg/api/legacyscheme/scheme.go:30",
        }
    }
}

/// The media type of a body, without its parameters.
pub(crate) fn media_type(headers: &HeaderMap) -> &str {
    let text = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    match text.split_once(';') {
        // Parameters without a media type are unsupported, unlike an empty header.
        Some((media, _)) if media.trim().is_empty() => text,
        Some((media, _)) => media.trim(),
        None => text.trim(),
    }
}

/// Decodes a JSON or YAML body without a type; `None` for another media type or an invalid body.
pub(crate) fn decode_untyped(media_type: &str, body: &[u8]) -> Option<Value> {
    let budget = &mut DecodeBudget::for_body(body.len());
    let decoded = match media_type {
        "" | "application/json" => json::decode_within(body, Target::Any, budget),
        "application/yaml" => yaml::decode_within(body, Target::Any, budget),
        _ => return None,
    };
    decoded.ok().map(|decoded| decoded.object)
}

/// Decodes the object in a body of this media type, within a budget. Returns it with the warnings for the client.
pub(crate) fn decode(
    media_type: &str,
    body: &[u8],
    decoding: &Decoding<'_>,
    budget: &mut DecodeBudget,
) -> Result<(Value, Vec<String>), Refusal> {
    let target = decoding.type_id().map_or(Target::Any, Target::Type);
    // Reading `kind` and `apiVersion` takes another pass over the body, so it happens only after an error.
    type Claim = fn(&[u8]) -> Result<TypeMeta, DecodeError>;
    let (decoded, claim): (_, Claim) = match media_type {
        "" | "application/json" if !protobuf::is_protobuf(body) => {
            (json::decode_within(body, target, budget), json::type_meta)
        }
        "application/yaml" => (yaml::decode_within(body, target, budget), yaml::type_meta),
        "" | "application/json" | "application/vnd.kubernetes.protobuf" => {
            (protobuf::decode_within(body, decoding.type_id(), budget), protobuf::type_meta)
        }
        _ => return Err(Status::unsupported_media_type(ACCEPTED).into()),
    };
    let Decoded { object, problems } = match decoded {
        Ok(decoded) => decoded,
        Err(error) if error.is_too_large() => return Err(error.into()),
        // Reading its kind would expand the aliases again.
        Err(error @ DecodeError::ExcessiveAliasing) => {
            return Err(unrecognized(&error.to_string(), body, decoding));
        }
        Err(error) => {
            let claimed = claim(body).map_err(|error| unrecognized(&error.to_string(), body, decoding))?;
            check_claim(&claimed, body, decoding)?;
            return Err(unhandled(&claimed, &error.to_string(), decoding));
        }
    };
    let object = typed(object, body, decoding)?;
    let conformed = decoding.conform(Decoded { object, problems });
    let Decoded { object, problems } = conformed.map_err(|error| match error.is_too_large() {
        true => error.into(),
        false => unhandled(&TypeMeta::default(), &error.to_string(), decoding),
    })?;
    let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
    match decoding.validation {
        FieldValidation::Strict if !problems.is_empty() => {
            let why = format!("strict decoding error: {}", problems.join(", "));
            Err(unhandled(&TypeMeta::default(), &why, decoding))
        }
        FieldValidation::Ignore => Ok((object, Vec::new())),
        _ => Ok((object, problems)),
    }
}

/// Decodes `DeleteOptions`, which every group has in every version.
pub(crate) fn decode_delete_options(
    media_type: &str,
    body: &[u8],
    budget: &mut DecodeBudget,
) -> Result<Value, Refusal> {
    let id = types().kind("", "v1", DELETE_OPTIONS);
    let target = id.map_or(Target::Any, Target::Type);
    let (claimed, decoded) = match media_type {
        "" | "application/json" if !protobuf::is_protobuf(body) => {
            (json::type_meta(body)?, json::decode_within(body, target, budget))
        }
        "application/yaml" => (yaml::type_meta(body)?, yaml::decode_within(body, target, budget)),
        "" | "application/json" | "application/vnd.kubernetes.protobuf" => {
            (protobuf::type_meta(body)?, protobuf::decode_within(body, id, budget))
        }
        _ => return Err(Status::unsupported_media_type(ACCEPTED).into()),
    };
    if let Some(why) = claimed.malformed_version() {
        return Err(Refusal::bad_request(why));
    }
    if !matches!(&*claimed.kind, "" | DELETE_OPTIONS) {
        let version = if claimed.api_version.is_empty() { "meta.k8s.io/v1" } else { &claimed.api_version };
        let scheme = "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27";
        let kind = &claimed.kind;
        let message = format!("no kind {kind:?} is registered for version {version:?} in scheme {scheme:?}");
        return Err(Refusal::bad_request(message));
    }
    Ok(decoded?.object)
}

/// Rejects a body of another kind than that of the path, and fills in a missing `kind` or `apiVersion`.
fn typed(object: Value, body: &[u8], decoding: &Decoding<'_>) -> Result<Value, Refusal> {
    let mut fields = match object {
        Value::Object(fields) => fields,
        Value::Null => serde_json::Map::new(),
        _ => {
            let why = json::type_meta(body).err().map(|error| error.to_string()).unwrap_or_default();
            return Err(unrecognized(&why, body, decoding));
        }
    };
    let text = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let claimed = TypeMeta { api_version: text("apiVersion"), kind: text("kind") };
    if decoding.type_id().is_none() {
        check_untyped_claim(&claimed, body, decoding)?;
        return Ok(Value::Object(fields));
    }
    check_claim(&claimed, body, decoding)?;
    fields.insert("apiVersion".into(), decoding.api_version().into());
    fields.insert("kind".into(), decoding.kind.into());
    Ok(Value::Object(fields))
}

/// Rejects an untyped object without `kind` or with another `apiVersion` than that of the path. Validation later checks
/// that the kind is right.
fn check_untyped_claim(claimed: &TypeMeta, body: &[u8], decoding: &Decoding<'_>) -> Result<(), Refusal> {
    if claimed.kind.is_empty() {
        let shown = clipped(&String::from_utf8_lossy(body)).to_owned();
        return Err(unrecognized(&format!("Object 'Kind' is missing in '{shown}'"), body, decoding));
    }
    let (found, expected) = (&claimed.api_version, decoding.api_version());
    if *found == expected {
        return Ok(());
    }
    let message =
        format!("the API version in the data ({found}) does not match the expected API version ({expected})");
    Err(Refusal::bad_request(message))
}

/// Rejects an object whose `kind` or `apiVersion` is not that of the path, with the message of kube-apiserver.
fn check_claim(claimed: &TypeMeta, body: &[u8], decoding: &Decoding<'_>) -> Result<(), Refusal> {
    if let Some(why) = claimed.malformed_version() {
        return Err(unrecognized(&why, body, decoding));
    }
    match mismatch(claimed, decoding) {
        Some(why) => Err(unhandled(claimed, &why, decoding)),
        None => Ok(()),
    }
}

/// Returns why an object with this `kind` and `apiVersion` cannot be decoded as the expected kind, if they differ from
/// it.
fn mismatch(claimed: &TypeMeta, decoding: &Decoding<'_>) -> Option<String> {
    let own_version = claimed.api_version.is_empty() || claimed.api_version == decoding.api_version();
    if own_version && (claimed.kind.is_empty() || claimed.kind == decoding.kind) {
        return None;
    }
    let (group, version) = match claimed.api_version.is_empty() {
        true => (decoding.group, decoding.version),
        false => (claimed.group(), claimed.version()),
    };
    let kind = if claimed.kind.is_empty() { decoding.kind } else { &claimed.kind };
    Some(if decoding.knows_group(group) && types().kind(group, version, kind).is_some() {
        let package = |group: &str| match group.split('.').next() {
            None | Some("") => "core".to_owned(),
            Some(name) => name.to_owned(),
        };
        let own = package(decoding.group);
        format!("converting ({version}.{kind}) to ({own}.{}): unknown conversion", decoding.kind)
    } else {
        let shown = group_version(group, version);
        let scheme = decoding.scheme();
        format!("no kind {kind:?} is registered for version {shown:?} in scheme {scheme:?}")
    })
}

/// Returns why an object with this `kind` and `apiVersion` is malformed or of another kind than expected, if it is.
pub(crate) fn claims_otherwise(claimed: &TypeMeta, decoding: &Decoding<'_>) -> Option<String> {
    claimed.malformed_version().or_else(|| mismatch(claimed, decoding))
}

/// The error for a body whose kind is known, but which cannot be decoded as the expected kind.
fn unhandled(claimed: &TypeMeta, why: &str, decoding: &Decoding<'_>) -> Refusal {
    let kind = if claimed.kind.is_empty() { decoding.kind } else { &claimed.kind };
    let version = if claimed.api_version.is_empty() { decoding.version } else { claimed.version() };
    let expected = decoding.kind;
    Refusal::bad_request(format!("{kind} in version {version:?} cannot be handled as a {expected}: {why}"))
}

/// The error for a body whose kind cannot be determined.
fn unrecognized(why: &str, body: &[u8], decoding: &Decoding<'_>) -> Refusal {
    let kind = decoding.kind;
    let summary = summary(body);
    Refusal::bad_request(format!(
        "the object provided is unrecognized (must be of type {kind}): {why} ({summary})"
    ))
}

/// The beginning of a body or an object, at most [`MAX_SHOWN_BYTES`], which an error shows.
pub(crate) fn clipped(text: &str) -> &str {
    let end = (0..=text.len().min(MAX_SHOWN_BYTES)).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or_default()]
}

/// The beginning of a body, as text or, if it does not begin like a JSON object, in hexadecimal.
fn summary(body: &[u8]) -> String {
    if body.is_empty() {
        return "<empty>".to_owned();
    }
    let shown = &body[..body.len().min(SUMMARY_BYTES)];
    let mut summary = match shown[0] {
        b'{' => String::from_utf8_lossy(shown).into_owned(),
        _ => shown.iter().map(|byte| format!("{byte:02x}")).collect(),
    };
    if shown.len() < body.len() {
        summary.push_str(" ...");
    }
    summary
}
