//! Bootstrap tokens, by which nodes join: limits on their use.
//!
//! A token can limit the number of nodes that join with it. A use is an approved certificate, not a request: a
//! joining node sends several requests with the token, and repeats them when it is interrupted. The approver counts:
//! it notes the certificate signing request in the token's secret before it approves. Of two concurrent uses, one
//! fails with a conflict and is retried. With its last use a token gets an expiration in the near future, which every
//! authenticator respects, and until then the last node can still fetch its certificate.

pub(crate) mod cleaner;

use std::collections::BTreeMap;
use std::time::Duration;

use coracle_base::Timestamp;
use coracle_runtime::informer::rfc3339;
use coracle_runtime::{ClusterId, ObjectKey, Objects, Written};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;

/// Namespace of bootstrap tokens; this and the following names as in `k8s.io/cluster-bootstrap/token/api`.
pub const NAMESPACE: &str = "kube-system";
/// Prefix of the secret's name, before the token id.
pub const NAME_PREFIX: &str = "bootstrap-token-";
/// Type of the secret.
pub const SECRET_TYPE: &str = "bootstrap.kubernetes.io/token";
/// Prefix of the user name, before the token id.
pub const USER_PREFIX: &str = "system:bootstrap:";

/// Key of the token's expiration.
pub const EXPIRATION: &str = "expiration";
/// Key of the number of nodes that may join with the token. Coracle's own; Kubernetes' tools ignore it.
pub const USAGE_LIMIT: &str = "usage-limit";
/// Key of the uids of the requests counted so far.
pub const USED_BY: &str = "used-by";

/// Highest possible limit: the uids must fit into the secret.
pub const MAX_USAGE_LIMIT: usize = 10_000;

/// How long a token stays valid after its last use, so that the node can fetch its certificate.
const FINAL_FETCH_PERIOD: Duration = Duration::from_mins(10);

/// Data of a secret.
pub type Data = BTreeMap<String, ByteString>;

/// Result of `admit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The request did not come with a token, the token has no limit, or the use is counted.
    Granted,
    /// The token's limit is reached.
    Refused,
}

/// Next step for one use.
#[derive(Debug, PartialEq, Eq)]
enum Plan {
    /// No limit, or the request is already counted.
    Grant,
    /// Granted once the secret holds this data.
    Note(Data),
    Refuse,
}

/// Counts the use of a token by a certificate signing request.
///
/// # Errors
/// If the server does not answer, or the secret has changed in the meantime: the caller should retry.
pub(crate) async fn admit(
    secrets: &Objects,
    cluster: &ClusterId,
    user: &str,
    request: &str,
    now: Timestamp,
) -> Result<Admission, kube::Error> {
    let Some(id) = user.strip_prefix(USER_PREFIX) else { return Ok(Admission::Granted) };
    let key = ObjectKey::namespaced(cluster.clone(), NAMESPACE, format!("{NAME_PREFIX}{id}"));
    // A token deleted since was valid when the request was made.
    let Some(mut secret) = secrets.get::<Secret>(&key).await? else { return Ok(Admission::Granted) };
    match plan(secret.data.as_ref().unwrap_or(&Data::new()), request, now) {
        Plan::Grant => Ok(Admission::Granted),
        Plan::Refuse => Ok(Admission::Refused),
        Plan::Note(data) => {
            secret.data = Some(data);
            // With its resource version, so that concurrent uses conflict.
            secrets.replace::<Written>(&key, &secret).await?;
            Ok(Admission::Granted)
        }
    }
}

/// An unreadable limit admits no one, because a limit was intended.
fn plan(data: &Data, request: &str, now: Timestamp) -> Plan {
    let Some(limit) = text(data, USAGE_LIMIT) else { return Plan::Grant };
    let limit: usize = limit.trim().parse().unwrap_or_default();
    let used = text(data, USED_BY).unwrap_or_default();
    let mut uses: Vec<&str> = used.split(',').filter(|uid| !uid.is_empty()).collect();
    if uses.contains(&request) {
        return Plan::Grant;
    }
    if uses.len() >= limit.min(MAX_USAGE_LIMIT) {
        return Plan::Refuse;
    }
    uses.push(request);
    let mut noted = data.clone();
    noted.insert(USED_BY.to_owned(), bytes(&uses.join(",")));
    if uses.len() >= limit {
        let end = rfc3339(now + FINAL_FETCH_PERIOD);
        // Timestamps in this format sort as text; an earlier expiration is kept.
        let sooner = text(data, EXPIRATION).filter(|known| known.ends_with('Z') && *known < end);
        noted.insert(EXPIRATION.to_owned(), bytes(&sooner.unwrap_or(end)));
    }
    Plan::Note(noted)
}

fn text(data: &Data, key: &str) -> Option<String> {
    data.get(key).map(|bytes| String::from_utf8_lossy(&bytes.0).into_owned())
}

fn bytes(text: &str) -> ByteString {
    ByteString(text.as_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

    fn data(pairs: &[(&str, &str)]) -> Data {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), bytes(value))).collect()
    }

    fn noted(before: &Data, request: &str) -> Data {
        match plan(before, request, NOW) {
            Plan::Note(after) => after,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn token_without_limit_is_not_counted() {
        assert_eq!(plan(&data(&[("token-id", "abcdef")]), "a", NOW), Plan::Grant);
    }

    #[test]
    fn each_request_counts_once_until_the_limit() {
        let first = noted(&data(&[(USAGE_LIMIT, "2")]), "a");
        assert_eq!((text(&first, USED_BY).as_deref(), text(&first, EXPIRATION)), (Some("a"), None));
        assert_eq!(plan(&first, "a", NOW), Plan::Grant, "the approver may have been interrupted");
        let second = noted(&first, "b");
        assert_eq!(text(&second, USED_BY).as_deref(), Some("a,b"));
        assert_eq!(text(&second, EXPIRATION).as_deref(), Some("2027-01-15T08:10:00Z"));
        assert_eq!(plan(&second, "b", NOW), Plan::Grant);
        assert_eq!(plan(&second, "c", NOW), Plan::Refuse);
    }

    #[test]
    fn earlier_expiration_is_kept() {
        let end = |before| text(&noted(&data(&[(USAGE_LIMIT, "1"), (EXPIRATION, before)]), "a"), EXPIRATION);
        assert_eq!(end("2027-01-15T08:05:00Z").as_deref(), Some("2027-01-15T08:05:00Z"));
        assert_eq!(end("2030-01-01T00:00:00Z").as_deref(), Some("2027-01-15T08:10:00Z"));
        assert_eq!(end("soon").as_deref(), Some("2027-01-15T08:10:00Z"));
    }

    #[test]
    fn unreadable_limit_admits_no_request() {
        for limit in ["0", "", "many", "-1"] {
            assert_eq!(plan(&data(&[(USAGE_LIMIT, limit)]), "a", NOW), Plan::Refuse, "{limit}");
        }
    }
}
