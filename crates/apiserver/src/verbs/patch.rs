//! PATCH: JSON patch, merge patch, strategic merge patch and server-side apply.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use coracle_api::codec::{DecodeBudget, DecodeError, Decoded, Problem, Target, json, yaml};
use coracle_meta::patch::{PatchError, PatchType, json::JsonPatch, merge, strategic};
use coracle_meta::status::Status;
use coracle_registry::Error;
use coracle_registry::form::ObjectSchema;
use coracle_registry::lifecycle::{Change, Updated};
use http::Response;
use serde_json::{Map, Value};

use super::ResourceRequest;
use crate::body::ResponseBody;
use crate::negotiate::media_type;
use crate::options::FieldValidation;
use crate::status::Refusal;

/// A decoded patch, which can be applied to any object.
enum Prepared {
    Json(JsonPatch),
    Merge(Value),
    Strategic(Value, ObjectSchema<'static>),
}

/// Refusal and warnings of the application of a patch, which return beside the object. A patch may be applied several
/// times; the last time counts.
#[derive(Default)]
struct Aside {
    refusal: Option<Refusal>,
    warnings: Vec<String>,
}

impl ResourceRequest {
    pub(super) async fn patch(self) -> Result<Response<ResponseBody>, Refusal> {
        let (updated, warnings) = self.patched().await?;
        self.updated(updated, &warnings)
    }

    /// Applies the patch. Returns the updated object and the warnings for the client.
    pub(super) async fn patched(&self) -> Result<(Updated, Vec<String>), Refusal> {
        let media_type = media_type(&self.headers);
        let Some(kind) = PatchType::from_media_type(media_type) else {
            return Err(if self.kind.declaration().is_custom {
                unknown_patch()
            } else {
                unsupported_patch(media_type)
            });
        };
        self.query.check_patch(kind)?;
        if kind == PatchType::Apply {
            return self.apply().await;
        }
        if kind == PatchType::StrategicMerge && self.kind.declaration().is_custom {
            return Err(unknown_patch());
        }
        let prepared = self.prepare(kind).await;
        if let Ok((Prepared::Json(patch), _)) = &prepared
            && patch.copies()
        {
            self.reserved.keep(self.shared.decode_memory.reserve_copies().await);
        }
        self.patch_by(prepared).await
    }

    /// Decodes the patch. Returns it with the errors of strict decoding.
    async fn prepare(&self, kind: PatchType) -> Result<(Prepared, Vec<String>), Refusal> {
        let schema = self.body_form().type_id().map(ObjectSchema::of_type);
        let validated = self.validation() != FieldValidation::Ignore;
        self.read_body(move |body, budget| prepare(body, kind, schema, validated, budget)).await?
    }

    /// Applies the patch to the stored object. Errors of the patch itself are returned only if the object exists.
    async fn patch_by(
        &self,
        prepared: Result<(Prepared, Vec<String>), Refusal>,
    ) -> Result<(Updated, Vec<String>), Refusal> {
        let aside = Mutex::new(Aside::default());
        let patched = |object: Value| {
            let (patch, problems) = prepared.as_ref().map_err(Refusal::clone)?;
            let patched = patch.apply(self.served(object))?;
            self.read_back(patched, patch.strategic(), problems)
        };
        let change = |object: Value| {
            let outcome = patched(object);
            let mut aside = aside.lock().unwrap_or_else(PoisonError::into_inner);
            match outcome {
                Ok((patched, warnings)) => {
                    aside.warnings = warnings;
                    Ok(self.stored(patched))
                }
                Err(refusal) => {
                    aside.refusal = Some(refusal);
                    Err(Error::BadRequest("the patch cannot be applied".into()))
                }
            }
        };
        let outcome = self.change(&Change::Patch(&change)).await;
        let aside = aside.into_inner().unwrap_or_else(PoisonError::into_inner);
        match (outcome, aside.refusal) {
            (Err(_), Some(refusal)) => Err(refusal),
            (Err(refusal), None) => Err(refusal.warned_of(aside.warnings)),
            (Ok(updated), _) => Ok((updated, aside.warnings)),
        }
    }

