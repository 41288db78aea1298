//! Responses with objects of another kind than that of the path: of subresources, and `Status`.

use coracle_meta::status::Status;
use http::{Response, StatusCode};
use serde_json::Value;

use super::{ResourceRequest, with_status};
use crate::body::ResponseBody;
use crate::negotiate::{self, Shape, to_value};
use crate::status::Refusal;

/// The media types that are served.
const OFFERED: &[&str] = &["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];

impl ResourceRequest {
    /// Responds with an object of any kind, in the format that the client accepts.
    pub(super) fn respond(
        &self,
        object: &Value,
        status: StatusCode,
    ) -> Result<Response<ResponseBody>, Refusal> {
        let format = self.response_format()?;
        if format.shape != Shape::Object {
            return Err(Status::not_acceptable(OFFERED).into());
        }
        Ok(with_status(negotiate::document(format, object), status))
    }

    /// Responds with a `Status` of success, for requests without an object to return.
    pub(super) fn respond_success(&self, code: StatusCode) -> Result<Response<ResponseBody>, Refusal> {
        self.respond(&to_value(&Status::success(code.as_u16(), None)), code)
    }
}
