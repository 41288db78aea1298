//! PATCH, in its four kinds.

use std::sync::{Mutex, PoisonError};

use coracle_api::codec::{Decoded, Problem, Target, json, yaml};
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
            let routed = self.kind.declaration().routed;
            return Err(if routed { Refusal::unsupported_patch() } else { unknown_patch() });
        };
        self.query.check_patch(kind)?;
        if kind == PatchType::Apply {
            return self.apply().await;
        }
        let (patch, problems) = self.prepare(kind)?;
        self.patch_by(patch, &problems).await
    }

    /// Reads the patch. Returns it with what a strict reader does not accept of it.
    fn prepare(&self, kind: PatchType) -> Result<(Prepared, Vec<String>), Refusal> {
        let schema = self.body_form().type_id().map(ObjectSchema::of_type);
        if kind == PatchType::StrategicMerge && schema.is_none() {
            return Err(unknown_patch());
        }
        let validated = self.validation() != FieldValidation::Ignore;
        // Upstream reads most patches twice if their fields are validated, and says which time.
        let reading =
            if validated && kind != PatchType::StrategicMerge { "error decoding patch: " } else { "" };
        let Decoded { object: patch, problems } = json::decode(&self.body, Target::Any)
            .map_err(|error| Refusal::bad_request(format!("{reading}{error}")))?;
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
            // Nothing changes nothing.
            Some(schema) if patch.is_null() => {
                (Prepared::Strategic(Value::Object(Map::new()), schema), problems)
            }
            Some(schema) => (Prepared::Strategic(patch, schema), problems),
            None => (Prepared::Merge(patch), problems),
        })
    }

    async fn patch_by(
        &self,
        patch: Prepared,
        problems: &[String],
    ) -> Result<(Updated, Vec<String>), Refusal> {
        let aside = Mutex::new(Aside::default());
        let change = |object: Value| {
            let outcome = patch
                .apply(self.served(object))
                .map_err(Refusal::from)
                .and_then(|patched| self.read_back(patched, patch.strategic(), problems));
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
        // Only what is said counts, and what the kind does not know is refused further on.
        let Decoded { object: config, problems } =
            yaml::decode(&self.body, Target::Any).map_err(|error| {
                Refusal::bad_request(format!("error decoding YAML: error converting YAML to JSON: {error}"))
            })?;
        if !config.is_object() && !config.is_null() {
            let why = PatchError::not_a_map(&config);
            let reading = "error decoding YAML: error unmarshaling JSON: while decoding JSON";
            return Err(Refusal::bad_request(format!("{reading}: {why}")));
        }
        let config = self.stored(config);
        let change = Change::Apply { config: &config, force: self.query.flag("force") };
        let strictly = || problems.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        match self.validation() {
            FieldValidation::Strict if !problems.is_empty() => {
                // What is wrong otherwise is told first.
                self.change_dry(&change).await?;
                let why =
                    format!("error strict decoding YAML: error converting YAML to JSON: {}", strictly());
                Err(Refusal::bad_request(why))
            }
            FieldValidation::Ignore => Ok((self.change(&change).await?, Vec::new())),
            _ => {
                let warnings: Vec<String> = problems.iter().flat_map(Problem::parts).collect();
                match self.change(&change).await {
                    Ok(updated) => Ok((updated, warnings)),
                    Err(refusal) => Err(refusal.warned_of(warnings)),
                }
            }
        }
    }
}

/// The body is none of the patches that need no built-in type.
fn unknown_patch() -> Refusal {
    let accepted = [PatchType::Json, PatchType::Merge, PatchType::Apply].map(PatchType::media_type);
    Status::unsupported_media_type(&accepted).into()
}

impl Prepared {
    /// The patch, if it is a strategic one.
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
