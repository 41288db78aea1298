//! Deletes expired bootstrap tokens.

use coracle_base::{Clock, Timestamp};
use coracle_runtime::informer::{Metadata, View};
use coracle_runtime::{Action, Controller, Informer, Manager, ObjectKey, Objects, Reconcile, Selection};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, Preconditions};
use serde::Deserialize;

use super::{NAMESPACE, SECRET_TYPE};
use crate::{Registration, Settings};

pub(crate) const REGISTRATION: Registration = Registration { name: "token-cleaner-controller", register };

fn register(manager: &mut Manager, settings: &Settings) {
    let tokens = manager.informer(Selection::of::<Secret>().with_fields(&format!("type={SECRET_TYPE}")));
    let (objects, clock) = (Objects::of::<Secret>(manager.client()), settings.clock.clone());
    let reconcile = Cleaner { objects, clock, tokens: tokens.clone() };
    let controller = Controller::new(REGISTRATION.name, reconcile)
        .queue_name("token_cleaner")
        .watches(&tokens, |change| [change.key.clone()]);
    manager.add(controller);
}

/// A bootstrap token without its secret, which is not needed here.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "Whole")]
struct Token {
    metadata: Metadata,
    uid: Box<str>,
    expiration: Option<Box<str>>,
}

#[derive(Deserialize)]
struct Whole {
    metadata: WholeMetadata,
    #[serde(default)]
    data: WholeData,
}

#[derive(Deserialize)]
struct WholeMetadata {
    #[serde(flatten)]
    metadata: Metadata,
    #[serde(default)]
    uid: Box<str>,
}

#[derive(Default, Deserialize)]
struct WholeData {
    expiration: Option<ByteString>,
}

impl From<Whole> for Token {
    fn from(whole: Whole) -> Self {
        let expiration = whole.data.expiration.map(|bytes| String::from_utf8_lossy(&bytes.0).into());
        Self { metadata: whole.metadata.metadata, uid: whole.metadata.uid, expiration }
    }
}

impl View for Token {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

/// When a token expires; `None` if it does not. An unreadable expiration counts as expired, as for authenticators.
fn plan(token: &Token) -> Option<Timestamp> {
    let expiration = token.expiration.as_deref().filter(|text| !text.is_empty())?;
    let time: Result<coracle_meta::time::Time, _> = expiration.parse();
    let seconds = time.map_or(0, |time| u64::try_from(time.0).unwrap_or_default());
    Some(Timestamp::from_millis(seconds.saturating_mul(1000)))
}

struct Cleaner {
    objects: Objects,
    clock: Clock,
    tokens: Informer<Token>,
}

impl Reconcile for Cleaner {
    type Error = kube::Error;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, kube::Error> {
        let Some(token) = self.tokens.store().get(key).filter(|_| key.namespace() == NAMESPACE) else {
            return Ok(Action::AwaitChange);
        };
        let Some(due) = plan(&token) else { return Ok(Action::AwaitChange) };
        let wait = due.since(self.clock.now());
        if !wait.is_zero() {
            return Ok(Action::RequeueAfter(wait));
        }
        tracing::info!(secret = key.name(), "deleting expired bootstrap token");
        let exactly = Preconditions { uid: Some(token.uid.to_string()), resource_version: None };
        let params = DeleteParams { preconditions: Some(exactly), ..DeleteParams::default() };
        match self.objects.delete(key, &params).await {
            // The secret has been replaced.
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(Action::AwaitChange),
            deleted => deleted.map(|()| Action::AwaitChange),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::EXPIRATION;
    use super::*;

    fn token(expiration: Option<&str>) -> Token {
        let bytes = expiration.map(|text| ByteString(text.as_bytes().to_vec()));
        let data = json!({(EXPIRATION): bytes, "token-secret": "AAAA"});
        serde_json::from_value(json!({"metadata": {"name": "t", "uid": "u"}, "data": data})).unwrap()
    }

    #[test]
    fn tokens_expire_as_specified() {
        let due = |text| plan(&token(text)).map(Timestamp::as_millis);
        assert_eq!(due(Some("2027-01-15T08:00:00Z")), Some(1_800_000_000_000));
        assert_eq!(due(Some("soon")), Some(0));
        assert_eq!((due(Some("")), due(None)), (None, None));
    }

    #[test]
    fn token_view_does_not_hold_the_secret() {
        assert!(!format!("{:?}", token(None)).contains("AAAA"));
    }
}
