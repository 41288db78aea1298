//! Creates the service account `default` in every namespace, for pods that name none.

use coracle_runtime::informer::MetadataOnly;
use coracle_runtime::{
    Action, Controller, Informer, Manager, ObjectKey, Objects, Reconcile, Selection, Written,
};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::ObjectMeta;

use crate::{Registration, Settings, active_namespaces, api_error};

/// Name of the service account.
const DEFAULT: &str = "default";

pub(crate) const REGISTRATION: Registration = Registration { name: "serviceaccount-controller", register };

fn register(manager: &mut Manager, _settings: &Settings) {
    let namespaces = active_namespaces::informer(manager);
    let accounts = manager
        .informer(Selection::of::<ServiceAccount>().metadata_only().with_fields("metadata.name=default"));
    let objects = Objects::of::<ServiceAccount>(manager.client());
    let reconcile = ServiceAccounts { objects, namespaces: namespaces.clone(), accounts: accounts.clone() };
    let controller = Controller::new(REGISTRATION.name, reconcile)
        .queue_name("serviceaccount")
        .watches(&namespaces, active_namespaces::itself)
        .watches(&accounts, active_namespaces::namespace_of);
    manager.add(controller);
}

/// Next step for a namespace.
#[derive(Debug, PartialEq)]
enum Plan {
    Nothing,
    Create(Box<ServiceAccount>),
}

fn plan(active: bool, exists: bool) -> Plan {
    if !active || exists {
        return Plan::Nothing;
    }
    let metadata = ObjectMeta { name: Some(DEFAULT.to_owned()), ..ObjectMeta::default() };
    Plan::Create(Box::new(ServiceAccount { metadata, ..ServiceAccount::default() }))
}

struct ServiceAccounts {
    objects: Objects,
    namespaces: Informer<MetadataOnly>,
    accounts: Informer<MetadataOnly>,
}

impl Reconcile for ServiceAccounts {
    type Error = kube::Error;

    async fn reconcile(&self, namespace: &ObjectKey) -> Result<Action, kube::Error> {
        let key = ObjectKey::namespaced(namespace.cluster().clone(), namespace.name(), DEFAULT);
        let exists = self.accounts.store().get(&key).is_some();
        if let Plan::Create(account) = plan(active_namespaces::is_active(&self.namespaces, namespace), exists)
        {
            match self.objects.create::<Written>(&key, &account).await {
                Err(error)
                    if !api_error::already_exists(&error)
                        && !api_error::namespace_is_gone_or_terminating(&error) =>
                {
                    return Err(error);
                }
                _ => {}
            }
        }
        Ok(Action::AwaitChange)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_account_is_created_in_active_namespaces() {
        assert_eq!(plan(true, true), Plan::Nothing);
        assert_eq!(plan(false, false), Plan::Nothing);
        assert_eq!(plan(false, true), Plan::Nothing);
        let Plan::Create(account) = plan(true, false) else { panic!("nothing to do") };
        assert_eq!(account.metadata.name.as_deref(), Some("default"));
    }
}
