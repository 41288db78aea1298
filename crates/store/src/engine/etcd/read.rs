//! Reads: single keys, counts, and paginated ranges from one snapshot.

use bytes::Bytes;
use prost::Message;
use tonic::Code;

use super::client::Repeat;
use super::cluster::Cluster;
use super::failure::Failure;
use super::keyspace::Keyspace;
use super::proto::{self, NO_END, RangeResponse};
use super::{rpc, stream, value};
use crate::entry::Entry;
use crate::error::{Error, Result};
use crate::read::{At, Count, Get, Range, RangeRequest};
use crate::revision::Revision;

/// Entries in the first page of a range; later pages depend on its size.
const FIRST_PAGE: usize = 500;

/// Maximum entries per page: etcd does one lookup per entry while it builds the page.
const LARGEST_PAGE: usize = 10_000;

/// Target size of a page: far below the message limit, because the next page's entries may be larger, and large
/// compared with the cost of a request.
const PAGE_BYTES: usize = 4 << 20;

/// Maximum restarts of a range at the latest revision whose snapshot was compacted between two pages.
const MAX_SNAPSHOTS: u32 = 3;

/// Meanings of the code "out of range" for a read.
enum OutOfRange {
    /// The revision is compacted or in the future.
    Revision(Error),
    /// Raised by the client: the response exceeded the limit.
    TooLarge,
}

impl Cluster {
    pub(super) async fn get(&self, key: &[u8], at: At) -> Result<Get> {
        let (key, range_end) = (self.keyspace.full_key(key), NO_END);
        let revision = self.wire_revision(at).await?;
        let request = proto::RangeRequest { key, range_end, limit: 1, revision, count_only: false };
        let answer = self.read_at(request).await?;
        let entry = answer.kvs.first().map(|kv| self.entry(kv)).transpose()?;
        Ok(Get { entry, revision: snapshot(revision, &answer) })
    }

    pub(super) async fn count(&self, prefix: &[u8], at: At) -> Result<Count> {
        let (key, range_end) = (self.keyspace.full_key(prefix), self.keyspace.prefix_end(prefix));
        let revision = self.wire_revision(at).await?;
        let request = proto::RangeRequest { key, range_end, limit: 0, revision, count_only: true };
        let answer = self.read_at(request).await?;
        Ok(Count { count: answer.count.unsigned_abs(), revision: snapshot(revision, &answer) })
    }

    pub(super) async fn range(&self, request: RangeRequest) -> Result<Range> {
        for _ in 1..MAX_SNAPSHOTS {
            match self.range_once(&request).await {
                Err(Error::Compacted { .. }) if request.at.past().is_none() => {}
                other => return other,
            }
        }
        self.range_once(&request).await
    }

    async fn range_once(&self, request: &RangeRequest) -> Result<Range> {
        let mut walk = Walk {
            key: self.keyspace.full_key(request.first_key()),
            range_end: self.keyspace.prefix_end(&request.prefix),
            revision: self.wire_revision(request.at).await?,
            page_size: FIRST_PAGE,
            limit: if request.limit == 0 { usize::MAX } else { request.limit },
            entries: Vec::new(),
            total: None,
        };
        loop {
            let page = walk.next_page();
            match self.page(page).await? {
                None => walk.page_size = halved(walk.wanted())?,
                Some(answer) => {
                    if !walk.take(answer, &self.keyspace)? {
                        return Ok(walk.finish(request.count_remaining));
                    }
                }
            }
        }
    }

    pub(super) fn entry(&self, kv: &proto::KeyValue) -> Result<Entry> {
        value::decode(kv, &self.keyspace)
    }

    pub(super) async fn read(&self, request: proto::RangeRequest) -> Result<RangeResponse, Failure> {
        self.client.call(&rpc::RANGE, Repeat::Always, request).await
    }

    /// Fails with [`Error::Compacted`] if `revision` is in the past and no longer kept.
    pub(super) async fn check_kept(&self, revision: Revision) -> Result<()> {
        let read = match self.wire_revision(At::Revision(revision)).await {
            Ok(number) => self.page(self.empty_read(number)).await.map(drop),
            Err(error) => Err(error),
        };
        match read {
            Err(Error::FutureRevision { .. }) => Ok(()),
            other => other,
        }
    }

    /// Reads a page; `None` if it is too large for one message.
    async fn page(&self, request: proto::RangeRequest) -> Result<Option<RangeResponse>> {
        // Once more, in case the revision was created between the rejection and the check of its cause.
        for _ in 0..2 {
            match self.read(request.clone()).await {
                Ok(answer) => return Ok(Some(answer)),
                Err(failure) if failure.is_rejected_with(Code::OutOfRange) => {
                    match self.out_of_range(request.revision).await? {
                        OutOfRange::Revision(error) => return Err(error),
                        OutOfRange::TooLarge if request.revision == 0 => break,
                        OutOfRange::TooLarge => {}
                    }
                }
                Err(failure) => return Err(failure.into_read_error()),
            }
        }
        Ok(None)
    }

