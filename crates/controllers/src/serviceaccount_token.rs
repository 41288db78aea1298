//! Fills secrets of the type `kubernetes.io/service-account-token` with a token of their service account, and deletes
//! them with it. Such tokens never expire; pods no longer use them, but users still create them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use coracle_runtime::informer::{Metadata, MetadataOnly, View};
use coracle_runtime::{
    Action, Change, ClusterId, Controller, Informer, Manager, ObjectKey, Objects, Reconcile, Selection,
    Written,
};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::ResourceExt;
use kube::api::{DeleteParams, Preconditions};
use serde::Deserialize;
use tokio::sync::watch;

use crate::{Registration, Settings, Trust, api_error};

/// Annotations with the service account of a secret.
const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";

/// Keys of the secret's data.
const TOKEN: &str = "token";
const CA: &str = "ca.crt";
const NAMESPACE: &str = "namespace";

/// Index of secrets by their service account.
const BY_ACCOUNT: &str = "account";

pub(crate) const REGISTRATION: Registration =
    Registration { name: "serviceaccount-token-controller", register };

/// The service account and the secret of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenSubject<'a> {
    /// Cluster of the account and of the secret.
    pub cluster: &'a ClusterId,
    /// Namespace of the account and of the secret.
    pub namespace: &'a str,
    /// Name of the service account.
    pub account: &'a str,
    /// Uid of the service account.
    pub account_uid: &'a str,
    /// Name of the secret.
    pub secret: &'a str,
}

/// Issues tokens of service accounts.
#[derive(Clone)]
pub struct TokenWriter(Arc<WriteToken>);

type WriteToken = dyn Fn(&TokenSubject<'_>) -> Option<String> + Send + Sync;

impl TokenWriter {
    /// Creates a writer from a function that returns the token, or `None` if it cannot issue one.
    pub fn new(write: impl Fn(&TokenSubject<'_>) -> Option<String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(write))
    }
}

impl fmt::Debug for TokenWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenWriter(..)")
    }
}

fn register(manager: &mut Manager, settings: &Settings) {
    let Some(writer) = settings.token_writer.clone() else { return };
    let secrets: Informer<TokenSecret> =
        manager.informer(Selection::of::<Secret>().with_fields("type=kubernetes.io/service-account-token"));
    let accounts: Informer<MetadataOnly> =
        manager.informer(Selection::of::<ServiceAccount>().metadata_only());
    secrets.store().add_index(BY_ACCOUNT, |secret| vec![secret.account_key()]);
    let (owned, of_accounts) = (secrets.clone(), accounts.clone());
    let reconcile = AccountTokens {
        secret_objects: Objects::of::<Secret>(manager.client()),
        account_objects: Objects::of::<ServiceAccount>(manager.client()),
        writer,
        trust: settings.trust.clone(),
        secrets: secrets.clone(),
        accounts,
    };
    let mut controller = Controller::new(REGISTRATION.name, reconcile)
        .queue_name("serviceaccount_tokens_service")
        .watches(&secrets, |change| [change.key.clone()])
        .watches(&of_accounts, move |change| secrets_of_account(change, &owned));
    if let Some(trust) = &settings.trust {
        controller = controller.watches_value(trust, move || secrets.store().keys());
    }
    manager.add(controller);
}

/// Secrets that name a service account.
fn secrets_of_account(change: &Change<MetadataOnly>, secrets: &Informer<TokenSecret>) -> Vec<ObjectKey> {
    let key = format!("{}/{}", change.key.namespace(), change.key.name());
    let named = secrets.store().by_index(BY_ACCOUNT, change.key.cluster(), &key);
    let cluster = || change.key.cluster().clone();
    named
        .iter()
        .map(|secret| {
            ObjectKey::namespaced(cluster(), &*secret.metadata.base.namespace, &*secret.metadata.base.name)
        })
        .collect()
}

