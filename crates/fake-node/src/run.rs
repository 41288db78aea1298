//! The state of one container at a given time: a function of its rules and its earliest start time.

use std::time::Duration;

use coracle_base::Timestamp;

use crate::duration::Delay;
use crate::rules::ContainerRules;
use crate::view::RestartPolicy;

/// Initial and maximum restart backoff, and the run time after which it is reset, as in the kubelet
/// (`backOffPeriod`, `MaxContainerBackOff`).
const FIRST_BACKOFF: Duration = Duration::from_secs(10);
const LAST_BACKOFF: Duration = Duration::from_secs(300);
const BACKOFF_RESET_AFTER: Duration = Duration::from_secs(600);

/// The termination of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exit {
    pub(crate) code: i32,
    pub(crate) started: Timestamp,
    pub(crate) finished: Timestamp,
}

/// The state of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Not started yet.
    Waiting,
    /// Waiting to be restarted, with the total backoff.
    BackingOff(Duration),
    Running {
        since: Timestamp,
    },
    Exited(Exit),
    /// The pod ended before the container started.
    Lost,
}

/// The state of a container with its restarts and readiness.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) state: State,
    pub(crate) restarts: u32,
    /// Termination of the previous run.
    pub(crate) last: Option<Exit>,
    pub(crate) ready: bool,
    /// The next time at which the state changes.
    pub(crate) next: Option<Timestamp>,
}

impl Run {
    /// A container that cannot start yet.
    pub(crate) fn waiting(next: Option<Timestamp>) -> Self {
        Self { state: State::Waiting, restarts: 0, last: None, ready: false, next }
    }

    /// A container that may start at `begin`.
    pub(crate) fn at(
        rules: &ContainerRules,
        policy: RestartPolicy,
        begin: Timestamp,
        now: Timestamp,
    ) -> Self {
        let (mut begin, mut restarts, mut last) = (begin, 0_u32, None);
        let (mut backoff, mut wait) = (None, Duration::ZERO);
        loop {
            if now < begin {
                let state = if last.is_some() { State::BackingOff(wait) } else { State::Waiting };
                return Self { state, restarts, last, ready: false, next: Some(begin) };
            }
            let finished = rules.finish_after.duration().map(|run| begin + run);
            let Some(finished) = finished.filter(|finished| *finished <= now) else {
                let (ready, changes_at) = readiness(rules, begin, now);
                let next = [changes_at, finished].into_iter().flatten().min();
                return Self { state: State::Running { since: begin }, restarts, last, ready, next };
            };
            let exit = Exit { code: exit_code(rules, restarts), started: begin, finished };
            if !is_restarted(policy, exit.code) {
                return Self { state: State::Exited(exit), restarts, last, ready: false, next: None };
            }
            // The first restart is immediate, later ones back off.
            let ran = finished.since(begin);
            wait = backoff.filter(|_| ran < BACKOFF_RESET_AFTER).unwrap_or_default();
            backoff = Some(if wait.is_zero() { FIRST_BACKOFF } else { (wait * 2).min(LAST_BACKOFF) });
            last = Some(exit);
            restarts = restarts.saturating_add(1);
            // At least a millisecond; otherwise a container with a run time of zero would loop for ever.
            begin = finished + wait.max(Duration::from_millis(1));
        }
    }

    /// The termination of a container that succeeded.
    pub(crate) fn completed(&self) -> Option<&Exit> {
        match &self.state {
            State::Exited(exit) if exit.code == 0 => Some(exit),
            _ => None,
        }
    }

    /// True if the container has ended.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.state, State::Exited(_) | State::Lost)
    }

    /// The state after the pod ended.
    pub(crate) fn stopped(self, code: i32, now: Timestamp) -> Self {
        let (state, last) = match (self.state, self.last) {
            (State::Running { since }, last) => (exited(code, since, now), last),
            (State::BackingOff(_) | State::Waiting, Some(last)) => (State::Exited(last), None),
            (State::Waiting, None) => (State::Lost, None),
            over => over,
        };
        Self { state, last, ready: false, next: None, restarts: self.restarts }
    }
}

fn exited(code: i32, started: Timestamp, finished: Timestamp) -> State {
    State::Exited(Exit { code, started, finished })
}

