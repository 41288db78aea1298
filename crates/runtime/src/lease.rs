//! Leader election: a lease that one of several replicas holds.
//!
//! The lease is a `Lease` object that its holder renews. The other replicas poll it. Expiry does not depend on the
//! timestamps in the object, which another machine's clock wrote, but on how long the object has not changed by the
//! replica's own monotonic clock, which cannot be set. The durations are those of kube-controller-manager and
//! kube-scheduler.
//!
//! Each acquisition begins a [`LeaseTerm`]. The holder's writes can be bound to the term, so that delayed requests
//! change nothing after another replica has acquired the lease.

use std::time::Duration;

use coracle_base::{Backoff, Clock, Rng, Timestamp};
use coracle_meta::time::MicroTime;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Client;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::key::ObjectKey;
use crate::objects::{Objects, Written};

/// How long a lease that is not renewed stays held.
const LEASE_DURATION: Duration = Duration::from_secs(15);

/// How long the holder continues without a successful renewal. Shorter than [`LEASE_DURATION`], so that the holder
/// stops before another replica starts.
const RENEW_DEADLINE: Duration = Duration::from_secs(10);

/// Interval of renewals, and of attempts to acquire.
const RETRY_PERIOD: Duration = Duration::from_secs(2);

/// A lease for leader election.
pub struct LeaderLease {
    leases: Objects,
    key: ObjectKey,
    identity: String,
    clock: Clock,
    rng: Rng,
    /// The current term, or the last one.
    term: LeaseTerm,
}

/// A term of leadership: the time from acquiring the lease until losing it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaseTerm {
    /// The uid of the `Lease` object.
    pub uid: Box<str>,
    /// `leaseTransitions` of the lease: how often its holder has changed.
    pub transitions: u64,
}

/// Fields of a `Lease` that leader election uses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
struct Record {
    metadata: RecordMetadata,
    #[serde(default)]
    spec: RecordSpec,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RecordMetadata {
    resource_version: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RecordSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    holder_identity: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_duration_seconds: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    acquire_time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    renew_time: Option<String>,
    lease_transitions: u64,
}

/// Next step for a lease.
#[derive(Debug, PartialEq, Eq)]
enum Plan {
    Create,
    /// This replica holds it, or it is released or expired.
    Take,
    Wait,
}

/// A lease, and when it was first seen in this state.
struct Observed {
    record: Record,
    /// Measured with [`Clock::uptime`].
    since: Duration,
}

/// Decides on the next step; `now` is measured with [`Clock::uptime`].
fn plan(observed: Option<&Observed>, identity: &str, now: Duration) -> Plan {
    let Some(Observed { record, since }) = observed else { return Plan::Create };
    let holder = record.spec.holder_identity.as_deref().unwrap_or_default();
    let duration = record.spec.lease_duration_seconds.map_or(LEASE_DURATION, Duration::from_secs);
    if holder.is_empty() || holder == identity || now.saturating_sub(*since) >= duration {
        Plan::Take
    } else {
        Plan::Wait
    }
}

/// The spec of the lease after this replica acquires or renews it.
fn renewed(known: Option<&RecordSpec>, identity: &str, now: Timestamp) -> RecordSpec {
    let now = MicroTime(i64::try_from(now.as_millis()).unwrap_or(i64::MAX).saturating_mul(1000)).to_string();
    let ours = known.filter(|known| known.holder_identity.as_deref() == Some(identity));
    let transitions = known.map_or(0, |known| known.lease_transitions + u64::from(ours.is_none()));
    RecordSpec {
        holder_identity: Some(identity.to_owned()),
        lease_duration_seconds: Some(LEASE_DURATION.as_secs()),
        acquire_time: ours.and_then(|ours| ours.acquire_time.clone()).or_else(|| Some(now.clone())),
        renew_time: Some(now),
        lease_transitions: transitions,
    }
}

impl LeaderLease {
    /// Creates a handle for the lease at `key`. The identity must be unique among the replicas.
    pub fn new(client: &Client, key: ObjectKey, identity: impl Into<String>, clock: Clock) -> Self {
        let leases = Objects::of::<Lease>(client);
        let term = LeaseTerm::default();
        Self { leases, key, identity: identity.into(), clock, rng: Rng::from_entropy(), term }
    }

    /// Key of the `Lease` object.
    pub fn key(&self) -> &ObjectKey {
        &self.key
    }

    /// Identity under which this replica holds the lease.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// Waits until this replica acquires the lease, and returns the new term. Safe to drop; a lease acquired at that
    /// moment expires.
    pub async fn acquire(&mut self) -> LeaseTerm {
        let mut observed: Option<Observed> = None;
        let seed = self.rng.u64();
        let mut pause = Backoff::new(RETRY_PERIOD, RETRY_PERIOD * 2, Rng::seeded(seed));
        loop {
            match self.attempt(&mut observed).await {
                Ok(Some(term)) => {
                    self.term = term.clone();
                    return term;
                }
                Ok(None) => {}
                Err(error) => tracing::debug!(lease = %self.key, %error, "cannot acquire the lease"),
            }
            tokio::time::sleep(pause.next_delay()).await;
            pause.reset();
        }
    }

