//! One run, from its seed to its violations.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use coracle_base::Rng;
use futures_util::future::join_all;

use crate::control_plane::ControlPlane;
use crate::faults::MAX_REQUESTS;
use crate::scenario::ScenarioRun;
use crate::state::State;

/// One run in this many has a second namespace. Runs are small, because most faults need little to show:
/// many small runs find more than few large ones.
const SECOND_SCENARIO: u64 = 16;

/// The maximum number of namespaces of a run.
pub(crate) const MAX_SCENARIOS: u64 = 2;

/// Time limit for reaching the desired state once there are no more faults. Kubernetes' delay after many
/// failures is 1000 seconds.
const PATIENCE: Duration = Duration::from_secs(1500);

/// Interval of the checks.
const PAUSE: Duration = Duration::from_secs(1);

/// Time until status updates are complete after the desired state is reached: a node that came back last is
/// marked unready until it has sent heartbeats for a while.
const STATUS_DELAY: Duration = Duration::from_secs(45);

/// Time after that in which nothing may change.
const QUIET_PERIOD: Duration = Duration::from_secs(20);

/// Maximum number of lines printed for one failure.
const MAX_LINES: usize = 20;

/// The result of a run.
pub(crate) struct Outcome {
    /// The digest and the number of all requests.
    pub(crate) digest: u64,
    pub(crate) requests: u64,
    /// Violations.
    pub(crate) violations: Vec<String>,
}

thread_local! {
    /// Panics on this thread, including caught ones.
    static PANICS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Records panics, because controllers survive them but a run must not.
pub(crate) fn remember_panics() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        PANICS.with_borrow_mut(|panics| panics.push(panic.to_string()));
        before(panic);
    }));
}

/// Runs one seed on its own clock.
pub(crate) fn simulate(seed: u64, trace: bool) -> Outcome {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_time().start_paused(true).build().unwrap();
    let outcome =
        catch_unwind(AssertUnwindSafe(|| runtime.block_on(run_control_plane(Rng::seeded(seed), trace))));
    let mut outcome = outcome.unwrap_or(Outcome { digest: 0, requests: 0, violations: Vec::new() });
    outcome.violations.extend(PANICS.take());
    outcome.violations.truncate(MAX_LINES);
    outcome
}

async fn run_control_plane(mut rng: Rng, trace: bool) -> Outcome {
    let mut control_plane = ControlPlane::begin(&mut rng, trace).await;
    let count = if rng.one_in(SECOND_SCENARIO) { MAX_SCENARIOS } else { 1 };
    let scenarios: Vec<_> =
        (0..count).map(|number| ScenarioRun::new(&control_plane, number, rng.fork())).collect();
    let running = join_all(scenarios.into_iter().map(ScenarioRun::run));
    let disturb_nodes = control_plane.disturb_nodes();
    let scenarios = tokio::select! {
        biased;
        scenarios = running => Some(scenarios),
        () = disturb_nodes => unreachable!("it runs for ever"),
        () = control_plane.disturb() => unreachable!("it runs for ever"),
        () = tokio::time::sleep(PATIENCE) => None,
    };
    control_plane.end_disturbances().await;
    let mut violations = match scenarios {
        Some(scenarios) => settle(&control_plane, &scenarios).await,
        None => vec!["a scenario waits for something that never happens".to_owned()],
    };
    violations.extend(control_plane.history.check());
    let (digest, requests) = control_plane.end().await;
    if requests >= MAX_REQUESTS {
        violations.push(format!("{requests} requests did not bring it to an end"));
    }
    Outcome { digest, requests, violations }
}

/// Waits until the desired state of the scenarios is reached and stays so. Returns the differences.
async fn settle(control_plane: &ControlPlane, scenarios: &[ScenarioRun]) -> Vec<String> {
    let differences = || control_plane.history.with_state(|state| all_differences(scenarios, state));
    let converged = async {
        // Twice, because requests in flight may have had further effects.
        for _ in 0..2 {
            while !differences().is_empty() {
                tokio::time::sleep(PAUSE).await;
            }
            tokio::time::sleep(STATUS_DELAY).await;
            if differences().is_empty() {
                return;
            }
        }
    };
    if tokio::time::timeout(PATIENCE, converged).await.is_err() {
        return differences();
    }
    let length_before = control_plane.history.len();
    tokio::time::sleep(QUIET_PERIOD).await;
    let mut violations = differences();
    violations.extend(
        control_plane.history.since(length_before).into_iter().map(|what| format!("no quiescence: {what}")),
    );
    violations
}

fn all_differences(scenarios: &[ScenarioRun], state: &State) -> Vec<String> {
    scenarios.iter().flat_map(|scenario| scenario.differences(state)).collect()
}
