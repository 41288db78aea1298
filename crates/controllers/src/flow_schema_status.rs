//! Sets the `Dangling` condition of every FlowSchema, which reports whether its priority level is missing.
//!
//! Conditions and field manager are those of kube-apiserver (`pkg/util/flowcontrol/apf_controller.go` of
//! k8s.io/apiserver). Requests do not depend on it: the API server reads the objects itself.

use coracle_base::Clock;
use coracle_runtime::informer::{Metadata, MetadataOnly, View};
use coracle_runtime::{
    Action, Controller, Informer, Manager, ObjectKey, Objects, Reconcile, Selection, Written,
};
use k8s_openapi::api::flowcontrol::v1::{FlowSchema, PriorityLevelConfiguration};
use kube::api::{Patch, PatchParams};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::view::{Condition, condition, rfc3339};
use crate::{Registration, Settings};

/// Field manager of the condition.
const MANAGER: &str = "api-priority-and-fairness-config-consumer-v1";

const DANGLING: &str = "Dangling";

/// Index of schemas by the name of their priority level.
const BY_LEVEL: &str = "level";

pub(crate) const REGISTRATION: Registration =
    Registration { name: "priority-and-fairness-config-consumer-controller", register };

fn register(manager: &mut Manager, settings: &Settings) {
    let schemas = manager.informer::<Schema>(Selection::of::<FlowSchema>());
    schemas.store().add_index(BY_LEVEL, |schema: &Schema| vec![schema.level.to_string()]);
    let levels = manager.informer(Selection::of::<PriorityLevelConfiguration>().metadata_only());
    let reconcile = Dangling {
        objects: Objects::of::<FlowSchema>(manager.client()),
        schemas: schemas.clone(),
        levels: levels.clone(),
        clock: settings.clock.clone(),
    };
    let of_level = schemas.store().clone();
    let controller = Controller::new(REGISTRATION.name, reconcile)
        .queue_name("priority_and_fairness_config_queue")
        .watches(&schemas, |change| Some(change.key.clone()))
        .watches(&levels, move |change| {
            let cluster = change.key.cluster();
            let schemas = of_level.by_index(BY_LEVEL, cluster, change.key.name());
            schemas
                .iter()
                .map(|schema| ObjectKey::cluster_wide(cluster.clone(), &*schema.metadata.name))
                .collect::<Vec<_>>()
        });
    manager.add(controller);
}

/// Fields of a FlowSchema that the condition depends on.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "Whole")]
struct Schema {
    metadata: Metadata,
    level: Box<str>,
    condition: Option<Condition>,
}

#[derive(Deserialize)]
struct Whole {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    priority_level_configuration: LevelReference,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct LevelReference {
    name: Box<str>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    conditions: Vec<Condition>,
}

impl From<Whole> for Schema {
    fn from(whole: Whole) -> Self {
        Self {
            metadata: whole.metadata,
            level: whole.spec.priority_level_configuration.name,
            condition: condition(&whole.status.conditions, DANGLING).cloned(),
        }
    }
}

impl View for Schema {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

/// The condition that a schema should have, without its time; `None` if it has it.
fn plan(schema: &Schema, level_exists: bool) -> Option<Value> {
    let level = &schema.level;
    let reference =
        format!("This FlowSchema references the PriorityLevelConfiguration object named \"{level}\"");
    let (status, reason, message) = match level_exists {
        true => ("False", "Found", format!("{reference} and it exists")),
        false => ("True", "NotFound", format!("{reference} but there is no such object")),
    };
    let is_same = |found: &Condition| {
        *found.status == *status && *found.reason == *reason && *found.message == *message
    };
    let wanted = || json!({"type": DANGLING, "status": status, "reason": reason, "message": message});
    (!schema.condition.as_ref().is_some_and(is_same)).then(wanted)
}

struct Dangling {
    objects: Objects,
    schemas: Informer<Schema>,
    levels: Informer<MetadataOnly>,
    clock: Clock,
}

impl Reconcile for Dangling {
    type Error = kube::Error;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, kube::Error> {
        let Some(schema) = self.schemas.store().get(key) else { return Ok(Action::AwaitChange) };
        let level = ObjectKey::cluster_wide(key.cluster().clone(), &*schema.level);
        let Some(mut condition) = plan(&schema, self.levels.store().get(&level).is_some()) else {
            return Ok(Action::AwaitChange);
        };
        condition["lastTransitionTime"] = rfc3339(self.clock.now()).into();
        let applied = json!({
            "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
            "kind": "FlowSchema",
            "metadata": {"name": key.name()},
            "status": {"conditions": [condition]},
        });
        let params = PatchParams::apply(MANAGER).force();
        match self.objects.patch_subresource::<Written>(key, "status", &params, &Patch::Apply(applied)).await
        {
            // The schema has been deleted.
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Action::AwaitChange),
            answer => answer.map(|_| Action::AwaitChange),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(conditions: Value) -> Schema {
        let spec = json!({"priorityLevelConfiguration": {"name": "l"}});
        let object = json!({"metadata": {"name": "s"}, "spec": spec, "status": {"conditions": conditions}});
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn condition_reports_whether_the_level_exists() {
        let found =
            "This FlowSchema references the PriorityLevelConfiguration object named \"l\" and it exists";
        let missing = "This FlowSchema references the PriorityLevelConfiguration object named \"l\" but there is no such object";
        for (level_exists, status, reason, message) in
            [(true, "False", "Found", found), (false, "True", "NotFound", missing)]
        {
            let expected =
                json!({"type": "Dangling", "status": status, "reason": reason, "message": message});
            let wanted = plan(&schema(json!([])), level_exists).unwrap();
            assert_eq!(wanted, expected);
            assert_eq!(plan(&schema(json!([wanted])), level_exists), None, "the condition is there");
            assert!(plan(&schema(json!([wanted])), !level_exists).is_some());
        }
    }
}
