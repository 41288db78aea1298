//! The mandatory and suggested PriorityLevelConfigurations and FlowSchemas.

use coracle_meta::time::Time;
use serde_json::{Value, json};

use super::objects::{Seed, condition};
use crate::kinds::flowcontrol::flow_schema::FlowSchema;
use crate::kinds::flowcontrol::priority_level_configuration::PriorityLevelConfiguration;

const PRODUCER: &str = "api-priority-and-fairness-config-producer-v1";
const CONSUMER: &str = "api-priority-and-fairness-config-consumer-v1";

const SERVICE_ACCOUNTS: &str = "system:serviceaccounts";
const CONTROLLER_MANAGER: Subject = Subject::User("system:kube-controller-manager");
const SCHEDULER: Subject = Subject::User("system:kube-scheduler");
const NODES: Subject = Subject::Group("system:nodes");
const EVERYBODY: &[Subject] =
    &[Subject::Group("system:unauthenticated"), Subject::Group("system:authenticated")];

/// Number of queues, number of queues per flow (shuffle sharding), and length limit of each queue.
struct Queues {
    queues: u32,
    hand_size: u32,
    length_limit: u32,
}

const fn queues(queues: u32, hand_size: u32) -> Option<Queues> {
    Some(Queues { queues, hand_size, length_limit: 50 })
}

/// A priority level: its shares, the lendable part of them, and its queues. Without queues, excess requests are
/// rejected.
struct Level {
    name: &'static str,
    shares: u32,
    lendable_percent: u32,
    queues: Option<Queues>,
}

const fn level(name: &'static str, shares: u32, lendable_percent: u32, queues: Option<Queues>) -> Level {
    Level { name, shares, lendable_percent, queues }
}

/// The priority level whose requests are never queued.
const EXEMPT: &str = "exempt";

const LEVELS: &[Level] = &[
    level("catch-all", 5, 0, None),
    level("global-default", 20, 50, queues(128, 6)),
    level("leader-election", 10, 0, queues(16, 4)),
    level("node-high", 40, 25, queues(64, 6)),
    level("system", 30, 33, queues(64, 6)),
    level("workload-high", 40, 50, queues(128, 6)),
    level("workload-low", 100, 90, queues(128, 6)),
];

