//! POST.

use http::{Response, StatusCode};

use super::{ResourceRequest, warn, with_status};
use crate::body::ResponseBody;
use crate::negotiate::{self, Decoding};
use crate::status::Refusal;

impl ResourceRequest {
    pub(super) async fn create(self) -> Result<Response<ResponseBody>, Refusal> {
        let (object, mut warnings) = negotiate::decode(&self.headers, &self.body, &self.decoding()?)?;
        let object = self.stored(object);
        let api_version = self.kind.declaration().storage_api_version();
        let created = match self.cluster.create(&self.write(&api_version)?, object).await {
            Ok(created) => created,
            Err(error) => return Err(Refusal::from(error).warned_of(warnings)),
        };
        warnings.extend(created.warnings);
        let mut response = negotiate::object(&self.encoding()?, &created.object)?;
        warn(&mut response, &warnings);
        Ok(with_status(response, StatusCode::CREATED))
    }

    pub(super) fn decoding(&self) -> Result<Decoding<'_>, Refusal> {
        Ok(Decoding::of(self.body_form(), self.validation()))
    }
}
