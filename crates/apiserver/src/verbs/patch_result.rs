//! Decoding of a patched object, as if the client had sent it.

use coracle_api::codec::{Decoded, TypeMeta, json};
use coracle_api::schema::types;
use coracle_meta::field::{FieldError, Path};
use coracle_meta::gvk::GroupKind;
use coracle_meta::patch::as_go_prints;
use coracle_meta::status::Status;
use serde_json::Value;

use super::ResourceRequest;
use crate::discovery::group_version;
use crate::negotiate::{Decoding, claims_otherwise, clipped};
use crate::options::FieldValidation;
use crate::status::Refusal;

impl ResourceRequest {
    /// Brings a patched object into the form of its kind. Returns it with the warnings for the client. `strategic` is
    /// the patch, if it is a strategic merge patch; `problems` are the errors of strict decoding of the patch.
    pub(super) fn read_back(
        &self,
        mut patched: Value,
        strategic: Option<&Value>,
        problems: &[String],
    ) -> Result<(Value, Vec<String>), Refusal> {
        let (form, decoding) = (self.body_form(), self.decoding()?);
        // The usual case: the stored object is well-formed, and most patches keep it so.
        if problems.is_empty() && says_exactly(&patched, &decoding) {
            match form.conform_soon(patched) {
                Ok(conformed) => return Ok((conformed, Vec::new())),
                Err(same) => patched = same,
            }
        }
        let text = strategic.is_none().then(|| patched.to_string());
        let shown = || match &text {
            Some(text) => clipped(text).to_owned(),
            None => strategic.map(as_go_prints).map(|text| clipped(&text).to_owned()).unwrap_or_default(),
        };
        if let Some(text) = &text {
            let claimed =
                json::type_meta(text.as_bytes()).map_err(|error| no_result(shown(), &error.to_string()))?;
            if form.type_id().is_none() {
                check_says_what_it_is(&claimed, text)?;
            } else if let Some(why) = claims_otherwise(&claimed, &decoding) {
                return Err(no_result(shown(), &misfit(&claimed, &patched).unwrap_or(why)));
            } else if claimed.api_version.is_empty() {
                return Err(self.without_version(&patched, shown(), problems));
            }
        }
        let read = if strategic.is_some() { form.convert(patched) } else { form.conform(patched) };
        let Decoded { mut object, problems: found } = read.map_err(|error| match error.is_too_large() {
            true => error.into(),
            false => no_result(shown(), &error.to_string()),
        })?;
        if let Value::Object(fields) = &mut object
            && form.type_id().is_some()
        {
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

    /// The error for a patched object without `apiVersion`. kube-apiserver decodes it into the internal version, in
    /// which hardly any field has the name that it has in a served version.
    fn without_version(&self, object: &Value, shown: String, problems: &[String]) -> Refusal {
        let names = object.as_object().into_iter().flat_map(|fields| fields.keys());
        let unknown = names.filter(|name| *name != "kind" && !is_metadata(name));
        let mut all = problems.to_vec();
        all.extend(unknown.map(|name| format!("unknown field {name:?}")));
        let name = &self.path.name;
        let why = format!("the name of the object ({name} based on URL) was undeterminable");
        let nameless = Refusal::bad_request(format!("{why}: name must be provided"));
        match self.validation() {
            FieldValidation::Strict if !all.is_empty() => {
                no_result(shown, &format!("strict decoding error: {}", all.join(", ")))
            }
            FieldValidation::Warn => nameless.warned_of(all),
            _ => nameless,
        }
    }
}

/// Rejects an untyped object without `kind` or `apiVersion`. Validation later checks that the two are right.
fn check_says_what_it_is(claimed: &TypeMeta, text: &str) -> Result<(), Refusal> {
    if let Some(why) = claimed.malformed_version() {
        return Err(no_result(clipped(text).to_owned(), &why));
    }
    if claimed.kind.is_empty() {
        let text = clipped(text);
        return Err(no_result(text.to_owned(), &format!("Object 'Kind' is missing in '{text}'")));
    }
    if claimed.api_version.is_empty() {
        let message = "Object 'apiVersion' is missing in 'object has no apiVersion field'";
        return Err(Status::internal_error(message).into());
    }
    Ok(())
}

/// Whether a field belongs to `ObjectMeta`, whose fields are not fields of the object in any version.
fn is_metadata(name: &str) -> bool {
    let metadata = types().named("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta");
    metadata.is_some_and(|id| types().get(id).fields.iter().any(|field| field.name == name))
}

/// Returns why an object does not decode as the built-in kind that its `kind` and `apiVersion` name. kube-apiserver
/// decodes it as that kind first.
fn misfit(claimed: &TypeMeta, object: &Value) -> Option<String> {
    if claimed.malformed_version().is_some() {
        return None;
    }
    let id = types().kind(claimed.group(), claimed.version(), &claimed.kind)?;
    json::conform(object.clone(), id).err().map(|error| error.to_string())
}

/// Whether `kind` and `apiVersion` of an object are exactly those of the request.
fn says_exactly(object: &Value, decoding: &Decoding<'_>) -> bool {
    object["kind"] == decoding.kind && object["apiVersion"] == group_version(decoding.group, decoding.version)
}

/// The error for a patched object that is not a valid object of its kind.
fn no_result(shown: String, why: &str) -> Refusal {
    let error = FieldError::invalid(&Path::root("patch"), shown, why);
    Status::invalid(&GroupKind { group: "".into(), kind: "".into() }, "", &error.into()).into()
}
