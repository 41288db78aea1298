//! The contract that every engine must fulfil, as tests.
//!
//! An engine's test file names a function that opens an empty store, and gets one test per case:
//!
//! ```text
//! async fn fixture() -> Fixture { … }
//! coracle_store::contract_suite!(fixture);
//! coracle_store::contract_suite_exact!(fixture);
//! ```

#![expect(missing_docs, reason = "the name of a case describes it")]
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

pub mod compaction;
pub mod expiry;
pub mod lifecycle;
pub mod reading;
pub mod scopes;
pub mod watching;
pub mod writing;

use std::any::Any;
use std::time::Duration;

use coracle_base::ManualClock;

use crate::{Entry, Result, Revision, Store, Watch, WatchEvent};

/// Longer than any operation of a correct engine; a wait that reaches it fails the test.
const PATIENCE: Duration = Duration::from_secs(60);

/// A store under test.
pub struct Fixture {
    /// The store, initially empty.
    pub store: Store,
    time: PassTime,
    _guard: Box<dyn Any + Send>,
}

/// How time passes for the store under test.
pub enum PassTime {
    /// When this clock is advanced.
    Manual(ManualClock),
    /// In real time.
    Real,
}

impl Fixture {
    /// `guard` is dropped with the store: a directory, a server.
    pub fn new(store: Store, time: PassTime, guard: Box<dyn Any + Send>) -> Self {
        Self { store, time, _guard: guard }
    }

    /// Advances the clock or sleeps.
    pub async fn pass(&self, duration: Duration) {
        match &self.time {
            PassTime::Manual(clock) => clock.advance(duration),
            PassTime::Real => tokio::time::sleep(duration).await,
        }
    }
}

/// Defines one test per case for the engine that `$fixture` opens.
#[macro_export]
macro_rules! contract_suite {
    ($fixture:path) => {
        $crate::contract_cases!($fixture, writing: [
            every_write_makes_one_revision,
            a_key_carries_its_revisions,
            a_deleted_key_starts_over,
            must_not_exist,
            must_have_been_written_at,
            a_conflict_shows_what_was_found,
            a_refused_write_changes_nothing,
            deleting_what_is_not_there_makes_no_revision,
            a_transaction_is_all_or_nothing,
            a_transaction_reports_what_was_there,
            a_check_guards_a_key_it_does_not_write,
            a_prefix_is_deleted_at_one_revision,
            overlapping_operations_are_refused,
            limits_are_refused_before_anything_happens,
            any_bytes_are_keys_and_values,
            a_stamped_value_shows_its_own_revision,
            updates_of_many_writers_all_count,
            an_update_may_keep_or_delete,
        ]);
        $crate::contract_cases!($fixture, reading: [
            ranges_are_in_order_and_paged,
            a_range_stays_in_its_prefix,
            what_lies_beyond_the_limit_is_counted,
            the_past_stays_as_it_was,
            the_future_is_refused,
            a_range_is_one_snapshot,
        ]);
        $crate::contract_cases!($fixture, watching: [
            changes_come_in_order_with_what_was_before,
            history_comes_first_then_what_is_live,
            a_watch_may_start_in_the_future,
            only_the_prefix_is_watched,
            the_same_part_of_every_scope_is_watched,
            a_transaction_is_delivered_whole,
            no_gap_and_no_duplicate_among_many_writers,
            what_is_there_may_be_taken_without_waiting,
            a_slow_watcher_gets_everything_that_is_kept,
            a_watcher_that_compaction_has_passed_is_told,
            progress_follows_everything_before_it,
            a_dropped_watch_is_gone,
            a_dropped_wait_loses_nothing,
        ]);
        $crate::contract_cases!($fixture, compaction: [
            compacted_revisions_are_refused_with_the_oldest_kept,
            compaction_keeps_the_present,
            compaction_does_not_go_back,
            the_future_cannot_be_compacted,
            a_watch_may_start_at_the_oldest_revision,
        ]);
        $crate::contract_cases!($fixture, expiry: [
            a_key_is_deleted_when_its_time_has_come,
            a_key_written_again_lives_on,
        ]);
        $crate::contract_cases!($fixture, scopes: [
            scopes_do_not_see_each_other,
            names_that_could_lead_out_are_refused,
            everything_in_a_scope_is_relative,
            a_range_cannot_leave_its_scope,
            a_scope_is_dropped_in_one_call,
            scopes_share_one_sequence,
            a_guard_in_one_scope_binds_commits_in_another,
        ]);
        $crate::contract_cases!($fixture, lifecycle: [
            figures_follow_the_contents,
            a_closed_store_refuses_everything,
        ]);
    };
}

/// Cases that hold for our own engines and for etcd releases without known bugs: etcd before 3.4.34 and 3.5.16 can
/// lose the event of a deletion at the compacted revision (etcd issue 18089).
#[macro_export]
macro_rules! contract_suite_exact {
    ($fixture:path) => {
        $crate::contract_cases!($fixture, compaction: [
            a_deletion_at_the_oldest_revision_is_still_delivered,
        ]);
    };
}

/// Internal; not for direct use.
#[doc(hidden)]
#[macro_export]
macro_rules! contract_cases {
    ($fixture:path, $group:ident: [$($case:ident),* $(,)?]) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let fixture = $fixture().await;
                $crate::contract::$group::$case(&fixture).await;
                fixture.store.close().await.unwrap();
            }
        )*
    };
}

/// Formats an event for comparison: `+key=value@revision` or `-key@revision`, followed by `<value` if there was a
/// previous value.
pub(crate) fn shown(event: &WatchEvent) -> String {
    let before = |previous: &Option<Entry>| {
        previous.as_ref().map_or(String::new(), |entry| format!("<{}", text(entry)))
    };
    match event {
        WatchEvent::Put { entry, previous } => {
            format!("+{}={}@{}{}", key(entry), text(entry), entry.mod_revision(), before(previous))
        }
        WatchEvent::Delete { key, revision, previous } => {
            format!("-{}@{revision}{}", String::from_utf8_lossy(key), before(previous))
        }
        WatchEvent::Progress { revision } => format!("progress@{revision}"),
    }
}

pub(crate) fn key(entry: &Entry) -> String {
    String::from_utf8_lossy(entry.key()).into_owned()
}

pub(crate) fn text(entry: &Entry) -> String {
    String::from_utf8_lossy(&entry.value_bytes()).into_owned()
}

/// Returns the next event; panics if none arrives.
pub(crate) async fn next(watch: &mut Watch) -> Result<WatchEvent> {
    tokio::time::timeout(PATIENCE, watch.next()).await.expect("the watch delivers something")
}

/// Returns the next `count` events, formatted by [`shown`].
pub(crate) async fn take(watch: &mut Watch, count: usize) -> Vec<String> {
    let mut events = Vec::new();
    for _ in 0..count {
        events.push(shown(&next(watch).await.expect("the watch goes on")));
    }
    events
}

/// Requests progress; returns all events before it, and its revision.
pub(crate) async fn drain(watch: &mut Watch) -> (Vec<String>, Revision) {
    watch.progress_handle().request();
    let mut events = Vec::new();
    loop {
        match next(watch).await.expect("the watch goes on") {
            WatchEvent::Progress { revision } => return (events, revision),
            event => events.push(shown(&event)),
        }
    }
}
