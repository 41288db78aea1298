//! Access and token reviews: objects that are created, evaluated and returned, but not stored.

mod access;
mod selectors;
mod token;

use coracle_meta::field::ErrorList;
use coracle_meta::gvk::GroupKind;
use coracle_meta::status::Status;
use coracle_meta::time::Time;
use coracle_registry::Identity;
use http::{Response, StatusCode};
use serde_json::{Map, Value, json};

use super::{ResourceRequest, warn};
use crate::body::ResponseBody;
use crate::status::Refusal;

impl ResourceRequest {
    /// Evaluates an object of a kind that is not stored.
    pub(super) async fn answer_access_review(&self) -> Result<Response<ResponseBody>, Refusal> {
        let kind = &*self.kind.declaration().kind;
        if kind == "Binding" {
            return self.bind("").await;
        }
        let (question, warnings) = self.posted().await?;
        match self.answer_decoded(kind, question).await {
            Ok(mut response) => {
                warn(&mut response, &warnings);
                Ok(response)
            }
            Err(refusal) => Err(refusal.warned_of(warnings)),
        }
    }

    async fn answer_decoded(
        &self,
        kind: &str,
        mut question: Value,
    ) -> Result<Response<ResponseBody>, Refusal> {
        let api_version = self.kind.declaration().storage_api_version();
        drop_system_fields(&mut question);
        let mut question = self.cluster.note_ownership(&self.write(&api_version)?, question);
        let answer = match kind {
            "SelfSubjectReview" => self.who_am_i(),
            "SelfSubjectRulesReview" => self.what_may_i(&question).await?,
            "TokenReview" => {
                if !question.pointer("/spec/token").is_some_and(|token| token != "") {
                    return Err(Refusal::bad_request("token is required for TokenReview in authentication"));
                }
                self.review_token(&mut question).await?;
                question
            }
            _ => {
                self.check_question(&question)?;
                question["status"] = self.review_access(&question).await?;
                question
            }
        };
        self.respond(&answer, StatusCode::CREATED)
    }

    fn check_question(&self, question: &Value) -> Result<(), Refusal> {
        let mut errors = ErrorList::new();
        self.kind.validate(question, &mut errors);
        if errors.is_empty() {
            return Ok(());
        }
        // kube-apiserver omits the kind from this error.
        let kind = GroupKind { group: self.path.group.clone().into(), kind: "".into() };
        Err(Status::invalid(&kind, "", &errors).into())
    }

    fn who_am_i(&self) -> Value {
        json!({
            "kind": "SelfSubjectReview",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {"creationTimestamp": Time(self.now).to_string()},
            "status": {"userInfo": user_info(&self.identity)},
        })
    }
}

/// Removes the metadata that only the server sets, as from every object that is created.
fn drop_system_fields(question: &mut Value) {
    if let Some(Value::Object(metadata)) = question.get_mut("metadata") {
        for field in
            ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "uid", "selfLink"]
        {
            metadata.remove(field);
        }
    }
}

/// Converts a user to `UserInfo` without its empty fields.
fn user_info(identity: &Identity) -> Value {
    let Identity { name, uid, groups, extra } = identity;
    let mut info = Map::new();
    for (field, value, is_empty) in [
        ("username", json!(name), name.is_empty()),
        ("uid", json!(uid), uid.is_empty()),
        ("groups", json!(groups), groups.is_empty()),
        ("extra", json!(extra), extra.is_empty()),
    ] {
        if !is_empty {
            info.insert(field.to_owned(), value);
        }
    }
    Value::Object(info)
}
