//! TokenReview: authenticates a token.

use coracle_base::Timestamp;
use coracle_registry::view;
use serde_json::{Map, Value, json};

use super::super::ResourceRequest;
use super::user_info;
use crate::authentication::{Authenticated, AuthenticationError};
use crate::status::Refusal;

impl ResourceRequest {
    /// Sets the status of a token review. As in kube-apiserver, a field that has no new value keeps the one that
    /// the client sent.
    pub(super) async fn review_token(&self, question: &mut Value) -> Result<(), Refusal> {
        let token = view::text(question, &["spec", "token"]);
        let audiences = view::items(question, &["spec", "audiences"]).iter().filter_map(Value::as_str);
        let audiences: Vec<String> = audiences.map(str::to_owned).collect();
        let now = Timestamp::from_millis(u64::try_from(self.now).unwrap_or(0) * 1000);
        let authentication = &self.components.authentication;
        let metrics = self.shared.metrics.server();
        let found = authentication.review(token, &audiences, &self.cluster, now, metrics).await;
        let mut status = match question.get_mut("status").map(Value::take) {
            Some(Value::Object(status)) => status,
            _ => Map::new(),
        };
        status.remove("authenticated");
        match found {
            Ok(Some(found)) => authenticate(&mut status, &found),
            Ok(None) => {}
            Err(AuthenticationError::Lookup(error)) => return Err(error.into()),
            Err(error) => {
                status.insert("error".to_owned(), error.to_string().into());
            }
        }
        status.entry("user").or_insert_with(|| json!({}));
        question["status"] = Value::Object(status);
        Ok(())
    }
}

fn authenticate(status: &mut Map<String, Value>, found: &Authenticated) {
    status.insert("authenticated".to_owned(), true.into());
    status.insert("user".to_owned(), user_info(&found.identity));
    if found.audiences.is_empty() {
        status.remove("audiences");
    } else {
        status.insert("audiences".to_owned(), json!(found.audiences));
    }
}
