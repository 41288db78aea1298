//! Assembly of the scheduling task from its configuration.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use coracle_base::Clock;
use coracle_runtime::{Manager, Objects};
use futures_util::stream::FuturesUnordered;
use k8s_openapi::api::core::v1 as core;
use tokio::sync::mpsc;

use super::cluster::SchedulerShared;
use super::clusters::Clusters;
use super::effects::Effects;
use super::{MAX_MESSAGES, PARKED_AT_MOST, Scheduler, message};
use crate::config::{Config, ConfigError};
use crate::cycle::Trace;
use crate::framework::{Handle, Signals, WaitingPods};
use crate::metrics::SchedulerMetrics;
use crate::plugins::{self, VolumeWriter, Writers};
use crate::queue::Backoff;
use crate::registry::PluginFeed;

/// Registers the scheduler with a manager, whose identity must be allowed to bind pods.
///
/// # Errors
/// If [`Config::check`] fails or a plugin factory returns an error.
pub fn register(manager: &mut Manager, config: &Config, clock: &Clock) -> Result<(), ConfigError> {
    config.check_names()?;
    let (sender, messages) = mpsc::channel(MAX_MESSAGES);
    let informers = message::start_informers(manager, &sender);
    let mut following = informers.all;
    let client = manager.client().clone();
    let pods = Objects::of::<core::Pod>(&client);
    let volumes = VolumeWriter::new(&client, clock.clone(), informers.claims, informers.volumes);
    let writers = Writers { pods: Some(pods.clone()), volumes: Some(volumes) };
    let (waiting, signals) = (WaitingPods::default(), Signals::default());
    let (mut profiles, mut recorders) = (Vec::new(), HashMap::new());
    for profile in &config.profiles {
        let recorder = manager.events_recorder(&*profile.scheduler_name);
        let handle = Handle {
            waiting: waiting.clone(),
            signals: signals.clone(),
            clock: clock.clone(),
            client: Some(client.clone()),
            recorder: Some(recorder.clone()),
        };
        let feed = PluginFeed { manager: &mut *manager, sender: &sender, following: &mut following };
        profiles.push(plugins::profile(profile, &config.registry, &writers, &handle, Some(feed))?);
        recorders.insert(profile.scheduler_name.as_str().into(), recorder);
    }
    let metrics = Arc::new(SchedulerMetrics::new(manager.metrics(), &profiles));
    let backoff = Backoff {
        initial: config.pod_initial_backoff,
        max: config.pod_max_backoff,
        parked_at_most: PARKED_AT_MOST,
    };
    let sort = Arc::clone(&config.queue_sort);
    let shared = Arc::new(SchedulerShared {
        profiles,
        sort,
        backoff,
        waiting,
        metrics,
        clock: clock.clone(),
        gated: AtomicU64::new(0),
    });
    let (rng, sampling) = (manager.rng(), manager.rng());
    manager.add_runnable(Scheduler {
        clusters: Clusters::new(Arc::clone(&shared), rng),
        shared,
        effects: Effects { pods, recorders, clock: clock.clone() },
        clock: clock.clone(),
        trace: Trace::new(clock.clone()),
        sampling,
        signals,
        sender,
        messages,
        following,
        cluster_listers: informers.cluster_listers,
        is_synced: false,
        max_binding: config.max_binding.max(1),
        in_flight: FuturesUnordered::new(),
        waiting: Vec::new(),
        counts: Arc::default(),
    });
    Ok(())
}
