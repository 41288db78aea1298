//! Applies etcd's changes to the mirror.

use std::sync::Arc;

use bytes::Bytes;

use super::Mirror;
use crate::engine::etcd::follow::{End, Sink, Stop, revision_of};
use crate::engine::etcd::proto::Event;
use crate::engine::etcd::value;
use crate::error::Result;
use crate::index::Mirrored;
use crate::revision::Revision;

/// Applies the events that a follower reads.
pub(super) struct Apply {
    mirror: Arc<Mirror>,
}

impl Apply {
    pub(super) fn to(mirror: Arc<Mirror>) -> Self {
        Self { mirror }
    }
}

impl Sink for Apply {
    async fn take(&mut self, events: &[Event]) -> Result<(), Stop> {
        self.mirror.apply(events).map_err(|error| Stop::Ended(End::Refused(error.to_string())))
    }

    async fn reached(&mut self, revision: Revision, _was_requested: bool) -> Result<(), Stop> {
        self.mirror.advance(revision);
        Ok(())
    }
}

impl Mirror {
    /// Applies the events of complete revisions, and publishes them together.
    fn apply(&self, events: &[Event]) -> Result<()> {
        let mut changes = Vec::with_capacity(events.len());
        for event in events {
            changes.push((value::to_revision(revision_of(event)), self.change(event)?));
        }
        let now = self.local.clock.now();
        let mut working = self.lock();
        let mut commits = Vec::new();
        for of_one in changes.chunk_by(|(one, _), (other, _)| one == other) {
            let Some((revision, _)) = of_one.first() else { continue };
            commits.push(working.follow(*revision, now, of_one.iter().map(|(_, change)| change)));
        }
        self.local.publish(working.clone(), &commits);
        drop(working);
        if let Some(last) = commits.last() {
            self.reached.send_replace(last.revision);
        }
        Ok(())
    }

    /// Advances to a revision without further events.
    fn advance(&self, revision: Revision) {
        let mut working = self.lock();
        if revision <= working.revision() {
            return;
        }
        let commit = working.follow(revision, self.local.clock.now(), []);
        self.local.publish(working.clone(), &[commit]);
        drop(working);
        self.reached.send_replace(revision);
    }

    fn change(&self, event: &Event) -> Result<Mirrored> {
        let kv = event.kv.clone().unwrap_or_default();
        if event.is_delete() {
            // Copied, because the key would otherwise keep the whole response alive.
            let key = Bytes::copy_from_slice(&self.cluster.keyspace.strip(&kv.key)?);
            return Ok(Mirrored::Delete(key));
        }
        value::decode_parts(&kv, &self.cluster.keyspace).map(Mirrored::Put)
    }
}
