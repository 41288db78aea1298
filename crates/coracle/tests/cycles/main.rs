//! Objects that are created and deleted again and again leave nothing behind: no object, no key in the store,
//! no address, no file.
//!
//! `cargo test -p coracle --test cycles -- --cycles 1000` runs more cycles than `cargo test` does;
//! `-- --subject services` runs one subject.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
#![expect(clippy::print_stderr, reason = "a test with its own main reports for itself")]

mod definitions;
mod namespaces;
mod options;
mod server;
mod services;

use std::collections::BTreeSet;
use std::ops::Range;
use std::process::ExitCode;

use coracle::StoreConfig;
use coracle::kube::api::{Api, DeleteParams, PostParams};
use futures_util::future::BoxFuture;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

use options::Options;
use server::Server;

/// One subject that is created and deleted.
struct Subject {
    name: &'static str,
    /// How many exist at the same time. The test waits for idle controllers after each batch.
    batch: usize,
    cycle: fn(&Server, Range<usize>) -> BoxFuture<'_, ()>,
    /// Checks beyond the keys of the store.
    check: fn(&Server) -> BoxFuture<'_, ()>,
}

const SUBJECTS: &[Subject] = &[
    Subject { name: "services", batch: 50, cycle: services::cycle, check: services::check },
    Subject { name: "namespaces", batch: 20, cycle: namespaces::cycle, check: nothing },
    Subject { name: "definitions", batch: 10, cycle: definitions::cycle, check: nothing },
];

/// Syncs make a cycle on disk as long as several in memory.
const DISK_SHARE: usize = 10;

fn nothing(_server: &Server) -> BoxFuture<'_, ()> {
    Box::pin(std::future::ready(()))
}

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(Some(options)) => options,
        Ok(None) => return ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.unwrap().block_on(async {
        run(StoreConfig::Memory, &options, options.cycles).await;
        run(StoreConfig::Disk, &options, options.cycles.div_ceil(DISK_SHARE)).await;
    });
    ExitCode::SUCCESS
}

async fn run(store: StoreConfig, options: &Options, cycles: usize) {
    let files = after_no_cycle(store.clone()).await;
    let server = Server::start(store.clone()).await;
    check_that_leftovers_are_found(&server).await;
    let wanted = |subject: &&Subject| options.subject.as_deref().is_none_or(|name| name == subject.name);
    for subject in SUBJECTS.iter().filter(wanted) {
        let before = server.keys().await;
        for first in (0..cycles).step_by(subject.batch) {
            (subject.cycle)(&server, first..cycles.min(first + subject.batch)).await;
        }
        (subject.check)(&server).await;
        let after = server.keys().await;
        let left: Vec<&String> = after.difference(&before).collect();
        assert!(left.is_empty(), "{} of {cycles} cycles left behind {left:#?}", subject.name);
        let lost: Vec<&String> = before.difference(&after).collect();
        assert!(lost.is_empty(), "{} removed {lost:#?}", subject.name);
        eprintln!("cycles: {cycles} of {} on {store:?}: nothing left behind", subject.name);
    }
    assert_eq!(server.stop().await, files, "files of {store:?}");
}

/// Checks the check: an object that is not deleted shows as one more key.
async fn check_that_leftovers_are_found(server: &Server) {
    let before = server.keys().await;
    let config_maps = Api::<ConfigMap>::default_namespaced(server.client());
    let object = serde_json::from_value(json!({"metadata": {"name": "leftover"}})).unwrap();
    config_maps.create(&PostParams::default(), &object).await.unwrap();
    let after = server.keys().await;
    let left: Vec<&String> = after.difference(&before).collect();
    assert!(matches!(left[..], [key] if key.ends_with("/leftover")), "{left:?}");
    config_maps.delete("leftover", &DeleteParams::default()).await.unwrap();
    assert_eq!(server.keys().await, before);
}

/// The files of a server that ran without any cycle.
async fn after_no_cycle(store: StoreConfig) -> BTreeSet<String> {
    let server = Server::start(store).await;
    server.idle().await;
    server.stop().await
}
