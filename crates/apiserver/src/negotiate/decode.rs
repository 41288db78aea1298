//! Bodies of requests.

use coracle_api::codec::{Decoded, Target, json, protobuf, yaml};
use coracle_api::schema::{TypeId, types};
use coracle_meta::status::Status;
use http::{HeaderMap, header};
use serde_json::Value;

use crate::discovery::group_version;
use crate::options::FieldValidation;
use crate::status::Refusal;

/// What a body may be.
const ACCEPTED: &[&str] = &["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];

/// What a body is read as.
pub(crate) struct Decoding<'a> {
    pub(crate) group: &'a str,
    pub(crate) version: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) validation: FieldValidation,
}

impl Decoding<'_> {
    fn type_id(&self) -> Option<TypeId> {
        types().kind(self.group, self.version, self.kind)
    }

    fn api_version(&self) -> String {
        group_version(self.group, self.version)
    }
}

/// The media type of a body, without its parameters.
pub(crate) fn media_type(headers: &HeaderMap) -> &str {
    let text = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    text.split(';').next().unwrap_or_default().trim()
}

/// Reads the object in a body. Returns it with what the client should be warned of.
pub(crate) fn decode(
    headers: &HeaderMap,
    body: &[u8],
    decoding: &Decoding<'_>,
) -> Result<(Value, Vec<String>), Refusal> {
    let target = decoding.type_id().map_or(Target::Any, Target::Type);
    let Decoded { mut object, problems } = match media_type(headers) {
        "" | "application/json" if protobuf::is_protobuf(body) => protobuf::decode(body, decoding.type_id())?,
        "" | "application/json" => json::decode(body, target)?,
        "application/yaml" => yaml::decode(body, target)?,
        "application/vnd.kubernetes.protobuf" => protobuf::decode(body, decoding.type_id())?,
        _ => return Err(Status::unsupported_media_type(ACCEPTED).into()),
    };
    check_type(&mut object, decoding)?;
    let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
    match decoding.validation {
        FieldValidation::Strict if !problems.is_empty() => {
            let message = format!(
                "{} in version \"{}\" cannot be handled as a {}: strict decoding error: {}",
                decoding.kind,
                decoding.version,
                decoding.kind,
                problems.join(", ")
            );
            Err(Refusal::bad_request(message))
        }
        FieldValidation::Ignore => Ok((object, Vec::new())),
        _ => Ok((object, problems)),
    }
}

/// The body must be of the kind that the path says; left out, it is filled in.
fn check_type(object: &mut Value, decoding: &Decoding<'_>) -> Result<(), Refusal> {
    let Value::Object(fields) = object else {
        return Err(Refusal::bad_request("the body is not an object"));
    };
    for (name, expected) in [("apiVersion", decoding.api_version()), ("kind", decoding.kind.to_owned())] {
        match fields.get(name).and_then(Value::as_str) {
            None | Some("") => drop(fields.insert(name.into(), expected.into())),
            Some(found) if found == expected => {}
            Some(found) => {
                let message =
                    format!("the {name} in the data ({found}) does not match the expected one ({expected})");
                return Err(Refusal::bad_request(message));
            }
        }
    }
    Ok(())
}