    async fn read_at(&self, request: proto::RangeRequest) -> Result<RangeResponse> {
        self.page(request).await?.ok_or_else(too_large)
    }

    /// Etcd rejects compacted and future revisions with the same code, and a response that is too large gets that
    /// code from our client. Reads that match no key distinguish the cases.
    async fn out_of_range(&self, requested: i64) -> Result<OutOfRange> {
        if requested == 0 {
            return Ok(OutOfRange::TooLarge);
        }
        // Read before the request is repeated: a revision that was not in the future and is rejected has been
        // compacted.
        let current = self.revision().await?;
        match self.read(self.empty_read(requested)).await {
            Ok(_) => return Ok(OutOfRange::TooLarge),
            Err(failure) if failure.is_rejected_with(Code::OutOfRange) => {}
            Err(failure) => return Err(failure.into_read_error()),
        }
        let requested = value::to_revision(requested);
        if requested > current {
            return Ok(OutOfRange::Revision(Error::FutureRevision { requested, current }));
        }
        let oldest = stream::find_oldest(self, requested).await?;
        Ok(OutOfRange::Revision(Error::Compacted { requested, oldest }))
    }

    /// Etcd's number for a revision, 0 for the latest. Revision 0 counts as compacted, and those beyond etcd's range
    /// as future.
    async fn wire_revision(&self, at: At) -> Result<i64> {
        let Some(requested) = at.past() else { return Ok(0) };
        match i64::try_from(requested.get()) {
            Ok(0) => Err(Error::Compacted { requested, oldest: self.oldest_known() }),
            Ok(number) => Ok(number),
            Err(_) => Err(Error::FutureRevision { requested, current: self.revision().await? }),
        }
    }
}

/// A paginated read of a range.
struct Walk {
    /// First key of the next page.
    key: Bytes,
    range_end: Bytes,
    /// Revision of the snapshot; 0 until the first page has determined it.
    revision: i64,
    page_size: usize,
    limit: usize,
    entries: Vec<Entry>,
    /// Number of entries including those beyond the limit, from the first page.
    total: Option<u64>,
}

impl Walk {
    fn wanted(&self) -> usize {
        self.page_size.min(self.limit - self.entries.len())
    }

    fn next_page(&self) -> proto::RangeRequest {
        proto::RangeRequest {
            key: self.key.clone(),
            range_end: self.range_end.clone(),
            limit: self.wanted() as i64,
            revision: self.revision,
            count_only: false,
        }
    }

    /// Adds a page's entries; returns false if it was the last one.
    fn take(&mut self, page: RangeResponse, keyspace: &Keyspace) -> Result<bool> {
        if self.revision == 0 {
            self.revision = proto::revision(&page.header);
        }
        self.total.get_or_insert(page.count.unsigned_abs());
        self.page_size = next_page_size(self.wanted(), page.encoded_len());
        for kv in &page.kvs {
            self.entries.push(value::decode(kv, keyspace)?);
        }
        match page.kvs.last() {
            Some(last) if page.more => self.key = [&last.key[..], b"\0"].concat().into(),
            _ => return Ok(false),
        }
        Ok(self.entries.len() < self.limit)
    }

    fn finish(self, count_remaining: bool) -> Range {
        let remaining = self.total.unwrap_or(0).saturating_sub(self.entries.len() as u64);
        Range {
            entries: self.entries,
            more: remaining > 0,
            remaining: count_remaining.then_some(remaining),
            revision: value::to_revision(self.revision),
        }
    }
}

/// The revision of a response's snapshot: the requested one, or for the latest the one in the header.
fn snapshot(requested: i64, answer: &RangeResponse) -> Revision {
    value::to_revision(if requested == 0 { proto::revision(&answer.header) } else { requested })
}

fn next_page_size(page: usize, bytes: usize) -> usize {
    let next = if bytes > PAGE_BYTES {
        page * PAGE_BYTES / bytes
    } else if bytes < PAGE_BYTES / 2 {
        page * 2
    } else {
        page
    };
    next.clamp(1, LARGEST_PAGE)
}

fn halved(page: usize) -> Result<usize> {
    if page > 1 { Ok(page / 2) } else { Err(too_large()) }
}

fn too_large() -> Error {
    Error::Refused("one entry is larger than the largest answer this program takes".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_grow_while_small_and_shrink_to_their_aim() {
        assert_eq!(next_page_size(500, 100 << 10), 1000);
        assert_eq!(next_page_size(500, 3 << 20), 500);
        assert_eq!(next_page_size(500, 40 << 20), 50);
        assert_eq!(next_page_size(LARGEST_PAGE, 10), LARGEST_PAGE);
        assert_eq!(next_page_size(1, 40 << 20), 1);
    }

    #[test]
    fn a_page_that_cannot_be_halved_is_an_error() {
        assert_eq!(halved(500).unwrap(), 250);
        assert!(halved(1).is_err());
    }
}
