//! TokenReview: whose token this is.

use coracle_base::Timestamp;
use coracle_registry::view;
use serde_json::{Map, Value, json};

use super::super::ResourceRequest;
use super::user_info;
use crate::authentication::{Authenticated, AuthenticationError};
use crate::status::Refusal;

impl ResourceRequest {
    /// The status of a review of a token.
    pub(super) async fn review_token(&self, question: &Value) -> Result<Value, Refusal> {
        let token = view::text(question, &["spec", "token"]);
        let audiences = view::items(question, &["spec", "audiences"]).iter().filter_map(Value::as_str);
        let audiences: Vec<String> = audiences.map(str::to_owned).collect();
        let now = Timestamp::from_millis(u64::try_from(self.now).unwrap_or(0) * 1000);
        let authentication = &self.components.authentication;
        match authentication.review(token, &audiences, &self.cluster, now, self.shared.metrics.server()).await
        {
            Ok(Some(found)) => Ok(known(&found)),
            Ok(None) => Ok(json!({"user": {}})),
            Err(AuthenticationError::Lookup(error)) => Err(error.into()),
            Err(error) => Ok(json!({"user": {}, "error": error.to_string()})),
        }
    }
}

fn known(found: &Authenticated) -> Value {
    let mut status = Map::new();
    status.insert("authenticated".to_owned(), true.into());
    status.insert("user".to_owned(), user_info(&found.identity));
    if !found.audiences.is_empty() {
        status.insert("audiences".to_owned(), json!(found.audiences));
    }
    Value::Object(status)
}
