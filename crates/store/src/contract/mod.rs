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
const WAIT_LIMIT: Duration = Duration::from_secs(60);

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
            every_write_creates_one_revision,
            key_has_create_and_mod_revision,
            recreated_key_starts_at_version_one,
            put_expecting_absence_of_existing_key_conflicts,
            write_with_stale_revision_conflicts,
            conflict_contains_the_found_entry,
            rejected_write_changes_nothing,
            delete_of_missing_key_creates_no_revision,
            transaction_is_atomic,
            transaction_returns_previous_entries,
            check_of_an_unwritten_key_is_enforced,
            prefix_is_deleted_at_one_revision,
            overlapping_operations_are_rejected,
            oversized_requests_are_rejected_without_effect,
            arbitrary_bytes_are_valid_keys_and_values,
            stamped_value_contains_its_own_revision,
            concurrent_updates_are_not_lost,
            update_can_keep_or_delete,
        ]);
        $crate::contract_cases!($fixture, reading: [
            ranges_are_ordered_and_paginated,
            range_is_limited_to_its_prefix,
            entries_beyond_the_limit_are_counted,
            past_revisions_are_immutable,
            future_revisions_are_rejected,
            range_is_one_snapshot,
        ]);
        $crate::contract_cases!($fixture, watching: [
            events_are_ordered_with_previous_entries,
            watch_delivers_history_before_live_events,
            watch_from_future_revision_waits,
            watch_is_limited_to_its_prefix,
            watch_in_any_scope_matches_every_scope,
            transaction_is_delivered_completely,
            watch_with_many_writers_has_no_gaps_or_duplicates,
            available_events_are_returned_without_waiting,
            slow_watcher_receives_all_kept_events,
            watcher_overtaken_by_compaction_gets_an_error,
            progress_follows_all_earlier_events,
            dropped_watch_is_removed,
            dropped_wait_loses_no_event,
        ]);
        $crate::contract_cases!($fixture, compaction: [
            compacted_revisions_are_rejected_with_the_oldest_kept,
            compaction_keeps_current_entries,
            compaction_to_an_earlier_revision_has_no_effect,
            compaction_to_a_future_revision_is_rejected,
            watch_from_the_oldest_revision_works,
        ]);
        $crate::contract_cases!($fixture, expiry: [
            key_is_deleted_when_its_ttl_expires,
            rewritten_key_does_not_expire,
        ]);
        $crate::contract_cases!($fixture, scopes: [
            scopes_are_isolated,
            scope_names_with_slashes_are_rejected,
            keys_in_a_scope_are_relative,
            range_cannot_leave_its_scope,
            scope_is_dropped_in_one_call,
            scopes_share_one_revision_sequence,
            guard_in_one_scope_applies_to_commits_in_another,
        ]);
        $crate::contract_cases!($fixture, lifecycle: [
            stats_match_the_contents,
            closed_store_rejects_all_operations,
        ]);
    };
}

/// Cases that hold for our own engines and for etcd releases without known bugs: etcd before 3.4.34 and 3.5.16 can
/// lose the event of a deletion at the compacted revision (etcd issue 18089).
#[macro_export]
macro_rules! contract_suite_exact {
    ($fixture:path) => {
        $crate::contract_cases!($fixture, compaction: [
            deletion_at_the_oldest_revision_is_delivered,
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
    tokio::time::timeout(WAIT_LIMIT, watch.next()).await.expect("the watch delivers something")
}

/// Returns the next `count` events, formatted by [`shown`].
pub(crate) async fn take(watch: &mut Watch, count: usize) -> Vec<String> {
    let mut events = Vec::new();
    for _ in 0..count {
        events.push(shown(&next(watch).await.expect("the watch continues")));
    }
    events
}

/// Requests progress; returns all events before it, and its revision.
pub(crate) async fn drain(watch: &mut Watch) -> (Vec<String>, Revision) {
    watch.progress_handle().request();
    let mut events = Vec::new();
    loop {
        match next(watch).await.expect("the watch continues") {
            WatchEvent::Progress { revision } => return (events, revision),
            event => events.push(shown(&event)),
        }
    }
}
