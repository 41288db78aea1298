//! PUT.

use coracle_registry::lifecycle::{Change, Updated};
use http::{Response, StatusCode};

use super::issuance::Issuance;
use super::{ResourceRequest, warn, with_status};
use crate::body::ResponseBody;
use crate::negotiate;
use crate::status::Refusal;

impl ResourceRequest {
    pub(super) async fn update(self) -> Result<Response<ResponseBody>, Refusal> {
        let (object, warnings) = self.posted().await?;
        match self.change(&Change::Replace(self.stored(object))).await {
            Ok(updated) => self.updated(updated, &warnings),
            Err(refusal) => Err(refusal.warned_of(warnings)),
        }
    }

    /// Updates the object, or its Scale for a path of that subresource.
    pub(super) async fn change(&self, change: &Change<'_>) -> Result<Updated, Refusal> {
        let declaration = self.kind.declaration();
        let api_version = declaration.storage_api_version();
        let write = self.write(&api_version)?;
        let part = declaration.subresource(&self.path.subresource);
        let name = &self.path.name;
        let issuance = Issuance::begin(self).await?;
        let updated = match part.and_then(|part| part.scale.as_ref()) {
            Some(paths) => self.cluster.update_scale(&write, name, paths, change).await?,
            None => self.cluster.update(&write, name, change).await?,
        };
        if let Some(issuance) = issuance.filter(|_| !write.dry_run) {
            issuance.end(&updated, self.shared.metrics.server());
        }
        Ok(updated)
    }

    pub(super) fn updated(
        &self,
        updated: Updated,
        warnings: &[String],
    ) -> Result<Response<ResponseBody>, Refusal> {
        let mut response = negotiate::object(&self.encoding()?, &updated.object)?;
        warn(&mut response, warnings);
        warn(&mut response, &updated.warnings);
        let status = if updated.created { StatusCode::CREATED } else { StatusCode::OK };
        Ok(with_status(response, status))
    }
}
