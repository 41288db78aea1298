//! Health checks, served at `/livez`, `/readyz` and `/healthz`.
//!
//! Paths, parameters and texts are kube-apiserver's (`pkg/server/healthz` of k8s.io/apiserver), with one difference:
//! the reason of a failure is in the log, and in responses to the server's operator. Other clients never receive it,
//! not even in the response of a single check.

mod probe;
mod report;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

pub(crate) use probe::{Probe, Wishes};
pub(crate) use report::{Reasons, Report};

/// The timeout of one check, that of kube-apiserver for etcd. A check that takes longer has failed: the prober has a
/// timeout of its own, and a response is more useful to it than a timeout.
const CHECK_TIMEOUT: Duration = Duration::from_secs(2);

/// The check that fails from the beginning of the shutdown, for `/readyz` only: the server still works, but must not
/// get new requests.
const SHUTDOWN_CHECK: &str = "shutdown";

/// The health check of the store. [`STORE_CHECK_ALIAS`] is its name in kube-apiserver.
const STORE_CHECK: &str = "store";

/// The name of the store's check in kube-apiserver, accepted in paths and in `exclude`.
const STORE_CHECK_ALIAS: &str = "etcd";

/// Why a check failed, and which probes fail with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unhealthy {
    /// The server works but should get no requests, or only some: only `/readyz` fails.
    NotReady(String),
    /// The server does not work, and a restart may help: all probes fail.
    Failed(String),
}

impl Unhealthy {
    /// The reason, if `probe` fails by it.
    fn reason(self, probe: Probe) -> Option<String> {
        match self {
            Unhealthy::NotReady(_) if probe != Probe::Ready => None,
            Unhealthy::NotReady(reason) | Unhealthy::Failed(reason) => Some(reason),
        }
    }
}

type Outcome = Result<(), Unhealthy>;
type Check = dyn Fn() -> Pin<Box<dyn Future<Output = Outcome> + Send>> + Send + Sync;

/// The checks of a server. Cheap to clone.
#[derive(Clone)]
pub struct HealthChecks {
    checks: Vec<(&'static str, Arc<Check>)>,
    shutting_down: CancellationToken,
}

impl HealthChecks {
    /// Creates checks with `ping` only, which shows that the server responds. The server is not ready any more once
    /// `shutting_down` is cancelled.
    pub fn new(shutting_down: CancellationToken) -> Self {
        let mut health = Self { checks: Vec::new(), shutting_down };
        health.register("ping", async || Ok(()));
        health
    }

    /// Adds a check. The reason of a failure is logged and returned to the server's operator.
    pub fn register<F>(&mut self, name: &'static str, check: impl Fn() -> F + Send + Sync + 'static)
    where
        F: Future<Output = Result<(), Unhealthy>> + Send + 'static,
    {
        self.checks.push((name, Arc::new(move || Box::pin(check()))));
    }

    /// Runs the checks of a probe, except the excluded ones.
    pub(crate) async fn run(&self, probe: Probe, excluded: &[&str], reasons: Reasons) -> Report {
        let mut report = Report::new(probe, reasons);
        let excluded: Vec<&str> = excluded.iter().map(|name| Self::canonical_name(name)).collect();
        for (name, check) in &self.checks {
            if excluded.contains(name) {
                report.excluded(name);
            } else {
                report.checked(name, failure(probe, name, check).await);
            }
        }
        if probe == Probe::Ready {
            if excluded.contains(&SHUTDOWN_CHECK) {
                report.excluded(SHUTDOWN_CHECK);
            } else {
                report.checked(SHUTDOWN_CHECK, self.shutdown());
            }
        }
        report.note_unmatched(&excluded);
        report
    }

    /// Resolves the alias of a check to its name.
    pub(crate) fn canonical_name(name: &str) -> &str {
        if name == STORE_CHECK_ALIAS { STORE_CHECK } else { name }
    }

