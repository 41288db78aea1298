//! Draws the plan of a round from the seed. Pure.

use std::time::Duration;

use coracle_base::Rng;

/// The store under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Engine {
    Disk,
    Etcd,
}

impl Engine {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Engine::Disk => "disk",
            Engine::Etcd => "etcd",
        }
    }
}

/// How the server ends in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Kill,
    /// SIGTERM: the server answers requests in flight, and these responses are checked as well.
    Terminate,
}

/// One round, from the start of the server to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RoundPlan {
    /// If set, a start before the one that serves is killed after this time, so that recovery is interrupted.
    pub(crate) killed_start: Option<Duration>,
    pub(crate) has_controllers: bool,
    /// True if the server listens at another port than before. The Service `kubernetes` and all other initial objects
    /// of a cluster then have a new revision, and watches of their kinds get 410 Gone.
    pub(crate) has_new_port: bool,
    /// Time from the first write until etcd is killed and restarted.
    pub(crate) etcd_kill: Option<Duration>,
    /// Time that writers write before the server ends.
    pub(crate) writing: Duration,
    pub(crate) end: End,
    /// True if etcd is killed together with the server.
    pub(crate) ends_etcd: bool,
    /// True if the server is restarted on files from the middle of the round, as if the disk had lost later writes.
    /// Tests the torture test itself.
    pub(crate) loses_writes: bool,
}

/// Time that writers write, in milliseconds: long enough for the first write to start, short enough for many rounds.
pub(crate) const WRITING_MS: (u64, u64) = (50, 1500);

/// Time until an interrupted start is killed, in milliseconds. The server starts to read the log within the shortest.
const KILLED_START_MS: (u64, u64) = (1, 400);

impl RoundPlan {
    pub(crate) fn draw(engine: Engine, rng: &mut Rng) -> Self {
        let writing = between(rng, WRITING_MS);
        let killed_start = rng.one_in(6).then(|| between(rng, KILLED_START_MS));
        let (has_controllers, is_kill) = (rng.one_in(2), !rng.one_in(10));
        let is_etcd = engine == Engine::Etcd;
        let etcd_kill = (is_etcd && rng.one_in(4)).then(|| writing.mul_f64(0.5));
        // An orderly shutdown needs etcd.
        let ends_etcd = is_etcd && is_kill && rng.one_in(4);
        let has_new_port = rng.one_in(12);
        let end = if is_kill { End::Kill } else { End::Terminate };
        let loses_writes = false;
        Self { killed_start, has_controllers, has_new_port, etcd_kill, writing, end, ends_etcd, loses_writes }
    }

    /// A round on disk that loses acknowledged writes.
    pub(crate) fn losing_writes() -> Self {
        Self {
            killed_start: None,
            has_controllers: false,
            has_new_port: false,
            etcd_kill: None,
            writing: Duration::from_millis(WRITING_MS.1),
            end: End::Kill,
            ends_etcd: false,
            loses_writes: true,
        }
    }
}

fn between(rng: &mut Rng, (least, most): (u64, u64)) -> Duration {
    Duration::from_millis(least + rng.below(most - least + 1))
}
