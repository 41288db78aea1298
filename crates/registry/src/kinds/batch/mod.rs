//! Kinds of the batch group.

pub mod cron_job;
mod cron_schedule;
mod failure_policy;
mod indexes;
pub mod job;
#[cfg(any(test, feature = "samples"))]
mod job_samples;
mod job_spec;
mod job_status;
mod success_policy;
mod template_update;
mod time_zone;