    /// Runs one check and returns the reason of its failure, if it failed; `None` if the probe has no such check.
    pub(crate) async fn run_one(&self, probe: Probe, name: &str) -> Option<Result<(), String>> {
        let reason = if probe == Probe::Ready && name == SHUTDOWN_CHECK {
            self.shutdown()
        } else {
            let name = Self::canonical_name(name);
            let (name, check) = self.checks.iter().find(|(known, _)| *known == name)?;
            failure(probe, name, check).await
        };
        Some(reason.map_or(Ok(()), Err))
    }

    fn shutdown(&self) -> Option<String> {
        self.shutting_down.is_cancelled().then(|| "process is shutting down".to_owned())
    }
}

impl fmt::Debug for HealthChecks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.checks.iter().map(|(name, _)| name)).finish()
    }
}

/// Runs a check and returns why `probe` fails by it, if it does.
async fn failure(probe: Probe, name: &str, check: &Arc<Check>) -> Option<String> {
    let reason = match tokio::time::timeout(CHECK_TIMEOUT, check()).await {
        Ok(Ok(())) => return None,
        Ok(Err(unhealthy)) => unhealthy.reason(probe)?,
        Err(_) => format!("no result within {} s", CHECK_TIMEOUT.as_secs()),
    };
    tracing::warn!(check = name, reason, "health check failed");
    Some(reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn health() -> (HealthChecks, CancellationToken) {
        let shutting_down = CancellationToken::new();
        (HealthChecks::new(shutting_down.clone()), shutting_down)
    }

    #[tokio::test]
    async fn shutdown_fails_readyz_only() {
        let (health, shutting_down) = health();
        for (probe, healthy_after) in [(Probe::Live, true), (Probe::Health, true), (Probe::Ready, false)] {
            assert!(health.run(probe, &[], Reasons::Withheld).await.is_healthy(), "{probe:?} before");
            let stopping = HealthChecks { shutting_down: cancelled(), ..health.clone() };
            assert_eq!(
                stopping.run(probe, &[], Reasons::Withheld).await.is_healthy(),
                healthy_after,
                "{probe:?} after"
            );
        }
        shutting_down.cancel();
        assert_eq!(
            health.run_one(Probe::Ready, SHUTDOWN_CHECK).await,
            Some(Err("process is shutting down".to_owned()))
        );
        assert_eq!(health.run_one(Probe::Live, SHUTDOWN_CHECK).await, None);
        assert!(health.run(Probe::Ready, &[SHUTDOWN_CHECK], Reasons::Withheld).await.is_healthy());
    }

    fn cancelled() -> CancellationToken {
        let token = CancellationToken::new();
        token.cancel();
        token
    }

    #[tokio::test]
    async fn excluded_check_is_not_run() {
        let (mut health, _shutting_down) = health();
        health.register("faulty", async || panic!("it was excluded"));
        assert!(health.run(Probe::Live, &["faulty"], Reasons::Withheld).await.is_healthy());
    }

    #[tokio::test(start_paused = true)]
    async fn check_that_hangs_has_failed() {
        let (mut health, _shutting_down) = health();
        health.register("hanging", std::future::pending);
        let late = "no result within 2 s".to_owned();
        assert_eq!(health.run_one(Probe::Live, "hanging").await, Some(Err(late)));
        assert_eq!(health.run_one(Probe::Live, "ping").await, Some(Ok(())));
        assert_eq!(health.run_one(Probe::Live, "unknown").await, None);
    }

    #[tokio::test]
    async fn check_that_is_not_ready_fails_only_readyz() {
        let (mut health, _shutting_down) = health();
        health.register("store", async || Err(Unhealthy::NotReady("full".to_owned())));
        for (probe, healthy) in [(Probe::Live, true), (Probe::Health, true), (Probe::Ready, false)] {
            assert_eq!(health.run(probe, &[], Reasons::Withheld).await.is_healthy(), healthy, "{probe:?}");
        }
        assert_eq!(health.run_one(Probe::Ready, "store").await, Some(Err("full".to_owned())));
    }
}