    async fn apply(&self) -> Result<(Updated, Vec<String>), Refusal> {
        // Decoded without a type: only the fields in the body are applied, and unknown fields are rejected later.
        let decoded = self.read_body(|body, budget| yaml::decode_within(body, Target::Any, budget)).await?;
        let Decoded { object: config, problems } = decoded.map_err(|error| match error.is_too_large() {
            true => error.into(),
            false => {
                let reading = "error decoding YAML: error converting YAML to JSON";
                Refusal::bad_request(format!("{reading}: {error}"))
            }
        })?;
        if !config.is_object() && !config.is_null() {
            let why = PatchError::not_a_map(&config);
            let reading = "error decoding YAML: error unmarshaling JSON: while decoding JSON";
            return Err(Refusal::bad_request(format!("{reading}: {why}")));
        }
        let validation = self.validation();
        let merged = AtomicBool::new(false);
        let once_merged = || {
            merged.store(true, Ordering::Relaxed);
            if validation != FieldValidation::Strict || problems.is_empty() {
                return Ok(());
            }
            let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
            let reading = "error strict decoding YAML: error converting YAML to JSON";
            Err(Error::BadRequest(format!("{reading}: {}", problems.join(", "))))
        };
        let force = self.query.flag("force");
        let outcome = self.change(&Change::Apply { config: &config, force, once_merged: &once_merged }).await;
        let warns = validation == FieldValidation::Warn && merged.load(Ordering::Relaxed);
        let warnings: Vec<String> = problems.iter().filter(|_| warns).flat_map(Problem::parts).collect();
        match outcome {
            Ok(updated) => Ok((updated, warnings)),
            Err(refusal) => Err(refusal.warned_of(warnings)),
        }
    }
}

/// Decodes a patch of a type.
fn prepare(
    body: &[u8],
    kind: PatchType,
    schema: Option<ObjectSchema<'static>>,
    validated: bool,
    budget: &mut DecodeBudget,
) -> Result<(Prepared, Vec<String>), Refusal> {
    // kube-apiserver decodes most patches twice if it validates their fields, and its errors name the decoding that
    // failed.
    let reading = if validated && kind != PatchType::StrategicMerge { "error decoding patch: " } else { "" };
    let unreadable = |error: DecodeError| match kind {
        _ if error.is_too_large() => error.into(),
        PatchType::Merge if !validated => PatchError::InvalidMergePatch.into(),
        _ => Refusal::bad_request(format!("{reading}{error}")),
    };
    let decoded = if schema.is_some() {
        json::decode_patch(body, budget)
    } else {
        json::decode_within(body, Target::Any, budget)
    };
    let Decoded { object: patch, problems } = decoded.map_err(unreadable)?;
    let mut problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
    if kind == PatchType::Json {
        if validated {
            problems = problems.iter().map(|problem| format!("json patch {problem}")).collect();
            problems.extend(JsonPatch::strict_errors(&patch)?);
        }
        return Ok((Prepared::Json(JsonPatch::from_value(patch)?), problems));
    }
    let is_map = patch.is_object() || patch.is_null();
    if !is_map && (validated || kind == PatchType::StrategicMerge) {
        return Err(Refusal::bad_request(format!("{reading}{}", PatchError::not_a_map(&patch))));
    }
    Ok(match schema.filter(|_| kind == PatchType::StrategicMerge) {
        // A null patch changes nothing.
        Some(schema) if patch.is_null() => (Prepared::Strategic(Value::Object(Map::new()), schema), problems),
        Some(schema) => (Prepared::Strategic(patch, schema), problems),
        None => (Prepared::Merge(patch), problems),
    })
}

/// The error for an unsupported patch type. kube-apiserver's router accepts a header with several media types if one of
/// them is supported, but its handler accepts only a single type.
fn unsupported_patch(media_type: &str) -> Refusal {
    let routed = media_type.split(',').any(|one| PatchType::from_media_type(one.trim()).is_some());
    if !routed {
        return Refusal::unsupported_patch();
    }
    let accepted = [PatchType::Json, PatchType::Merge, PatchType::StrategicMerge, PatchType::Apply];
    Status::unsupported_media_type(&accepted.map(PatchType::media_type)).into()
}

/// The error for a patch type that a custom resource does not support: strategic merge patches need a built-in type.
fn unknown_patch() -> Refusal {
    let accepted = [PatchType::Json, PatchType::Merge, PatchType::Apply].map(PatchType::media_type);
    Status::unsupported_media_type(&accepted).into()
}

impl Prepared {
    /// The patch, if it is a strategic merge patch.
    fn strategic(&self) -> Option<&Value> {
        match self {
            Prepared::Strategic(patch, _) => Some(patch),
            Prepared::Json(_) | Prepared::Merge(_) => None,
        }
    }

    fn apply(&self, object: Value) -> Result<Value, PatchError> {
        match self {
            Prepared::Json(patch) => patch.apply(object),
            Prepared::Merge(patch) => merge::apply(object, patch.clone()),
            Prepared::Strategic(patch, of) => {
                let meta = strategic::PatchMeta::new(of.schema, of.node);
                strategic::apply(meta, object, patch.clone())
            }
        }
    }
}
