//! Writes a store in the current format, the source of `tests/fixtures/format-N`: `cargo run -p coracle-store
//! --features testing --example format_fixture -- DIR`.
//!
//! Run it once when the format changes, and never again for that version: the fixture represents the files of an
//! older program.

use std::path::PathBuf;
use std::time::Duration;

use coracle_base::{ManualClock, Rng, Timestamp};
use coracle_store::{Delete, Error, Put, Revision, Store, Txn, disk};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let dir = std::env::args().nth(1).map(PathBuf::from);
    let dir = dir.ok_or_else(|| Error::Config("name the directory to write to".into()))?;
    let clock = ManualClock::starting_at(Timestamp::from_millis(1_700_000_000_000));
    let options = disk::Options {
        clock: clock.clock(),
        segment_bytes: 8 << 10,
        snapshot_min_bytes: 8 << 10,
        rng: Rng::seeded(1),
        ..disk::Options::default()
    };
    let store = disk::open(&dir, options).await?;
    write(&store).await?;
    store.close().await
}

/// Covers every record type: a snapshot, several segments, history, a transaction, a deleted key and a deleted
/// prefix, a stamp, a distant expiry, a value long enough to be packed.
async fn write(store: &Store) -> Result<(), Error> {
    let mut latest = Revision::INITIAL;
    for n in 0..40 {
        let value = format!("{n}:{}", "x".repeat(500));
        latest = store.put(Put::new(format!("many/{}", n % 10), value)).await?.revision;
    }
    store.compact(latest).await?;
    store.commit(Txn::new().put(Put::new("pair/left", "1")).put(Put::new("pair/right", "2"))).await?;
    store.put(Put::new("stamped", r#"{"at":""}"#).stamp_at(7)).await?;
    let hundred_years = Duration::from_secs(100 * 365 * 24 * 3600);
    store.put(Put::new("expiring", "later").ttl(hundred_years)).await?;
    store.put(Put::new("gone", "soon")).await?;
    store.delete(Delete::new("gone")).await?;
    store.commit(Txn::new().put(Put::new("prefix/a", "")).put(Put::new("prefix/b", ""))).await?;
    store.commit(Txn::new().delete_prefix("prefix/")).await?;
    store.put(Put::new("long", "as schemas have it ".repeat(4_000))).await?;
    Ok(())
}
