//! Tokens by which nodes join: how often one may be used, and what becomes of it afterwards.
//!
//! A token may say that it is good for so many nodes. A use is a certificate that was approved because of
//! it, not a request that it came with: a node that joins makes several of those, and asks again when it
//! is interrupted. Who counts is the approver, which notes the request in the token's secret before it
//! approves; of two at the same time one fails by the secret's version and looks again. With its last
//! use a token gets an end in the near future, by which every authenticator knows it, and the node that
//! came last can still fetch what it asked for.

pub(crate) mod cleaner;

use std::collections::BTreeMap;
use std::time::Duration;

use coracle_base::Timestamp;
use coracle_runtime::informer::rfc3339;
use coracle_runtime::{ClusterId, ObjectKey, Objects, Written};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;

/// Where tokens are kept, and what their secrets are called and are of, as in upstream
/// (`k8s.io/cluster-bootstrap/token/api`).
pub const NAMESPACE: &str = "kube-system";
/// What comes before the id of a token in the name of its secret.
pub const NAME_PREFIX: &str = "bootstrap-token-";
/// The type of the secret.
pub const SECRET_TYPE: &str = "bootstrap.kubernetes.io/token";
/// What comes before the id of a token in the name of its user.
pub const USER_PREFIX: &str = "system:bootstrap:";

/// The key that says when a token ends.
pub const EXPIRATION: &str = "expiration";
/// The key that says for how many nodes a token is good. Ours; upstream's tools pass over it.
pub const USAGE_LIMIT: &str = "usage-limit";
/// The key under which the uids of the requests are noted that counted.
pub const USED_BY: &str = "used-by";

/// The most uses a token can be limited to: their uids must fit into its secret.
pub const MAX_USAGE_LIMIT: usize = 10_000;

/// How long a token stays after its last use, so that its node can fetch its certificate.
const LAST_FETCH: Duration = Duration::from_mins(10);

/// What a secret holds.
pub type Data = BTreeMap<String, ByteString>;

/// Whether a request is let in as far as its token is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It did not come with a token, the token has no limit, or the use is counted.
    Granted,
    /// The token has been used as often as it may.
    Refused,
}

/// What is to be done about one use.
#[derive(Debug, PartialEq, Eq)]
enum Plan {
    /// There is nothing to count, or it was counted.
    Grant,
    /// It is granted once the secret holds this.
    Note(Data),
    Refuse,
}

/// Counts the use of a token by a request for a certificate.
///
/// # Errors
/// If the server does not answer, or somebody else changed the secret meanwhile: then it is to be asked
/// again.
pub(crate) async fn admit(
    secrets: &Objects,
    cluster: &ClusterId,
    user: &str,
    request: &str,
    now: Timestamp,
) -> Result<Admission, kube::Error> {
    let Some(id) = user.strip_prefix(USER_PREFIX) else { return Ok(Admission::Granted) };
    let key = ObjectKey::namespaced(cluster.clone(), NAMESPACE, format!("{NAME_PREFIX}{id}"));
    // A token that is gone was good when the request came.
    let Some(mut secret) = secrets.get::<Secret>(&key).await? else { return Ok(Admission::Granted) };
    match plan(secret.data.as_ref().unwrap_or(&Data::new()), request, now) {
        Plan::Grant => Ok(Admission::Granted),
        Plan::Refuse => Ok(Admission::Refused),
        Plan::Note(data) => {
            secret.data = Some(data);
            // With its version, so that nobody else counts at the same time.
            secrets.replace::<Written>(&key, &secret).await?;
            Ok(Admission::Granted)
        }
    }
}

/// A limit that cannot be read lets nobody in: somebody wanted one.
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
        let end = rfc3339(now + LAST_FETCH);
        // Times in this form are in the order of their texts; a token that ends sooner keeps its end.
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
    fn a_token_without_a_limit_is_not_counted() {
        assert_eq!(plan(&data(&[("token-id", "abcdef")]), "a", NOW), Plan::Grant);
    }

    #[test]
    fn every_request_counts_once_until_none_is_left() {
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
    fn an_end_that_comes_sooner_stays() {
        let end = |before| text(&noted(&data(&[(USAGE_LIMIT, "1"), (EXPIRATION, before)]), "a"), EXPIRATION);
        assert_eq!(end("2027-01-15T08:05:00Z").as_deref(), Some("2027-01-15T08:05:00Z"));
        assert_eq!(end("2030-01-01T00:00:00Z").as_deref(), Some("2027-01-15T08:10:00Z"));
        assert_eq!(end("soon").as_deref(), Some("2027-01-15T08:10:00Z"));
    }

    #[test]
    fn a_limit_that_cannot_be_read_lets_nobody_in() {
        for limit in ["0", "", "many", "-1"] {
            assert_eq!(plan(&data(&[(USAGE_LIMIT, limit)]), "a", NOW), Plan::Refuse, "{limit}");
        }
    }
}
