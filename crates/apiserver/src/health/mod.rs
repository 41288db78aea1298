//! Named checks of whether the server works, served at `/livez`, `/readyz` and `/healthz`.
//!
//! Paths, parameters and texts are upstream's (`pkg/server/healthz` of k8s.io/apiserver),
//! with one difference: the reason of a failure is never in an answer, also not in that of a
//! single check; it is in the log.

mod probe;
mod report;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

pub(crate) use probe::{Probe, Wishes};
pub(crate) use report::Report;

/// How long one check may take, upstream's for etcd. One that takes longer has failed: whoever
/// asks has a deadline of its own and learns more from an answer than from silence.
const CHECK_TIMEOUT: Duration = Duration::from_secs(2);

/// The check that fails from the beginning of the shutdown on, of `/readyz` only: the server
/// still works, but nobody should send it anything new.
const SHUTDOWN_CHECK: &str = "shutdown";

type Outcome = Result<(), String>;
type Check = dyn Fn() -> Pin<Box<dyn Future<Output = Outcome> + Send>> + Send + Sync;

/// The checks of a server. Cheap to clone.
#[derive(Clone)]
pub struct HealthChecks {
    checks: Vec<(&'static str, Arc<Check>)>,
    shutting_down: CancellationToken,
}

impl HealthChecks {
    /// Only `ping`, which says that the server answers at all. It is not ready any more once
    /// `shutting_down` is cancelled.
    pub fn new(shutting_down: CancellationToken) -> Self {
        let mut health = Self { checks: Vec::new(), shutting_down };
        health.register("ping", async || Ok(()));
        health
    }

    /// Adds a check. The reason of a failure goes to the log.
    pub fn register<F>(&mut self, name: &'static str, check: impl Fn() -> F + Send + Sync + 'static)
    where
        F: Future<Output = Result<(), String>> + Send + 'static,
    {
        self.checks.push((name, Arc::new(move || Box::pin(check()))));
    }

    /// Carries out the checks of a probe, but for the excluded ones.
    pub(crate) async fn run(&self, probe: Probe, excluded: &[&str]) -> Report {
        let mut report = Report::new(probe);
        for (name, check) in &self.checks {
            if excluded.contains(name) {
                report.excluded(name);
            } else {
                report.checked(name, passes(name, check).await);
            }
        }
        if probe == Probe::Ready {
            if excluded.contains(&SHUTDOWN_CHECK) {
                report.excluded(SHUTDOWN_CHECK);
            } else {
                report.checked(SHUTDOWN_CHECK, self.is_staying());
            }
        }
        report.note_unmatched(excluded);
        report
    }

    /// Carries out one check and says whether it passed; none if the probe has no such check.
    pub(crate) async fn run_one(&self, probe: Probe, name: &str) -> Option<bool> {
        if probe == Probe::Ready && name == SHUTDOWN_CHECK {
            return Some(self.is_staying());
        }
        let (name, check) = self.checks.iter().find(|(known, _)| *known == name)?;
        Some(passes(name, check).await)
    }

    fn is_staying(&self) -> bool {
        !self.shutting_down.is_cancelled()
    }
}

impl fmt::Debug for HealthChecks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.checks.iter().map(|(name, _)| name)).finish()
    }
}

async fn passes(name: &str, check: &Arc<Check>) -> bool {
    let reason = match tokio::time::timeout(CHECK_TIMEOUT, check()).await {
        Ok(Ok(())) => return true,
        Ok(Err(reason)) => reason,
        Err(_) => format!("no result within {} s", CHECK_TIMEOUT.as_secs()),
    };
    tracing::warn!(check = name, reason, "health check failed");
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn health() -> (HealthChecks, CancellationToken) {
        let shutting_down = CancellationToken::new();
        (HealthChecks::new(shutting_down.clone()), shutting_down)
    }

    #[tokio::test]
    async fn only_readiness_ends_with_the_shutdown() {
        let (health, shutting_down) = health();
        for (probe, healthy_after) in [(Probe::Live, true), (Probe::Health, true), (Probe::Ready, false)] {
            assert!(health.run(probe, &[]).await.is_healthy(), "{probe:?} before");
            let stopping = HealthChecks { shutting_down: cancelled(), ..health.clone() };
            assert_eq!(stopping.run(probe, &[]).await.is_healthy(), healthy_after, "{probe:?} after");
        }
        shutting_down.cancel();
        assert_eq!(health.run_one(Probe::Ready, SHUTDOWN_CHECK).await, Some(false));
        assert_eq!(health.run_one(Probe::Live, SHUTDOWN_CHECK).await, None);
        assert!(health.run(Probe::Ready, &[SHUTDOWN_CHECK]).await.is_healthy());
    }

    fn cancelled() -> CancellationToken {
        let token = CancellationToken::new();
        token.cancel();
        token
    }

    #[tokio::test]
    async fn an_excluded_check_is_not_carried_out() {
        let (mut health, _shutting_down) = health();
        health.register("faulty", async || panic!("it was excluded"));
        assert!(health.run(Probe::Live, &["faulty"]).await.is_healthy());
    }

    #[tokio::test(start_paused = true)]
    async fn a_check_that_hangs_has_failed() {
        let (mut health, _shutting_down) = health();
        health.register("hanging", std::future::pending);
        assert_eq!(health.run_one(Probe::Live, "hanging").await, Some(false));
        assert_eq!(health.run_one(Probe::Live, "ping").await, Some(true));
        assert_eq!(health.run_one(Probe::Live, "unknown").await, None);
    }
}
