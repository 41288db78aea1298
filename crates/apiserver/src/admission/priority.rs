//! Priority: sets the priority of a pod from its priority class, and allows only one default class.

use std::sync::Arc;

use coracle_registry::admission::{Attributes, BoxFuture, Operation};
use coracle_registry::kinds::scheduling::priority_class::PriorityClass;
use coracle_registry::{Result, view};
use serde_json::Value;

use super::plugin::{Plugin, Rule, forbidden};
use super::{PODS, read};

/// The priority of pods without a class if there is no default class.
const DEFAULT_PRIORITY: i64 = 0;

pub(super) struct Priority;

impl Plugin for Priority {
    fn name(&self) -> &str {
        "Priority"
    }

    fn mutates(&self) -> Vec<Rule> {
        vec![Rule::new("", PODS, &[Operation::Create, Operation::Update])]
    }

    fn validates(&self) -> Vec<Rule> {
        let operations = [Operation::Create, Operation::Update];
        vec![Rule::new("scheduling.k8s.io", "priorityclasses", &operations)]
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        pod: &'a mut Value,
        _warnings: &'a mut Vec<String>,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            match attributes.old {
                Some(old) => keep(pod, old),
                None => resolve(attributes, pod).await?,
            }
            Ok(())
        })
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        class: &'a Value,
        _warnings: &'a mut Vec<String>,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(check_default(attributes, class))
    }
}

/// Copies the computed fields from the stored pod: clients that do not know the fields omit them in updates.
fn keep(pod: &mut Value, old: &Value) {
    for field in ["priority", "preemptionPolicy"] {
        let path = ["spec", field];
        if let (None, Some(value)) = (view::at(pod, &path), view::at(old, &path)) {
            *read::entry(pod, &path) = value.clone();
        }
    }
}

async fn resolve(attributes: &Attributes<'_>, pod: &mut Value) -> Result<()> {
    let name = view::text(pod, &["spec", "priorityClassName"]).to_owned();
    let class = if name.is_empty() {
        default_class(attributes).await?
    } else {
        let class = attributes.cluster.find(&PriorityClass, "", &name).await?;
        let missing = || forbidden(attributes, pod, format!("no PriorityClass with name {name} was found"));
        Some(class.ok_or_else(missing)?)
    };
    let (priority, policy) = match &class {
        Some(class) => {
            (view::integer(class, &["value"]).unwrap_or(0), view::text(class, &["preemptionPolicy"]))
        }
        None => (DEFAULT_PRIORITY, "PreemptLowerPriority"),
    };
    check_own(attributes, pod, priority, policy)?;
    if let Some(class) = &class {
        *read::entry(pod, &["spec", "priorityClassName"]) = view::name(class).into();
    }
    *read::entry(pod, &["spec", "priority"]) = priority.into();
    if !policy.is_empty() {
        *read::entry(pod, &["spec", "preemptionPolicy"]) = policy.into();
    }
    Ok(())
}

/// Rejects a pod whose own priority or preemption policy differs from that of its class.
fn check_own(attributes: &Attributes<'_>, pod: &Value, priority: i64, policy: &str) -> Result<()> {
    if let Some(own) = view::integer(pod, &["spec", "priority"]).filter(|own| *own != priority) {
        let message = format!(
            "the integer value of priority ({own}) must not be provided in pod spec; \
             priority admission controller computed {priority} from the given PriorityClass name"
        );
        return Err(forbidden(attributes, pod, message));
    }
    // An empty policy is a policy of its own, too.
    let own = view::at(pod, &["spec", "preemptionPolicy"]).and_then(Value::as_str);
    if let Some(own) = own.filter(|own| !policy.is_empty() && *own != policy) {
        let message = format!(
            "the string value of PreemptionPolicy ({own}) must not be provided in pod spec; \
             priority admission controller computed {policy} from the given PriorityClass name"
        );
        return Err(forbidden(attributes, pod, message));
    }
    Ok(())
}

async fn check_default(attributes: &Attributes<'_>, class: &Value) -> Result<()> {
    if !view::is_true(class, &["globalDefault"]) {
        return Ok(());
    }
    match default_class(attributes).await? {
        Some(other)
            if attributes.operation == Operation::Create || view::name(&other) != view::name(class) =>
        {
            let name = view::name(&other);
            let message =
                format!("PriorityClass {name} is already marked as default. Only one default can exist");
            Err(forbidden(attributes, class, message))
        }
        _ => Ok(()),
    }
}

