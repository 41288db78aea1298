//! PATCH, in its four kinds.

use std::sync::{Mutex, PoisonError};

use coracle_api::codec::{Decoded, Target, json, yaml};
use coracle_meta::field::{FieldError, Path};
use coracle_meta::gvk::GroupKind;
use coracle_meta::patch::{PatchError, PatchType, json::JsonPatch, merge, strategic};
use coracle_meta::status::Status;
use coracle_registry::Error;
use coracle_registry::form::{ObjectForm, ObjectSchema};
use coracle_registry::lifecycle::{Change, Updated};
use http::Response;
use serde_json::Value;

use super::ResourceRequest;
use crate::body::ResponseBody;
use crate::negotiate::media_type;
use crate::options::FieldValidation;
use crate::status::Refusal;

/// A patch that has been read and can be applied to whatever is there.
enum Prepared {
    Json(JsonPatch),
    Merge(Value),
    Strategic(Value, ObjectSchema<'static>),
}

/// What applying a patch leaves beside the object: it may happen several times, and the last
/// time counts.
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

    /// Carries out the patch. Returns what came of it and what the client should be warned of.
    pub(super) async fn patched(&self) -> Result<(Updated, Vec<String>), Refusal> {
        let Some(kind) = PatchType::from_media_type(media_type(&self.headers)) else {
            return Err(Refusal::unsupported_patch());
        };
        if kind == PatchType::Apply {
            return self.apply().await;
        }
        if self.query.optional_flag("force").is_some() {
            return Err(self.invalid(FieldError::forbidden(
                &Path::root("force"),
                "may not be specified for non-apply patch",
            )));
        }
        self.patch_by(self.prepare(kind)?).await
    }

    fn prepare(&self, kind: PatchType) -> Result<Prepared, Refusal> {
        if kind == PatchType::Json {
            return Ok(Prepared::Json(JsonPatch::from_slice(&self.body)?));
        }
        let patch = json::decode(&self.body, Target::Any)?.object;
        match (kind, self.body_form().type_id()) {
            (PatchType::StrategicMerge, Some(id)) => {
                Ok(Prepared::Strategic(patch, ObjectSchema::of_type(id)))
            }
            (PatchType::StrategicMerge, None) => {
                let accepted =
                    [PatchType::Json, PatchType::Merge, PatchType::Apply].map(PatchType::media_type);
                Err(Status::unsupported_media_type(&accepted).into())
            }
            _ => Ok(Prepared::Merge(patch)),
        }
    }

    async fn patch_by(&self, patch: Prepared) -> Result<(Updated, Vec<String>), Refusal> {
        let validation = self.validation();
        let form = self.body_form();
        let aside = Mutex::new(Aside::default());
        let change = |object: Value| {
            let outcome = patch
                .apply(self.served(object))
                .map_err(Refusal::from)
                .and_then(|patched| conform(patched, &form, validation));
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
            (Err(refusal), None) => Err(refusal),
            (Ok(updated), _) => Ok((updated, aside.warnings)),
        }
    }

    async fn apply(&self) -> Result<(Updated, Vec<String>), Refusal> {
        if self.query.text("fieldManager").is_empty() {
            return Err(self
                .invalid(FieldError::required(&Path::root("fieldManager"), "is required for apply patch")));
        }
        // Only what is said counts, and what the kind does not know is refused further on.
        let Decoded { object: config, problems } = yaml::decode(&self.body, Target::Any)?;
        let warnings: Vec<String> = problems.iter().map(ToString::to_string).collect();
        if self.validation() == FieldValidation::Strict && !warnings.is_empty() {
            return Err(Refusal::bad_request(format!("strict decoding error: {}", warnings.join(", "))));
        }
        let config = self.stored(config);
        let change = Change::Apply { config: &config, force: self.query.flag("force") };
        Ok((self.change(&change).await?, warnings))
    }

    /// A refusal of the options of a request.
    fn invalid(&self, error: FieldError) -> Refusal {
        let kind = GroupKind { group: "meta.k8s.io".into(), kind: "PatchOptions".into() };
        Status::invalid(&kind, "", &error.into()).into()
    }
}

impl Prepared {
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

/// Brings what a patch left into the form of its kind.
fn conform(
    object: Value,
    form: &ObjectForm<'_>,
    validation: FieldValidation,
) -> Result<(Value, Vec<String>), Refusal> {
    let Decoded { object, problems } = form.conform(object)?;
    let warnings: Vec<String> = problems.iter().map(ToString::to_string).collect();
    match validation {
        FieldValidation::Strict if !warnings.is_empty() => {
            Err(Refusal::bad_request(format!("strict decoding error: {}", warnings.join(", "))))
        }
        FieldValidation::Ignore => Ok((object, Vec::new())),
        _ => Ok((object, warnings)),
    }
}
