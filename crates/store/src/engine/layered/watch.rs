//! Watches of keys that may be in the base: the first write of one is an update, and its whiteout is a deletion.

use std::sync::Arc;

use super::{Base, Layered, is_whiteout};
use crate::engine::BoxFuture;
use crate::entry::Entry;
use crate::error::{Error, Result};
use crate::watch::{Watch, WatchEvent, WatchRequest, WatchSource};

impl Layered {
    pub(super) async fn start_watch(&self, request: WatchRequest) -> Result<Watch> {
        if self.base.keys(&request.prefix).is_empty() {
            return self.own.watch(request).await;
        }
        // A watcher that has not read the base would never receive its entries.
        if let Some(requested) = request.from.filter(|from| *from <= self.base.revision()) {
            return Err(Error::Compacted { requested, oldest: self.base.revision().next() });
        }
        let watch = self.own.watch(request).await?;
        let progress = watch.progress_handle();
        Ok(Watch::new(Box::new(Source { watch, base: self.base.clone() }), progress))
    }
}

struct Source {
    watch: Watch,
    base: Arc<dyn Base>,
}

impl WatchSource for Source {
    fn next(&mut self) -> BoxFuture<'_, Result<WatchEvent>> {
        // Safe to drop: an event taken from the watch is either returned or irrelevant to the reader.
        Box::pin(async {
            loop {
                let event = self.watch.next().await?;
                if let Some(event) = shown_over(&*self.base, event) {
                    return Ok(event);
                }
            }
        })
    }

    fn try_next(&mut self) -> Option<Result<WatchEvent>> {
        loop {
            let visible = self.watch.try_next()?.map(|event| shown_over(&*self.base, event));
            if let Some(visible) = visible.transpose() {
                return Some(visible);
            }
        }
    }
}

/// Translates an event of a scope's own keys for readers of the scope over `base`; none if nothing visible changed.
/// Keys are relative to the scope.
pub fn shown_over(base: &dyn Base, event: WatchEvent) -> Option<WatchEvent> {
    match event {
        WatchEvent::Put { entry, previous } if base.contains(entry.key()) => {
            let previous = previous_of(base, &entry, previous);
            if !is_whiteout(&entry) {
                return Some(WatchEvent::Put { entry, previous });
            }
            // A whiteout of a whiteout changes nothing.
            previous.as_ref()?;
            let (key, revision) = (entry.key().to_vec().into(), entry.mod_revision());
            Some(WatchEvent::Delete { key, revision, previous })
        }
        WatchEvent::Delete { key, revision, previous } if base.contains(&key) => {
            let previous = previous.filter(|entry| !is_whiteout(entry));
            previous.is_some().then_some(WatchEvent::Delete { key, revision, previous })
        }
        other => Some(other),
    }
}

fn previous_of(base: &dyn Base, entry: &Entry, previous: Option<Entry>) -> Option<Entry> {
    match previous {
        Some(previous) => Some(previous).filter(|previous| !is_whiteout(previous)),
        // Only the first version of a key certainly has no previous one.
        None if entry.version() == 1 => base.get(entry.key()),
        None => None,
    }
}
