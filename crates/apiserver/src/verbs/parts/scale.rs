//! `scale`: how many of something there are to be.

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
            Verbs::GET => self.tell_scale(&self.read().await?, &[]),
            Verbs::UPDATE => {
                let (scale, warnings) = self.posted()?;
                let updated = self.change(&Change::Replace(scale)).await?;
                self.tell_scale(&updated.object, &warnings)
            }
            _ => {
                let (updated, warnings) = self.patched().await?;
                self.tell_scale(&updated.object, &warnings)
            }
        }
    }

    fn tell_scale(&self, object: &Object, warnings: &[String]) -> Result<Response<ResponseBody>, Refusal> {
        let declaration = self.kind.declaration();
        let part = declaration.subresource(&self.path.subresource);
        let missing = || Error::NotFound(Box::new(Subject::of(declaration, &self.path.name)));
        let paths = part.and_then(|part| part.scale.as_ref()).ok_or_else(missing)?;
        let scale = paths.scale_of(&negotiate::seen(&*self.kind, object)?);
        let mut response = self.tell(&scale, StatusCode::OK)?;
        warn(&mut response, warnings);
        Ok(response)
    }
}
