//! TokenReview: whose token this is.

use coracle_meta::object::Meta;
use coracle_registry::{Error, Identity, catalog, view};
use serde_json::{Value, json};

use super::super::ResourceRequest;
use super::user_info;
use crate::identity::{CREDENTIAL_ID_KEY, authenticated};
use crate::negotiate;
use crate::status::Refusal;
use crate::token::{BoundTo, ObjectRef, TokenError, Verified, verify};

const POD_NAME: &str = "authentication.kubernetes.io/pod-name";
const POD_UID: &str = "authentication.kubernetes.io/pod-uid";
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";
const NODE_UID: &str = "authentication.kubernetes.io/node-uid";

/// What is said of a token whose object has gone.
const INVALIDATED: &str = "service account token has been invalidated";

impl ResourceRequest {
    /// The status of a review of a token.
    pub(super) async fn review_token(&self, question: &Value) -> Result<Value, Refusal> {
        let token = view::text(question, &["spec", "token"]);
        let audiences = view::items(question, &["spec", "audiences"]).iter().filter_map(Value::as_str);
        let wanted: Vec<String> = audiences.map(str::to_owned).collect();
        Ok(match self.authenticate(token, wanted).await? {
            Ok((identity, audiences)) => {
                json!({"authenticated": true, "user": user_info(&identity), "audiences": audiences})
            }
            Err(error) => json!({"user": {}, "error": error.to_string()}),
        })
    }

    /// Whose token it is, and which of the audiences asked about it is for.
    async fn authenticate(
        &self,
        token: &str,
        mut wanted: Vec<String>,
    ) -> Result<Result<(Identity, Vec<String>), TokenError>, Refusal> {
        let Some(signer) = self.components.tokens.as_deref() else { return Ok(Err(TokenError::Foreign)) };
        if wanted.is_empty() {
            wanted.push(signer.issuer().to_owned());
        }
        let Verified { claims, audiences } = match verify(signer, token, &wanted, self.now) {
            Ok(verified) => verified,
            Err(error) => return Ok(Err(error)),
        };
        if let Some(problem) = self.is_void(&claims.kubernetes).await? {
            return Ok(Err(TokenError::Invalid(problem)));
        }
        Ok(Ok((identity(&claims.kubernetes, &claims.jti), audiences)))
    }

    /// Why a token is no longer good, if it is not.
    async fn is_void(&self, bound: &BoundTo) -> Result<Option<String>, Refusal> {
        let (namespace, account) = (&*bound.namespace, &bound.serviceaccount);
        match self.uid_of("serviceaccounts", namespace, &account.name).await? {
            None => return Ok(Some(format!("serviceaccounts {:?} not found", account.name))),
            Some(uid) if uid != account.uid => {
                let claimed = &account.uid;
                return Ok(Some(format!("service account UID ({uid}) does not match claim ({claimed})")));
            }
            Some(_) => {}
        }
        // A pod's node is only told, not looked at.
        let node = bound.node.as_ref().filter(|_| bound.pod.is_none());
        for (plural, what, namespace, object) in [
            ("secrets", "secret", namespace, bound.secret.as_ref()),
            ("pods", "pod", namespace, bound.pod.as_ref()),
            ("nodes", "node", "", node),
        ] {
            let Some(ObjectRef { name, uid: claimed }) = object else { continue };
            match self.uid_of(plural, namespace, name).await? {
                None => return Ok(Some(INVALIDATED.to_owned())),
                Some(uid) if uid != *claimed => {
                    return Ok(Some(format!(
                        "{what} UID ({uid}) does not match service account {what} ref claim ({claimed})"
                    )));
                }
                Some(_) => {}
            }
        }
        Ok(None)
    }

    async fn uid_of(&self, plural: &str, namespace: &str, name: &str) -> Result<Option<String>, Refusal> {
        let Some(kind) = catalog::find("", "v1", plural) else { return Ok(None) };
        match self.cluster.get(kind, namespace, name, None).await {
            Ok(object) => Ok(Some(Meta::of(&negotiate::tree(&object.json)?).uid().to_owned())),
            Err(Error::NotFound(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// The user that a service account is.
fn identity(bound: &BoundTo, token_id: &str) -> Identity {
    let BoundTo { namespace, serviceaccount, pod, node, .. } = bound;
    let mut identity = Identity {
        name: format!("system:serviceaccount:{namespace}:{}", serviceaccount.name),
        uid: serviceaccount.uid.clone(),
        groups: vec!["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")],
        ..Identity::default()
    };
    let mut note = |key: &str, value: String| {
        if !value.is_empty() {
            identity.extra.insert(key.to_owned(), vec![value]);
        }
    };
    note(CREDENTIAL_ID_KEY, format!("JTI={token_id}"));
    for (object, name_key, uid_key) in [(pod, POD_NAME, POD_UID), (node, NODE_NAME, NODE_UID)] {
        if let Some(object) = object {
            note(name_key, object.name.clone());
            note(uid_key, object.uid.clone());
        }
    }
    authenticated(identity)
}
