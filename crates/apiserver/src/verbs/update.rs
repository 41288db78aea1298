//! PUT.

use coracle_registry::lifecycle::{Change, Updated};
use http::{Response, StatusCode};

use super::{ResourceRequest, warn, with_status};
use crate::body::ResponseBody;
use crate::negotiate;
use crate::status::Refusal;

impl ResourceRequest {
    pub(super) async fn update(self) -> Result<Response<ResponseBody>, Refusal> {
        let (object, warnings) = negotiate::decode(&self.headers, &self.body, &self.decoding()?)?;
        let object = self.stored(object);
        let api_version = self.kind.declaration().storage_api_version();
        let change = Change::Replace(object);
        let updated = self.cluster.update(&self.write(&api_version)?, &self.path.name, &change).await?;
        self.updated(updated, &warnings)
    }

    pub(super) fn updated(
        &self,
        updated: Updated,
        warnings: &[String],
    ) -> Result<Response<ResponseBody>, Refusal> {
        let mut response = negotiate::object(&self.encoding()?, updated.object.json)?;
        warn(&mut response, warnings);
        warn(&mut response, &updated.warnings);
        let status = if updated.created { StatusCode::CREATED } else { StatusCode::OK };
        Ok(with_status(response, status))
    }
}