/// The subjects of a FlowSchema.
#[derive(Clone, Copy)]
enum Subject {
    User(&'static str),
    Group(&'static str),
    /// All service accounts in `kube-system`.
    SystemServiceAccounts,
}

/// The requests that a FlowSchema matches.
enum Requests {
    All,
    Probes,
    /// Leases for leader election.
    Elections,
    /// Writes of nodes about themselves.
    NodeStatus,
}

/// A FlowSchema: its priority level, and the distinguisher of flows.
struct Schema {
    name: &'static str,
    precedence: u32,
    level: &'static str,
    flows: Option<&'static str>,
    subjects: &'static [Subject],
    requests: Requests,
}

const fn schema(
    name: &'static str,
    precedence: u32,
    level: &'static str,
    flows: Option<&'static str>,
    subjects: &'static [Subject],
    requests: Requests,
) -> Schema {
    Schema { name, precedence, level, flows, subjects, requests }
}

const BY_USER: Option<&str> = Some("ByUser");
const BY_NAMESPACE: Option<&str> = Some("ByNamespace");

const SCHEMAS: &[Schema] = &[
    schema("exempt", 1, EXEMPT, None, &[Subject::Group("system:masters")], Requests::All),
    schema("probes", 2, EXEMPT, None, EVERYBODY, Requests::Probes),
    schema(
        "system-leader-election",
        100,
        "leader-election",
        BY_USER,
        &[CONTROLLER_MANAGER, SCHEDULER, Subject::SystemServiceAccounts],
        Requests::Elections,
    ),
    schema("system-node-high", 400, "node-high", BY_USER, &[NODES], Requests::NodeStatus),
    schema("system-nodes", 500, "system", BY_USER, &[NODES], Requests::All),
    schema(
        "kube-controller-manager",
        800,
        "workload-high",
        BY_NAMESPACE,
        &[CONTROLLER_MANAGER],
        Requests::All,
    ),
    schema("kube-scheduler", 800, "workload-high", BY_NAMESPACE, &[SCHEDULER], Requests::All),
    schema(
        "kube-system-service-accounts",
        900,
        "workload-high",
        BY_NAMESPACE,
        &[Subject::SystemServiceAccounts],
        Requests::All,
    ),
    schema(
        "service-accounts",
        9_000,
        "workload-low",
        BY_USER,
        &[Subject::Group(SERVICE_ACCOUNTS)],
        Requests::All,
    ),
    schema("global-default", 9_900, "global-default", BY_USER, EVERYBODY, Requests::All),
    schema("catch-all", 10_000, "catch-all", BY_USER, EVERYBODY, Requests::All),
];

pub(super) fn seeds(now: Time) -> Vec<Seed> {
    let exempt = json!({"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}});
    let levels = LEVELS.iter().map(|level| (level.name, level_spec(level)));
    let levels = std::iter::once((EXEMPT, exempt)).chain(levels);
    let levels = levels.map(|(name, spec)| Seed::new(&PriorityLevelConfiguration, "", object(name, &spec)));
    let schemas = SCHEMAS.iter().map(|schema| {
        let seed = Seed::new(&FlowSchema, "", object(schema.name, &schema_spec(schema)));
        seed.with_status(CONSUMER, json!({"conditions": [found(schema.level, now)]}))
    });
    levels.chain(schemas).map(|seed| seed.sent_by(PRODUCER)).collect()
}

/// A FlowSchema or priority level that is updated with the server, unless a user disables that by the annotation.
fn object(name: &str, spec: &Value) -> Value {
    json!({"metadata": {"name": name, "annotations": {"apf.kubernetes.io/autoupdate-spec": "true"}}, "spec": spec})
}

fn level_spec(level: &Level) -> Value {
    let response = match &level.queues {
        None => json!({"type": "Reject"}),
        Some(Queues { queues, hand_size, length_limit }) => {
            let queuing = json!({"queues": queues, "handSize": hand_size, "queueLengthLimit": length_limit});
            json!({"type": "Queue", "queuing": queuing})
        }
    };
    json!({"type": "Limited", "limited": {
        "nominalConcurrencyShares": level.shares,
        "lendablePercent": level.lendable_percent,
        "limitResponse": response,
    }})
}

fn schema_spec(schema: &Schema) -> Value {
    let mut rule = match schema.requests {
        Requests::All => json!({
            "resourceRules": [resources("*", &["*"], &["*"], true)],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        }),
        Requests::Probes => {
            json!({"nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz", "/readyz", "/livez"]}]})
        }
        Requests::Elections => json!({
            "resourceRules": [resources("coordination.k8s.io", &["leases"], &["get", "create", "update"], false)],
        }),
        Requests::NodeStatus => json!({"resourceRules": [
            resources("", &["nodes", "nodes/status"], &["*"], true),
            resources("coordination.k8s.io", &["leases"], &["*"], false),
        ]}),
    };
    rule["subjects"] = schema.subjects.iter().map(subject).collect();
    let mut spec = json!({
        "matchingPrecedence": schema.precedence,
        "priorityLevelConfiguration": {"name": schema.level},
        "rules": [rule],
    });
    if let Some(flows) = schema.flows {
        spec["distinguisherMethod"] = json!({"type": flows});
    }
    spec
}

fn resources(group: &str, resources: &[&str], verbs: &[&str], cluster_scope: bool) -> Value {
    let mut rule = json!({"verbs": verbs, "apiGroups": [group], "resources": resources, "namespaces": ["*"]});
    if cluster_scope {
        rule["clusterScope"] = true.into();
    }
    rule
}

fn subject(subject: &Subject) -> Value {
    match subject {
        Subject::User(name) => json!({"kind": "User", "user": {"name": name}}),
        Subject::Group(name) => json!({"kind": "Group", "group": {"name": name}}),
        Subject::SystemServiceAccounts => {
            json!({"kind": "ServiceAccount", "serviceAccount": {"namespace": "kube-system", "name": "*"}})
        }
    }
}

fn found(level: &str, now: Time) -> Value {
    let message = format!(
        "This FlowSchema references the PriorityLevelConfiguration object named \"{level}\" and it exists"
    );
    condition("Dangling", "False", "Found", &message, now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_schema_has_its_level() {
        for schema in SCHEMAS {
            let exists = schema.level == EXEMPT || LEVELS.iter().any(|level| level.name == schema.level);
            assert!(exists, "{}", schema.name);
        }
    }
}
