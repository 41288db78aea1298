//! `scale`: the desired number of replicas.

use coracle_meta::status::Status;
use coracle_registry::lifecycle::{Change, Object};
use coracle_registry::{Error, Subject, Verbs};
use http::{Response, StatusCode};

use super::super::{ResourceRequest, warn};
use crate::body::ResponseBody;
use crate::negotiate;
use crate::status::Refusal;

impl ResourceRequest {
    pub(super) async fn answer_scale(&self, verb: Verbs) -> Result<Response<ResponseBody>, Refusal> {
        match verb {
            Verbs::GET => {
                let object = self.read().await?;
                self.check_said(&object)?;
                self.tell_scale(&object, &[])
            }
            Verbs::UPDATE => {
                let (scale, warnings) = self.posted().await?;
                let updated = self.change(&Change::Replace(scale)).await?;
                self.tell_scale(&updated.object, &warnings)
            }
            _ => {
                let (updated, warnings) = self.patched().await?;
                self.tell_scale(&updated.object, &warnings)
            }
        }
    }

    /// Rejects an object whose replicas field is not set, for kinds whose Scale requires it.
    fn check_said(&self, object: &Object) -> Result<(), Refusal> {
        let declaration = self.kind.declaration();
        let paths = declaration.subresource("scale").and_then(|part| part.scale.as_ref());
        let Some(paths) = paths.filter(|paths| paths.is_said.is_some()) else { return Ok(()) };
        match paths.unsaid(&negotiate::seen(&*self.kind, object)?) {
            Some(path) => {
                let message = format!("the spec replicas field {path:?} does not exist");
                Err(Status::internal_error(message).into())
            }
            None => Ok(()),
        }
    }

    fn tell_scale(&self, object: &Object, warnings: &[String]) -> Result<Response<ResponseBody>, Refusal> {
        let declaration = self.kind.declaration();
        let part = declaration.subresource(&self.path.subresource);
        let missing = || Error::NotFound(Box::new(Subject::of(declaration, &self.path.name)));
        let paths = part.and_then(|part| part.scale.as_ref()).ok_or_else(missing)?;
        let scale = paths.scale_of(&negotiate::seen(&*self.kind, object)?);
        let mut response = self.respond(&scale, StatusCode::OK)?;
        warn(&mut response, warnings);
        Ok(response)
    }
}
