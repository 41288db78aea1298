//! Answers that are not objects of the path's kind: the objects of parts, and `Status`.

use coracle_meta::status::Status;
use http::{Response, StatusCode};
use serde_json::Value;

use super::{ResourceRequest, with_status};
use crate::body::ResponseBody;
use crate::negotiate::{self, Shape, to_value};
use crate::status::Refusal;

/// The forms that are offered.
const OFFERED: &[&str] = &["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];

impl ResourceRequest {
    /// An object of any kind, in the form that the client wants.
    pub(super) fn tell(&self, object: &Value, status: StatusCode) -> Result<Response<ResponseBody>, Refusal> {
        let wanted = self.wanted()?;
        if wanted.shape != Shape::Object {
            return Err(Status::not_acceptable(OFFERED).into());
        }
        Ok(with_status(negotiate::told(wanted, object), status))
    }

    /// That something was done which leaves no object to tell of.
    pub(super) fn done(&self, code: StatusCode) -> Result<Response<ResponseBody>, Refusal> {
        self.tell(&to_value(&Status::success(code.as_u16(), None)), code)
    }
}
