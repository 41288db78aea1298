//! One run, from its seed to its violations.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use coracle_base::Rng;
use futures_util::future::join_all;

use crate::faults::MAX_REQUESTS;
use crate::state::State;
use crate::story::Story;
use crate::world::World;

/// One run in this many has a second namespace. Runs are small, because most faults need little to show:
/// many small runs find more than few large ones.
const SECOND_STORY: u64 = 16;

/// The maximum number of namespaces of a run.
pub(crate) const MAX_STORIES: u64 = 2;

/// Time limit for reaching the desired state once there are no more faults. Kubernetes' delay after many
/// failures is 1000 seconds.
const PATIENCE: Duration = Duration::from_secs(1500);

/// Interval of the checks.
const PAUSE: Duration = Duration::from_secs(1);

/// Time until status updates are complete after the desired state is reached: a node that came back last is
/// marked unready until it has sent heartbeats for a while.
const AFTERWARDS: Duration = Duration::from_secs(45);

/// Time after that in which nothing may change.
const REST: Duration = Duration::from_secs(20);

/// Maximum number of lines printed for one failure.
const MAX_LINES: usize = 20;

/// The result of a run.
pub(crate) struct Outcome {
    /// The digest and the number of all requests.
    pub(crate) digest: u64,
    pub(crate) requests: u64,
    /// Violations.
    pub(crate) wrong: Vec<String>,
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
    let outcome = catch_unwind(AssertUnwindSafe(|| runtime.block_on(live(Rng::seeded(seed), trace))));
    let mut outcome = outcome.unwrap_or(Outcome { digest: 0, requests: 0, wrong: Vec::new() });
    outcome.wrong.extend(PANICS.take());
    outcome.wrong.truncate(MAX_LINES);
    outcome
}

async fn live(mut rng: Rng, trace: bool) -> Outcome {
    let mut world = World::begin(&mut rng, trace).await;
    let count = if rng.one_in(SECOND_STORY) { MAX_STORIES } else { 1 };
    let stories: Vec<_> = (0..count).map(|number| Story::new(&world, number, rng.fork())).collect();
    let told = join_all(stories.into_iter().map(Story::tell));
    let trouble = world.trouble_nodes();
    let stories = tokio::select! {
        biased;
        stories = told => Some(stories),
        () = trouble => unreachable!("it goes on for ever"),
        () = world.disturb() => unreachable!("it goes on for ever"),
        () = tokio::time::sleep(PATIENCE) => None,
    };
    world.calm().await;
    let mut wrong = match stories {
        Some(stories) => settle(&world, &stories).await,
        None => vec!["people wait for something that never happens".to_owned()],
    };
    wrong.extend(world.history.check());
    let (digest, requests) = world.end().await;
    if requests >= MAX_REQUESTS {
        wrong.push(format!("{requests} requests did not bring it to an end"));
    }
    Outcome { digest, requests, wrong }
}

/// Waits until the desired state of the stories is reached and stays so. Returns the differences.
async fn settle(world: &World, stories: &[Story]) -> Vec<String> {
    let wrong = || world.history.look(|state| all_wrong(stories, state));
    let came_true = async {
        // Twice, because requests in flight may have had further effects.
        for _ in 0..2 {
            while !wrong().is_empty() {
                tokio::time::sleep(PAUSE).await;
            }
            tokio::time::sleep(AFTERWARDS).await;
            if wrong().is_empty() {
                return;
            }
        }
    };
    if tokio::time::timeout(PATIENCE, came_true).await.is_err() {
        return wrong();
    }
    let then = world.history.len();
    tokio::time::sleep(REST).await;
    let mut wrong = wrong();
    wrong.extend(world.history.since(then).into_iter().map(|what| format!("no rest: {what}")));
    wrong
}

fn all_wrong(stories: &[Story], state: &State) -> Vec<String> {
    stories.iter().flat_map(|story| story.wrong(state)).collect()
}
