//! Reads of several keys, some of which may be in the base.

use super::{Layered, Own, is_whiteout};
use crate::entry::Entry;
use crate::error::Result;
use crate::read::{At, Count, Range, RangeRequest};

impl Layered {
    pub(super) async fn read_range(&self, mut request: RangeRequest) -> Result<Range> {
        let mut keys = self.base.keys(&request.prefix);
        keys.retain(|key| key.as_slice() >= request.first_key());
        if keys.is_empty() {
            return self.own.range(request).await;
        }
        self.check_age(request.at)?;
        let limit = request.limit;
        if limit > 0 {
            // So that enough entries remain if all of these keys are whiteouts.
            request.limit = limit + keys.len();
        }
        let mut range = self.own.range(request).await?;
        // Keys after the last entry of a limited range may be whiteouts in its unread part.
        let covered = match range.entries.last() {
            Some(last) if range.more => keys.partition_point(|key| key.as_slice() <= last.key()),
            _ => keys.len(),
        };
        if let Some(remaining) = range.remaining {
            let beyond = self.difference(&keys[covered..], At::Revision(range.revision)).await?;
            range.remaining = Some(remaining.saturating_add_signed(beyond));
        }
        range.entries = self.merge(range.entries, &keys[..covered]);
        Ok(cut(range, limit))
    }

    pub(super) async fn read_count(&self, prefix: &[u8], at: At) -> Result<Count> {
        let keys = self.base.keys(prefix);
        if !keys.is_empty() {
            self.check_age(at)?;
        }
        let Count { count, revision } = self.own.count(prefix, at).await?;
        let difference = self.difference(&keys, At::Revision(revision)).await?;
        Ok(Count { count: count.saturating_add_signed(difference), revision })
    }

    /// Number of additional visible entries, compared with the scope's own, among these keys.
    async fn difference(&self, keys: &[Vec<u8>], at: At) -> Result<i64> {
        let mut difference = 0;
        for key in keys {
            difference += match Own::of(self.own.get_at(key, at).await?.entry) {
                Own::Nothing => 1,
                Own::Whiteout(_) => -1,
                Own::Live(_) => 0,
            };
        }
        Ok(difference)
    }

    /// Merges both in order; the scope's own entries take precedence.
    fn merge(&self, own: Vec<Entry>, keys: &[Vec<u8>]) -> Vec<Entry> {
        let mut merged = Vec::with_capacity(own.len() + keys.len());
        let mut own = own.into_iter().peekable();
        for key in keys {
            while let Some(entry) = own.next_if(|entry| entry.key() < key.as_slice()) {
                merged.push(entry);
            }
            match own.next_if(|entry| entry.key() == key.as_slice()) {
                Some(entry) if is_whiteout(&entry) => {}
                Some(entry) => merged.push(entry),
                None => merged.extend(self.base.get(key)),
            }
        }
        merged.extend(own);
        merged
    }
}

fn cut(mut range: Range, limit: usize) -> Range {
    if limit > 0 && range.entries.len() > limit {
        let surplus = range.entries.len() - limit;
        range.entries.truncate(limit);
        range.more = true;
        range.remaining = range.remaining.map(|remaining| remaining + surplus as u64);
    }
    range
}