    /// Renews the lease until it is lost, or until `stop`, when it is released.
    pub async fn hold(&mut self, stop: &CancellationToken) {
        let mut observed = None;
        let mut renewed_at = self.clock.uptime();
        loop {
            let pause = tokio::time::sleep(RETRY_PERIOD);
            if stop.run_until_cancelled(pause).await.is_none() {
                return self.release().await;
            }
            let attempt = tokio::time::timeout(RETRY_PERIOD, self.attempt(&mut observed)).await;
            let now = self.clock.uptime();
            match attempt {
                Ok(Ok(Some(term))) if term == self.term => renewed_at = now,
                // Another replica holds it, or held it in the meantime: requests in flight belong to a term that is
                // over.
                Ok(Ok(_)) => return,
                Ok(Err(_)) | Err(_) if now.saturating_sub(renewed_at) >= RENEW_DEADLINE => return,
                Ok(Err(_)) | Err(_) => {}
            }
        }
    }

    /// Tries to acquire or renew the lease. Returns the term if this replica holds it now.
    async fn attempt(&self, observed: &mut Option<Observed>) -> kube::Result<Option<LeaseTerm>> {
        let found: Option<Record> = self.leases.get(&self.key).await?;
        let now = self.clock.uptime();
        *observed = found.map(|record| match observed.take() {
            Some(known) if known.record == record => known,
            _ => Observed { record, since: now },
        });
        let known = observed.as_ref().map(|observed| &observed.record);
        let spec = renewed(known.map(|record| &record.spec), &self.identity, self.clock.now());
        let written = match plan(observed.as_ref(), &self.identity, now) {
            Plan::Wait => return Ok(None),
            Plan::Create => {
                let body = json!({"metadata": {"name": self.key.name()}, "spec": spec});
                self.leases.create::<Written>(&self.key, &body).await
            }
            Plan::Take => self.write(known, &spec).await,
        };
        match written {
            // Another replica wrote first.
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(None),
            Ok(Written { metadata }) => {
                Ok(Some(LeaseTerm { uid: metadata.uid, transitions: spec.lease_transitions }))
            }
            Err(error) => Err(error),
        }
    }

    async fn write(&self, known: Option<&Record>, spec: &RecordSpec) -> kube::Result<Written> {
        let version = known.map(|known| known.metadata.resource_version.as_str()).unwrap_or_default();
        let metadata = json!({"name": self.key.name(), "resourceVersion": version});
        self.leases.replace(&self.key, &json!({"metadata": metadata, "spec": spec})).await
    }

    /// Clears the holder, so that another replica can acquire the lease at once.
    async fn release(&self) {
        let Ok(Some(record)) = self.leases.get::<Record>(&self.key).await else { return };
        if record.spec.holder_identity.as_deref() != Some(&*self.identity) {
            return;
        }
        let spec = RecordSpec {
            holder_identity: Some(String::new()),
            lease_duration_seconds: Some(1),
            ..record.spec.clone()
        };
        // If the release fails, the other replicas wait until the lease expires.
        drop(self.write(Some(&record), &spec).await);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(seconds * 1000)
    }

    fn observed(holder: &str, since: u64) -> Observed {
        let spec = RecordSpec {
            holder_identity: Some(holder.to_owned()),
            lease_duration_seconds: Some(15),
            ..RecordSpec::default()
        };
        Observed { record: Record { spec, ..Record::default() }, since: Duration::from_secs(since) }
    }

    #[test]
    fn lease_is_taken_when_released_or_expired() {
        let up = Duration::from_secs;
        assert_eq!(plan(None, "a", up(0)), Plan::Create);
        assert_eq!(plan(Some(&observed("a", 0)), "a", up(5)), Plan::Take);
        assert_eq!(plan(Some(&observed("b", 0)), "a", up(14)), Plan::Wait);
        assert_eq!(plan(Some(&observed("b", 0)), "a", up(15)), Plan::Take);
        assert_eq!(plan(Some(&observed("", 0)), "a", up(1)), Plan::Take);
    }

    #[test]
    fn lease_transitions_count_new_holders() {
        let first = renewed(None, "a", at(1));
        assert_eq!((first.lease_transitions, &first.acquire_time), (0, &first.renew_time));
        let again = renewed(Some(&first), "a", at(2));
        assert_eq!((again.lease_transitions, &again.acquire_time), (0, &first.acquire_time));
        assert_ne!(again.renew_time, first.renew_time);
        let other = renewed(Some(&again), "b", at(20));
        assert_eq!((other.lease_transitions, &other.acquire_time), (1, &other.renew_time));
    }
}
