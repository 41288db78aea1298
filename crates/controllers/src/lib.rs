//! The controllers of a cluster, one module each: a pure `plan` that says what is to be done, and as
//! little as possible around it that does it.
//!
//! They act through the API like anyone else, so they run as well against another server. To add one,
//! write its module and a line in [`CONTROLLERS`].

mod active_namespaces;
mod clusterrole_aggregation;
mod customresourcedefinition;
mod namespace;
mod refusal;
mod root_ca;
mod serviceaccount;
mod serviceaccount_token;
mod volume_protection;

use coracle_base::Clock;
use coracle_runtime::Manager;

pub use serviceaccount_token::{TokenSubject, TokenWriter};

/// What controllers need to know beyond what the API tells.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What times in conditions are read from.
    pub clock: Clock,
    /// The certificates by which pods recognize the API server, in PEM. None if it has none, and then
    /// none are published.
    pub root_ca: Option<String>,
    /// Who writes tokens of service accounts into secrets. None if nobody can.
    pub token_writer: Option<TokenWriter>,
}

/// A controller that can be run.
#[derive(Clone, Copy, Debug)]
pub struct Registration {
    /// Its name in upstream's controller manager.
    pub name: &'static str,
    register: fn(&mut Manager, &Settings),
}

/// Every controller there is.
pub const CONTROLLERS: &[Registration] = &[
    clusterrole_aggregation::REGISTRATION,
    customresourcedefinition::finalizer::REGISTRATION,
    customresourcedefinition::naming::REGISTRATION,
    customresourcedefinition::registration::REGISTRATION,
    namespace::REGISTRATION,
    root_ca::REGISTRATION,
    serviceaccount::REGISTRATION,
    serviceaccount_token::REGISTRATION,
    volume_protection::pv::REGISTRATION,
    volume_protection::pvc::REGISTRATION,
    volume_protection::vac::REGISTRATION,
];

/// Hands every controller to the manager.
pub fn register(manager: &mut Manager, settings: &Settings) {
    for controller in CONTROLLERS {
        (controller.register)(manager, settings);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_upstreams() {
        let mut names: Vec<_> = CONTROLLERS.iter().map(|controller| controller.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), CONTROLLERS.len());
        assert!(names.iter().all(|name| name.ends_with("-controller")));
    }
}