/// View of a secret without its secret contents.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(from = "Whole")]
struct TokenSecret {
    metadata: SecretMetadata,
    has_token: bool,
    has_namespace: bool,
    ca: Option<ByteString>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct SecretMetadata {
    #[serde(flatten)]
    base: Metadata,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

/// The wire format.
#[derive(Deserialize)]
struct Whole {
    metadata: SecretMetadata,
    #[serde(default)]
    data: BTreeMap<String, ByteString>,
}

impl From<Whole> for TokenSecret {
    fn from(mut whole: Whole) -> Self {
        let has = |key| whole.data.get(key).is_some_and(|value| !value.0.is_empty());
        let (has_token, has_namespace) = (has(TOKEN), has(NAMESPACE));
        Self { metadata: whole.metadata, has_token, has_namespace, ca: whole.data.remove(CA) }
    }
}

impl View for TokenSecret {
    fn metadata(&self) -> &Metadata {
        &self.metadata.base
    }
}

impl TokenSecret {
    fn annotation(&self, name: &str) -> &str {
        self.metadata.annotations.get(name).map_or("", String::as_str)
    }

    fn account_key(&self) -> String {
        format!("{}/{}", self.metadata.base.namespace, self.annotation(ACCOUNT_NAME))
    }

    /// True if this is the service account that the secret names.
    fn is_of(&self, account_uid: &str) -> bool {
        let claimed = self.annotation(ACCOUNT_UID);
        claimed.is_empty() || claimed == account_uid
    }
}

/// Next step for a secret.
#[derive(Debug, PartialEq, Eq)]
enum Plan {
    Nothing,
    /// Add what is missing.
    Fill,
    /// Delete it: its service account is gone.
    Delete,
}

/// Decides on the next step, given the uid of the service account of that name.
fn plan(secret: &TokenSecret, account_uid: Option<&str>, root_ca: Option<&str>) -> Plan {
    if secret.annotation(ACCOUNT_NAME).is_empty() || secret.metadata.base.deletion_timestamp.is_some() {
        return Plan::Nothing;
    }
    if !account_uid.is_some_and(|uid| secret.is_of(uid)) {
        return Plan::Delete;
    }
    let has_ca = root_ca.is_none_or(|ca| secret.ca.as_ref().is_some_and(|own| own.0 == ca.as_bytes()));
    if secret.has_token && secret.has_namespace && has_ca { Plan::Nothing } else { Plan::Fill }
}

struct AccountTokens {
    secret_objects: Objects,
    account_objects: Objects,
    writer: TokenWriter,
    trust: Option<watch::Receiver<Trust>>,
    secrets: Informer<TokenSecret>,
    accounts: Informer<MetadataOnly>,
}

impl AccountTokens {
    /// The current certificate authorities of the API server.
    fn root_ca(&self) -> Option<String> {
        self.trust.as_ref().map(|trust| trust.borrow().root_ca.clone())
    }

    /// Fills the version of the secret that was planned for; a change enqueues the key again.
    async fn fill(&self, key: &ObjectKey, view: &TokenSecret, uid: &str) -> Result<(), kube::Error> {
        let Some(mut secret) = self.secret_objects.get::<Secret>(key).await? else { return Ok(()) };
        if secret.resource_version().as_deref() != Some(&*view.metadata.base.resource_version) {
            return Ok(());
        }
        if !self.complete(key.cluster(), &mut secret, view, uid) {
            return Ok(());
        }
        match self.secret_objects.replace::<Written>(key, &secret).await {
            // Someone else changed it, which enqueues the key again.
            Err(kube::Error::Api(status)) if status.code == 409 || status.code == 404 => Ok(()),
            outcome => outcome.map(drop),
        }
    }

    /// True if the secret is complete.
    fn complete(&self, cluster: &ClusterId, secret: &mut Secret, view: &TokenSecret, uid: &str) -> bool {
        let (name, namespace) = (secret.name_any(), secret.namespace().unwrap_or_default());
        let account = view.annotation(ACCOUNT_NAME).to_owned();
        let data = secret.data.get_or_insert_default();
        if let Some(ca) = self.root_ca() {
            data.insert(CA.to_owned(), ByteString(ca.into_bytes()));
        }
        if !view.has_namespace {
            data.insert(NAMESPACE.to_owned(), ByteString(namespace.clone().into_bytes()));
        }
        if !view.has_token {
            let (namespace, account, secret) = (&*namespace, &*account, &*name);
            let subject = TokenSubject { cluster, namespace, account, account_uid: uid, secret };
            let Some(token) = (self.writer.0)(&subject) else { return false };
            data.insert(TOKEN.to_owned(), ByteString(token.into_bytes()));
        }
        secret.annotations_mut().insert(ACCOUNT_UID.to_owned(), uid.to_owned());
        true
    }

    /// Deletes a secret whose service account is gone, after checking that on the server, because the cache may be
    /// stale.
    async fn delete(&self, key: &ObjectKey, view: &TokenSecret) -> Result<(), kube::Error> {
        let name = view.annotation(ACCOUNT_NAME);
        let account = ObjectKey::namespaced(key.cluster().clone(), key.namespace(), name);
        let account = self.account_objects.get::<Written>(&account).await?;
        if account.is_some_and(|account| view.is_of(&account.metadata.uid)) {
            return Ok(());
        }
        let resource_version = Some(view.metadata.base.resource_version.to_string());
        let preconditions = Some(Preconditions { resource_version, uid: None });
        let params = DeleteParams { preconditions, ..DeleteParams::default() };
        match self.secret_objects.delete(key, &params).await {
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            outcome => outcome,
        }
    }
}

impl Reconcile for AccountTokens {
    type Error = kube::Error;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, kube::Error> {
        let Some(secret) = self.secrets.store().get(key) else { return Ok(Action::AwaitChange) };
        let name = secret.annotation(ACCOUNT_NAME);
        let account = ObjectKey::namespaced(key.cluster().clone(), key.namespace(), name);
        let account = match self.accounts.store().get(&account) {
            // Events for bootstrap accounts are shared by all clusters, but the objects have a uid per cluster.
            Some(_) => self.account_objects.get::<Written>(&account).await?,
            None => None,
        };
        let uid = account.as_ref().map(|account| &*account.metadata.uid);
        let done = match plan(&secret, uid, self.root_ca().as_deref()) {
            Plan::Nothing => Ok(()),
            Plan::Fill => self.fill(key, &secret, uid.unwrap_or_default()).await,
            Plan::Delete => self.delete(key, &secret).await,
        };
        match done {
            Err(error) if !api_error::namespace_is_gone_or_terminating(&error) => Err(error),
            _ => Ok(Action::AwaitChange),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn secret(annotations: Value, data: Value) -> TokenSecret {
        let metadata = json!({"name": "s", "namespace": "ns", "annotations": annotations});
        serde_json::from_value(json!({"metadata": metadata, "data": data})).unwrap()
    }

    #[test]
    fn incomplete_secret_is_filled() {
        let named = json!({ACCOUNT_NAME: "robot"});
        let empty = secret(named.clone(), json!({}));
        assert_eq!(plan(&empty, Some("1"), None), Plan::Fill);
        let full = secret(named.clone(), json!({"token": "dA==", "namespace": "bnM=", "ca.crt": "Y2E="}));
        assert_eq!(plan(&full, Some("1"), Some("ca")), Plan::Nothing);
        assert_eq!(plan(&full, Some("1"), Some("another")), Plan::Fill);
        assert_eq!(plan(&full, Some("1"), None), Plan::Nothing);
        let no_token = secret(named, json!({"token": "", "namespace": "bnM="}));
        assert_eq!(plan(&no_token, Some("1"), None), Plan::Fill);
    }

    #[test]
    fn secret_is_deleted_with_its_account() {
        let named = secret(json!({ACCOUNT_NAME: "robot", ACCOUNT_UID: "1"}), json!({}));
        assert_eq!(plan(&named, None, None), Plan::Delete);
        assert_eq!(plan(&named, Some("2"), None), Plan::Delete);
        assert_eq!(plan(&named, Some("1"), None), Plan::Fill);
        assert_eq!(plan(&secret(json!({}), json!({})), None, None), Plan::Nothing);
    }

    #[test]
    fn tokens_are_not_in_debug_output() {
        let view = secret(json!({ACCOUNT_NAME: "robot"}), json!({"token": "cGxhbnRlZA=="}));
        assert!(!format!("{view:?}").contains("planted") && !format!("{view:?}").contains("cGxhbnRlZA"));
        let writer = TokenWriter::new(|_| Some("planted".to_owned()));
        assert_eq!(format!("{writer:?}"), "TokenWriter(..)");
    }
}
