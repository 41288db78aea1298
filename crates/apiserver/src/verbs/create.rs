//! POST.

use coracle_api::codec::DecodeBudget;
use coracle_registry::Error;
use coracle_registry::form::ObjectForm;
use http::{Response, StatusCode};
use serde_json::Value;

use super::{ResourceRequest, warn, with_status};
use crate::body::ResponseBody;
use crate::negotiate::{self, Decoding, media_type};
use crate::status::Refusal;

impl ResourceRequest {
    pub(super) async fn create(self) -> Result<Response<ResponseBody>, Refusal> {
        let (object, mut warnings) = self.decoded().await?;
        let object = self.stored(object);
        let api_version = self.kind.declaration().storage_api_version();
        let of_preparation = self.kind.warnings_before_create(&object);
        let created = match self.cluster.create(&self.write(&api_version)?, object).await {
            Ok(created) => created,
            Err(error) => {
                // kube-apiserver returns these errors after it has prepared the object and added its warnings.
                if matches!(error, Error::Invalid { .. } | Error::AlreadyExists(_)) {
                    warnings.extend(of_preparation);
                }
                return Err(Refusal::from(error).warned_of(warnings));
            }
        };
        warnings.extend(created.warnings);
        if !self.query.dry_run() {
            self.note_change(true);
        }
        let mut response = negotiate::object(&self.encoding()?, &created.object)?;
        warn(&mut response, &warnings);
        Ok(with_status(response, StatusCode::CREATED))
    }

    /// Decodes the object in the body. Returns it with the warnings for the client.
    pub(super) async fn decoded(&self) -> Result<(Value, Vec<String>), Refusal> {
        let (kind, version, subresource) =
            (self.kind.clone(), self.path.version.clone(), self.path.subresource.clone());
        let (media_type, validation) = (media_type(&self.headers).to_owned(), self.validation());
        let decode = move |body: &[u8], budget: &mut DecodeBudget| {
            let form = ObjectForm::new(&*kind, &version, &subresource);
            negotiate::decode(&media_type, body, &Decoding::of(form, validation), budget)
        };
        self.read_body(decode).await?
    }

    /// Decodes the body in memory that stays reserved until the request ends.
    pub(super) async fn read_body<T: Send + 'static, E: Send + 'static>(
        &self,
        decode: impl FnOnce(&[u8], &mut DecodeBudget) -> Result<T, E> + Send + 'static,
    ) -> Result<Result<T, E>, Refusal> {
        let (decoded, reserved) = self.shared.decode_memory.decode(self.body.clone(), decode).await?;
        self.reserved.keep(reserved);
        Ok(decoded)
    }

    pub(super) fn decoding(&self) -> Result<Decoding<'_>, Refusal> {
        Ok(Decoding::of(self.body_form(), self.validation()))
    }
}
