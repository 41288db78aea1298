//! Bound tokens: they expire, and become invalid when their account or the object that they are bound to is deleted.

use coracle_meta::time::Time;
use coracle_registry::lifecycle::ObjectIdentity;
use coracle_registry::{Identity, Kind};

use super::super::authenticator::{Attempt, AuthenticationError};
use super::{ServiceAccountAuthenticator, user};
use crate::identity::{CREDENTIAL_ID_KEY, authenticated};
use crate::metrics::TokenUse;
use crate::token::{BoundTo, Claims, LEEWAY_S, ObjectRef};

const POD_NAME: &str = "authentication.kubernetes.io/pod-name";
const POD_UID: &str = "authentication.kubernetes.io/pod-uid";
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";
const NODE_UID: &str = "authentication.kubernetes.io/node-uid";

/// The message for a token whose object was deleted, as in kube-apiserver.
const INVALIDATED: &str = "service account token has been invalidated";

/// The user of a token.
pub(super) fn identity(claims: &Claims) -> Identity {
    let BoundTo { namespace, serviceaccount, pod, node, .. } = &claims.kubernetes;
    let mut identity = user(namespace, &serviceaccount.name, &serviceaccount.uid);
    let mut note = |key: &str, value: String| {
        identity.extra.insert(key.to_owned(), vec![value]);
    };
    if !claims.jti.is_empty() {
        note(CREDENTIAL_ID_KEY, format!("JTI={}", claims.jti));
    }
    if let Some(pod) = pod.as_ref().filter(|pod| !pod.name.is_empty() && !pod.uid.is_empty()) {
        note(POD_NAME, pod.name.clone());
        note(POD_UID, pod.uid.clone());
    }
    if let Some(node) = node.as_ref().filter(|node| !node.name.is_empty()) {
        note(NODE_NAME, node.name.clone());
        if !node.uid.is_empty() {
            note(NODE_UID, node.uid.clone());
        }
    }
    authenticated(identity)
}

impl ServiceAccountAuthenticator {
    /// Checks that a token is valid now in the cluster of the request.
    pub(super) async fn check_bound(
        &self,
        claims: &Claims,
        attempt: &Attempt<'_>,
    ) -> Result<(), AuthenticationError> {
        let bound = &claims.kubernetes;
        claims.check_times(attempt.now_s()).map_err(AuthenticationError::because)?;
        self.check_account(bound, attempt).await?;
        let namespace = &*bound.namespace;
        // The node of a pod is only part of the claims and is not looked up.
        let node = bound.node.as_ref().filter(|_| bound.pod.is_none());
        for (kind, what, namespace, object) in [
            (self.kinds.secrets, "secret", namespace, bound.secret.as_ref()),
            (self.kinds.pods, "pod", namespace, bound.pod.as_ref()),
            (self.kinds.nodes, "node", "", node),
        ] {
            if let Some(object) = object {
                check_object(kind, what, namespace, object, attempt).await?;
            }
        }
        if is_late(claims, attempt.now_s()) {
            attempt.metrics.note_token(TokenUse::Stale);
        }
        Ok(())
    }

    async fn check_account(&self, bound: &BoundTo, attempt: &Attempt<'_>) -> Result<(), AuthenticationError> {
        let (namespace, ObjectRef { name, uid: claimed }) = (&bound.namespace, &bound.serviceaccount);
        let found = attempt.cluster.object_identity(self.kinds.accounts, namespace, name).await?;
        let why = match found {
            None => format!("serviceaccounts {name:?} not found"),
            Some(ObjectIdentity { uid, .. }) if uid != *claimed => {
                format!("service account UID ({uid}) does not match claim ({claimed})")
            }
            Some(account) if has_gone(&account, attempt) => {
                format!("service account {namespace}/{name} has been deleted")
            }
            Some(_) => return Ok(()),
        };
        Err(AuthenticationError::refused(why))
    }
}

async fn check_object(
    kind: &dyn Kind,
    what: &str,
    namespace: &str,
    object: &ObjectRef,
    attempt: &Attempt<'_>,
) -> Result<(), AuthenticationError> {
    let ObjectRef { name, uid: claimed } = object;
    match attempt.cluster.object_identity(kind, namespace, name).await? {
        Some(ObjectIdentity { uid, .. }) if uid != *claimed => Err(AuthenticationError::refused(format!(
            "{what} UID ({uid}) does not match service account {what} ref claim ({claimed})"
        ))),
        Some(found) if !has_gone(&found, attempt) => Ok(()),
        _ => Err(AuthenticationError::refused(INVALIDATED)),
    }
}

/// Returns true if an object should have been deleted by now and only waits for its finalizers.
fn has_gone(object: &ObjectIdentity, attempt: &Attempt<'_>) -> bool {
    let since = Time(attempt.now_s().saturating_sub(LEEWAY_S));
    object.deletion_timestamp.is_some_and(|deleted| deleted < since)
}

/// Returns true if the client should have renewed a token. Clients that read their token only once are rejected after a
/// year.
fn is_late(claims: &Claims, now_s: i64) -> bool {
    let Some(warn_after) = claims.kubernetes.warnafter.filter(|time| *time != 0 && *time < now_s) else {
        return false;
    };
    let seconds = now_s - warn_after;
    tracing::debug!(subject = claims.sub, seconds, "service account token is past its renewal time");
    true
}
