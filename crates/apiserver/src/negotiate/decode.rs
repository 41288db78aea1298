//! Bodies of requests.

use coracle_api::codec::{DecodeBudget, DecodeError, Decoded, Target, TypeMeta, json, protobuf, yaml};
use coracle_api::schema::{TypeId, types};
use coracle_meta::status::Status;
use coracle_registry::form::ObjectForm;
use http::{HeaderMap, header};
use serde_json::Value;

use crate::discovery::group_version;
use crate::options::FieldValidation;
use crate::status::Refusal;

/// What a body may be.
const ACCEPTED: &[&str] = &["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];

/// The kind of the body of a deletion.
const DELETE_OPTIONS: &str = "DeleteOptions";

/// How much of a body that cannot be read is shown.
const SUMMARY_BYTES: usize = 30;

/// How much of an object an error shows that upstream lets repeat it as a whole. People read less, and an object of
/// megabytes would be in memory several times while the answer is written.
const MAX_SHOWN_BYTES: usize = 64 * 1024;

/// What a body is read as.
pub(crate) struct Decoding<'a> {
    pub(crate) group: &'a str,
    pub(crate) version: &'a str,
    pub(crate) kind: &'a str,
    /// What it looks like, if it is what the path's kind says; else it is a built-in type.
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

    /// Brings what was read without a type into the form that its kind says.
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

    /// Whether the server of this group knows the kinds of another one.
    fn knows_group(&self, group: &str) -> bool {
        let has_own_scheme = |group: &str| matches!(group, "apiextensions.k8s.io" | "apiregistration.k8s.io");
        self.group == group || !has_own_scheme(self.group) && !has_own_scheme(group)
    }

    /// Where upstream says which kinds there are.
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
        // Parameters of nothing are not the same as nothing.
        Some((media, _)) if media.trim().is_empty() => text,
        Some((media, _)) => media.trim(),
        None => text.trim(),
    }
}

/// The JSON in a body of this media type without its type; none if there is none or it cannot be read.
pub(crate) fn decode_untyped(media_type: &str, body: &[u8]) -> Option<Value> {
    let budget = &mut DecodeBudget::for_body(body.len());
    let decoded = match media_type {
        "" | "application/json" => json::decode_within(body, Target::Any, budget),
        "application/yaml" => yaml::decode_within(body, Target::Any, budget),
        _ => return None,
    };
    decoded.ok().map(|decoded| decoded.object)
}

/// Reads the object in a body of this media type, within a budget. Returns it with what the client should be warned
/// of.
pub(crate) fn decode(
    media_type: &str,
    body: &[u8],
    decoding: &Decoding<'_>,
    budget: &mut DecodeBudget,
) -> Result<(Value, Vec<String>), Refusal> {
    let target = decoding.type_id().map_or(Target::Any, Target::Type);
    // What a body says it is costs another look at it, so it is asked only where that matters.
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
        // Its kind could only be read by expanding the aliases again.
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

/// Reads the options of a deletion, which every group has in every version.
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

/// The body must be of the kind that the path says; what it does not say is filled in.
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

/// What is not read into a type must say what it is. Whether the kind is right is checked with
/// everything else.
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

/// Refuses what says it is something else, in upstream's words.
fn check_claim(claimed: &TypeMeta, body: &[u8], decoding: &Decoding<'_>) -> Result<(), Refusal> {
    if let Some(why) = claimed.malformed_version() {
        return Err(unrecognized(&why, body, decoding));
    }
    match mismatch(claimed, decoding) {
        Some(why) => Err(unhandled(claimed, &why, decoding)),
        None => Ok(()),
    }
}

/// Why what says it is something else cannot be what is wanted, if it does.
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

/// Why text cannot be read as an object of this kind because it says it is another, if it does.
pub(crate) fn claims_otherwise(claimed: &TypeMeta, decoding: &Decoding<'_>) -> Option<String> {
    claimed.malformed_version().or_else(|| mismatch(claimed, decoding))
}

/// It is known what the body is, but it cannot be read as that.
fn unhandled(claimed: &TypeMeta, why: &str, decoding: &Decoding<'_>) -> Refusal {
    let kind = if claimed.kind.is_empty() { decoding.kind } else { &claimed.kind };
    let version = if claimed.api_version.is_empty() { decoding.version } else { claimed.version() };
    let expected = decoding.kind;
    Refusal::bad_request(format!("{kind} in version {version:?} cannot be handled as a {expected}: {why}"))
}

/// It is not even known what the body is.
fn unrecognized(why: &str, body: &[u8], decoding: &Decoding<'_>) -> Refusal {
    let kind = decoding.kind;
    let summary = summary(body);
    Refusal::bad_request(format!(
        "the object provided is unrecognized (must be of type {kind}): {why} ({summary})"
    ))
}

/// The text of a body or an object as far as an error shows it.
pub(crate) fn clipped(text: &str) -> &str {
    let end = (0..=text.len().min(MAX_SHOWN_BYTES)).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or_default()]
}

/// The beginning of a body, as text or, if it does not look like JSON, in hexadecimal.
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
