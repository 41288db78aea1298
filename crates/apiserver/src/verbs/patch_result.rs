//! What a patch left of an object, read again as if it had been sent.

use coracle_api::codec::{Decoded, json};
use coracle_meta::field::{FieldError, Path};
use coracle_meta::gvk::GroupKind;
use coracle_meta::patch::as_go_prints;
use coracle_meta::status::Status;
use serde_json::Value;

use super::ResourceRequest;
use crate::discovery::group_version;
use crate::negotiate::{Decoding, claims_otherwise};
use crate::options::FieldValidation;
use crate::status::Refusal;

impl ResourceRequest {
    /// Brings what a patch left into the form of its kind. `strategic` is the patch, if it is such
    /// a one, and `problems` what a strict reader does not accept of any patch.
    pub(super) fn read_back(
        &self,
        mut patched: Value,
        strategic: Option<&Value>,
        problems: &[String],
    ) -> Result<(Value, Vec<String>), Refusal> {
        let (form, decoding) = (self.body_form(), self.decoding()?);
        // Nearly always: what was stored is as it should be, and so is what most patches change in it.
        if problems.is_empty() && says_exactly(&patched, &decoding) {
            match form.conform_soon(patched) {
                Ok(conformed) => return Ok((conformed, Vec::new())),
                Err(same) => patched = same,
            }
        }
        let text = strategic.is_none().then(|| patched.to_string());
        let shown = || text.clone().or(strategic.map(as_go_prints)).unwrap_or_default();
        if let Some(text) = &text {
            let claimed =
                json::type_meta(text.as_bytes()).map_err(|error| no_result(shown(), &error.to_string()))?;
            if let Some(why) = claims_otherwise(&claimed, &decoding) {
                return Err(no_result(shown(), &why));
            }
            if claimed.api_version.is_empty() {
                // Upstream reads it in no version, in which fields have other names.
                let name = &self.path.name;
                let why = format!("the name of the object ({name} based on URL) was undeterminable");
                return Err(Refusal::bad_request(format!("{why}: name must be provided")));
            }
        }
        let read = if strategic.is_some() { form.convert(patched) } else { form.conform(patched) };
        let Decoded { mut object, problems: found } =
            read.map_err(|error| no_result(shown(), &error.to_string()))?;
        if let Value::Object(fields) = &mut object {
            fields.insert("apiVersion".to_owned(), group_version(decoding.group, decoding.version).into());
            fields.insert("kind".to_owned(), decoding.kind.into());
        }
        let mut all = problems.to_vec();
        all.extend(found.iter().map(ToString::to_string));
        match self.validation() {
            FieldValidation::Strict if !all.is_empty() => {
                Err(no_result(shown(), &format!("strict decoding error: {}", all.join(", "))))
            }
            FieldValidation::Ignore => Ok((object, Vec::new())),
            _ => Ok((object, all)),
        }
    }
}

/// Whether an object says that it is what it should be.
fn says_exactly(object: &Value, decoding: &Decoding<'_>) -> bool {
    object["kind"] == decoding.kind && object["apiVersion"] == group_version(decoding.group, decoding.version)
}

/// What is left is no object of its kind.
fn no_result(shown: String, why: &str) -> Refusal {
    let error = FieldError::invalid(&Path::root("patch"), shown, why);
    Status::invalid(&GroupKind { group: "".into(), kind: "".into() }, "", &error.into()).into()
}