fn exit_code(rules: &ContainerRules, restarts: u32) -> i32 {
    let codes = &rules.exit_codes;
    let index = usize::try_from(restarts).unwrap_or(usize::MAX).min(codes.len().saturating_sub(1));
    codes.get(index).copied().unwrap_or_default()
}

fn is_restarted(policy: RestartPolicy, code: i32) -> bool {
    match policy {
        RestartPolicy::Always => true,
        RestartPolicy::OnFailure => code != 0,
        RestartPolicy::Never => false,
    }
}

/// True if a container that runs since `begin` is ready, and the time at which that changes.
fn readiness(rules: &ContainerRules, begin: Timestamp, now: Timestamp) -> (bool, Option<Timestamp>) {
    let Delay::After(ready_after) = rules.ready_after else { return (false, None) };
    let ready = begin + ready_after;
    if now < ready {
        return (false, Some(ready));
    }
    let Delay::After(unready_after) = rules.unready_after else { return (true, None) };
    let unready = ready + unready_after;
    if now < unready {
        return (true, Some(unready));
    }
    let Delay::After(unready_for) = rules.unready_for else { return (false, None) };
    let again = unready + unready_for;
    if now < again { (false, Some(again)) } else { (true, None) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    fn after(ms: u64) -> Delay {
        Delay::After(Duration::from_millis(ms))
    }

    fn rules(finish_after: Delay, exit_codes: &[i32]) -> ContainerRules {
        ContainerRules {
            finish_after,
            exit_codes: exit_codes.into(),
            ready_after: Delay::AT_ONCE,
            unready_after: Delay::Never,
            unready_for: Delay::Never,
        }
    }

    #[test]
    fn container_waits_runs_and_terminates() {
        let rules = rules(after(100), &[3]);
        let run = |now| Run::at(&rules, RestartPolicy::Never, at(1000), at(now));
        assert_eq!(run(999).next, Some(at(1000)));
        assert_eq!((run(1000).state, run(1000).next), (State::Running { since: at(1000) }, Some(at(1100))));
        let over = run(5000);
        assert_eq!(over.state, State::Exited(Exit { code: 3, started: at(1000), finished: at(1100) }));
        assert_eq!((over.next, over.restarts), (None, 0));
    }

    #[test]
    fn failing_container_is_restarted_until_it_succeeds() {
        let rules = rules(after(0), &[1, 1, 0]);
        let run = |now| Run::at(&rules, RestartPolicy::OnFailure, at(0), at(now));
        assert_eq!((run(0).restarts, run(0).next), (1, Some(at(1))), "restarted after a millisecond");
        let waiting = run(2);
        assert_eq!((waiting.state, waiting.restarts), (State::BackingOff(FIRST_BACKOFF), 2));
        assert_eq!(run(10_001).completed().map(|exit| exit.finished), Some(at(10_001)));
        assert_eq!(run(10_001).restarts, 2);
    }

    #[test]
    fn restart_backoff_doubles_up_to_its_limit() {
        let rules = rules(after(0), &[1]);
        let waits: Vec<_> = [2, 10_001, 30_001, 70_001, 150_001, 310_001, 610_001]
            .map(|now| match Run::at(&rules, RestartPolicy::Always, at(0), at(now)).state {
                State::BackingOff(wait) => wait.as_secs(),
                _ => 0,
            })
            .into();
        assert_eq!(waits, [10, 20, 40, 80, 160, 300, 300]);
    }

    #[test]
    fn readiness_changes_by_rule() {
        let rules = ContainerRules {
            ready_after: after(10),
            unready_after: after(20),
            unready_for: after(5),
            ..rules(Delay::Never, &[0])
        };
        let ready = |now| {
            let run = Run::at(&rules, RestartPolicy::Always, at(0), at(now));
            (run.ready, run.next.map(Timestamp::as_millis))
        };
        assert_eq!(ready(0), (false, Some(10)));
        assert_eq!(ready(10), (true, Some(30)));
        assert_eq!(ready(30), (false, Some(35)));
        assert_eq!(ready(35), (true, None));
    }

    #[test]
    fn stopped_container_keeps_its_start_time() {
        let run = Run::at(&rules(Delay::Never, &[0]), RestartPolicy::Always, at(5), at(9));
        assert_eq!(
            run.stopped(143, at(9)).state,
            State::Exited(Exit { code: 143, started: at(5), finished: at(9) })
        );
        assert_eq!(Run::waiting(None).stopped(143, at(9)).state, State::Lost);
    }
}