/// Returns the default class. Concurrent creates may have stored two; then the one with the lower value counts.
async fn default_class(attributes: &Attributes<'_>) -> Result<Option<Arc<Value>>> {
    let classes = attributes.cluster.find_all(&PriorityClass, "").await?;
    Ok(classes
        .into_iter()
        .filter(|class| view::is_true(class, &["globalDefault"]))
        .min_by_key(|class| view::integer(class, &["value"])))
}

#[cfg(test)]
mod tests {
    use coracle_registry::kinds::core::pod::Pod;
    use serde_json::json;

    use super::super::testing::Bench;
    use super::*;

    fn class(name: &str, value: i64, is_default: bool) -> Value {
        json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name},
            "value": value, "globalDefault": is_default,
        })
    }

    async fn check(bench: &Bench, spec: Value, expected: Result<Value, &str>) {
        let pod = json!({"metadata": {"name": "p"}, "spec": spec});
        let outcome = bench.admit_new(Priority, &Pod, pod).await.map(|pod| {
            let fields = ["priorityClassName", "priority", "preemptionPolicy"];
            fields.map(|field| pod["spec"][field].clone()).into_iter().collect()
        });
        assert_eq!(outcome, expected.map_err(|reason| format!("pods \"p\" is forbidden: {reason}")));
    }

    #[tokio::test]
    async fn pod_gets_the_priority_of_its_class() {
        let bench = Bench::new().await;
        check(&bench, json!({}), Ok(json!([null, 0, "PreemptLowerPriority"]))).await;
        let mut high = class("high", 1000, false);
        high["preemptionPolicy"] = "Never".into();
        bench.create(&PriorityClass, high).await;
        bench.create(&PriorityClass, class("usual", 7, true)).await;
        check(&bench, json!({}), Ok(json!(["usual", 7, "PreemptLowerPriority"]))).await;
        check(&bench, json!({"priority": 7}), Ok(json!(["usual", 7, "PreemptLowerPriority"]))).await;
        check(&bench, json!({"priorityClassName": "high"}), Ok(json!(["high", 1000, "Never"]))).await;
    }

    #[tokio::test]
    async fn pod_with_another_priority_than_its_class_is_rejected() {
        let bench = Bench::new().await;
        let unknown = "no PriorityClass with name none was found";
        check(&bench, json!({"priorityClassName": "none"}), Err(unknown)).await;
        let priority = "the integer value of priority (5) must not be provided in pod spec; \
                        priority admission controller computed 0 from the given PriorityClass name";
        check(&bench, json!({"priority": 5}), Err(priority)).await;
        let policy = "the string value of PreemptionPolicy (Never) must not be provided in pod spec; \
                      priority admission controller computed PreemptLowerPriority from the given \
                      PriorityClass name";
        check(&bench, json!({"preemptionPolicy": "Never"}), Err(policy)).await;
        let empty = policy.replace("(Never)", "()");
        check(&bench, json!({"preemptionPolicy": ""}), Err(&empty)).await;
    }

    #[tokio::test]
    async fn update_keeps_computed_fields() {
        let bench = Bench::new().await;
        let old = json!({"spec": {"priority": 3, "preemptionPolicy": "Never"}});
        let new = bench.admit_update(Priority, &Pod, "", &old, json!({"spec": {}})).await;
        assert_eq!(new.unwrap(), old);
    }

    #[tokio::test]
    async fn second_default_class_is_rejected() {
        let bench = Bench::new().await;
        assert!(bench.admit_new(Priority, &PriorityClass, class("a", 1, true)).await.is_ok());
        bench.create(&PriorityClass, class("a", 1, true)).await;
        let refused = bench.admit_new(Priority, &PriorityClass, class("b", 2, true)).await;
        let message = "priorityclasses.scheduling.k8s.io \"b\" is forbidden: PriorityClass a is already \
                       marked as default. Only one default can exist";
        assert_eq!(refused.unwrap_err(), message);
        assert!(bench.admit_new(Priority, &PriorityClass, class("b", 2, false)).await.is_ok());
        let same = class("a", 1, true);
        assert!(bench.admit_update(Priority, &PriorityClass, "", &same, same.clone()).await.is_ok());
        let (old, new) = (class("b", 2, false), class("b", 2, true));
        assert!(bench.admit_update(Priority, &PriorityClass, "", &old, new).await.is_err());
    }
}
