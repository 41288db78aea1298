//! RuntimeClass: sets the overhead and the scheduling constraints of a pod from its runtime class.

use std::sync::Arc;

use coracle_api::usage::amounts;
use coracle_meta::name::path_segment_name;
use coracle_registry::admission::{Attributes, BoxFuture, Operation};
use coracle_registry::kinds::node::runtime_class::RuntimeClass as Kind;
use coracle_registry::{Error, Result, view};
use serde_json::Value;

use super::plugin::{Plugin, Rule, forbidden};
use super::{PODS, read};

const OTHER_OVERHEAD: &str = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";
const OWN_OVERHEAD: &str =
    "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";

pub(super) struct RuntimeClass;

impl Plugin for RuntimeClass {
    fn name(&self) -> &str {
        "RuntimeClass"
    }

    fn mutates(&self) -> Vec<Rule> {
        vec![Rule::new("", PODS, &[Operation::Create])]
    }

    fn validates(&self) -> Vec<Rule> {
        self.mutates()
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        pod: &'a mut Value,
        _warnings: &'a mut Vec<String>,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let Some(class) = class_of(attributes, pod).await? else { return Ok(()) };
            let outcome = set_overhead(pod, &class).and_then(|()| set_scheduling(pod, &class));
            outcome.map_err(|message| forbidden(attributes, pod, message))
        })
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        pod: &'a Value,
        _warnings: &'a mut Vec<String>,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let class = class_of(attributes, pod).await?;
            let wanted = class.as_ref().filter(|class| view::at(class, &["overhead"]).is_some());
            match wanted {
                Some(class) if !same_overhead(pod, class) => Err(forbidden(attributes, pod, OTHER_OVERHEAD)),
                None if view::at(pod, &["spec", "overhead"]).is_some() => {
                    Err(forbidden(attributes, pod, OWN_OVERHEAD))
                }
                _ => Ok(()),
            }
        })
    }
}

async fn class_of(attributes: &Attributes<'_>, pod: &Value) -> Result<Option<Arc<Value>>> {
    let Some(name) = view::at(pod, &["spec", "runtimeClassName"]).and_then(Value::as_str) else {
        return Ok(None);
    };
    // kube-apiserver reads the class by a client, which rejects such names.
    let faults = path_segment_name(name);
    if !faults.is_empty() {
        return Err(Error::Unspecific(format!("invalid resource name {name:?}: [{}]", faults.join(" "))));
    }
    let class = attributes.cluster.find(&Kind, "", name).await?;
    if class.is_none() {
        let message = format!("pod rejected: RuntimeClass {name:?} not found");
        return Err(forbidden(attributes, pod, message));
    }
    Ok(class)
}

fn same_overhead(pod: &Value, class: &Value) -> bool {
    amounts(class, &["overhead", "podFixed"]) == amounts(pod, &["spec", "overhead"])
}

fn set_overhead(pod: &mut Value, class: &Value) -> Result<(), String> {
    if view::at(class, &["overhead"]).is_none() {
        return Ok(());
    }
    if view::fields(pod, &["spec", "overhead"]).next().is_some() && !same_overhead(pod, class) {
        return Err(OTHER_OVERHEAD.to_owned());
    }
    if let Some(overhead) = view::at(class, &["overhead", "podFixed"]) {
        *read::entry(pod, &["spec", "overhead"]) = overhead.clone();
    }
    Ok(())
}

fn set_scheduling(pod: &mut Value, class: &Value) -> Result<(), String> {
    for (key, value) in view::fields(class, &["scheduling", "nodeSelector"]) {
        let path = ["spec", "nodeSelector", key];
        if let Some(own) = view::at(pod, &path).filter(|own| *own != value) {
            let (own, value) = (own.as_str().unwrap_or_default(), value.as_str().unwrap_or_default());
            return Err(format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; \
                 pod.spec.nodeSelector[{key}] = {own}"
            ));
        }
        *read::entry(pod, &path) = value.clone();
    }
    if view::at(class, &["scheduling"]).is_some() {
        let own = view::items(pod, &["spec", "tolerations"]);
        let merged = merge(own, view::items(class, &["scheduling", "tolerations"]));
        if !merged.is_empty() {
            *read::entry(pod, &["spec", "tolerations"]) = Value::Array(merged);
        }
    }
    Ok(())
}

/// Concatenates tolerations, without those that another toleration of the result covers.
fn merge(own: &[Value], further: &[Value]) -> Vec<Value> {
    let all: Vec<&Value> = own.iter().chain(further).collect();
    let mut merged: Vec<Value> = Vec::new();
    for (index, toleration) in all.iter().enumerate() {
        let said_before = merged.iter().any(|other| covers(other, toleration));
        // Of two equal tolerations, the first is kept.
        let said_later =
            all[index + 1..].iter().any(|other| other != toleration && covers(other, toleration));
        if !said_before && !said_later {
            merged.push((*toleration).clone());
        }
    }
    merged
}

/// Returns true if one toleration tolerates everything that another does.
fn covers(wide: &Value, narrow: &Value) -> bool {
    let field = |toleration, name: &str| view::text(toleration, &[name]).to_owned();
    let seconds = |toleration| view::integer(toleration, &["tolerationSeconds"]);
    let same = |name: &str| field(wide, name) == field(narrow, name);
    let operator = field(wide, "operator");
    if wide == narrow {
        return true;
    }
    let any_key = field(wide, "key").is_empty() && operator == "Exists";
    let any_effect = field(wide, "effect").is_empty();
    if !(same("key") || any_key) || !(same("effect") || any_effect) {
        return false;
    }
    let is_shorter = |limit: i64| seconds(narrow).is_none_or(|own| own > limit);
    if field(wide, "effect") == "NoExecute" && seconds(wide).is_some_and(is_shorter) {
        return false;
    }
    match &*operator {
        "Exists" => true,
        "Equal" | "" => field(narrow, "operator") == "Equal" && same("value"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use coracle_registry::kinds::core::pod::Pod;
    use serde_json::json;

    use super::super::testing::Bench;
    use super::*;

    async fn bench() -> Bench {
        let bench = Bench::new().await;
        let class = |name: &str| json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": name}, "handler": "h"});
        bench.create(&Kind, class("plain")).await;
        let mut heavy = class("heavy");
        heavy["overhead"] = json!({"podFixed": {"cpu": "10m", "memory": "16Mi"}});
        heavy["scheduling"] =
            json!({"nodeSelector": {"a": "b"}, "tolerations": [{"key": "k", "operator": "Exists"}]});
        bench.create(&Kind, heavy).await;
        bench
    }

    async fn check(bench: &Bench, spec: Value, expected: Result<Value, &str>) {
        let pod = json!({"metadata": {"name": "p"}, "spec": spec});
        let outcome = bench.admit_new(RuntimeClass, &Pod, pod).await.map(|pod| {
            let fields = ["overhead", "nodeSelector", "tolerations"];
            fields.map(|field| pod["spec"][field].clone()).into_iter().collect()
        });
        assert_eq!(outcome, expected.map_err(|reason| format!("pods \"p\" is forbidden: {reason}")));
    }

    #[tokio::test]
    async fn pod_gets_overhead_and_scheduling_of_its_class() {
        let bench = bench().await;
        let overhead = json!({"cpu": "10m", "memory": "16Mi"});
        let class = json!({"key": "k", "operator": "Exists"});
        let expected = json!([overhead, {"a": "b", "c": "d"}, [{"key": "x", "operator": "Exists"}, class]]);
        let spec = json!({
            "runtimeClassName": "heavy", "nodeSelector": {"c": "d"},
            "tolerations": [
                {"key": "x", "operator": "Exists"},
                {"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"},
            ],
        });
        check(&bench, spec, Ok(expected)).await;
        let same = json!({"runtimeClassName": "heavy", "overhead": {"cpu": "0.01", "memory": "16Mi"}});
        check(&bench, same, Ok(json!([overhead, {"a": "b"}, [class]]))).await;
        check(&bench, json!({"runtimeClassName": "plain"}), Ok(json!([null, null, null]))).await;
        check(&bench, json!({}), Ok(json!([null, null, null]))).await;
    }

    #[tokio::test]
    async fn pod_with_other_overhead_than_its_class_is_rejected() {
        let bench = bench().await;
        let missing = "pod rejected: RuntimeClass \"none\" not found";
        check(&bench, json!({"runtimeClassName": "none"}), Err(missing)).await;
        let pod = json!({"metadata": {"name": "p"}, "spec": {"runtimeClassName": "a/b"}});
        let refused = bench.admit_new(RuntimeClass, &Pod, pod).await;
        assert_eq!(refused.unwrap_err(), "invalid resource name \"a/b\": [may not contain '/']");
        let spec = json!({"runtimeClassName": "heavy", "overhead": {"cpu": "1m"}});
        check(&bench, spec, Err(OTHER_OVERHEAD)).await;
        check(&bench, json!({"overhead": {"cpu": "1m"}}), Err(OWN_OVERHEAD)).await;
        let spec = json!({"runtimeClassName": "plain", "overhead": {"cpu": "1m"}});
        check(&bench, spec, Err(OWN_OVERHEAD)).await;
        let elsewhere = json!({"runtimeClassName": "heavy", "nodeSelector": {"a": "z"}});
        let conflict = "conflict: runtimeClass.scheduling.nodeSelector[a] = b; pod.spec.nodeSelector[a] = z";
        check(&bench, elsewhere, Err(conflict)).await;
    }

    #[test]
    fn covered_tolerations_are_dropped() {
        let all = json!({"operator": "Exists"});
        let some = json!({"key": "a", "operator": "Equal", "value": "b", "effect": "NoExecute"});
        assert!(covers(&all, &some) && !covers(&some, &all));
        assert_eq!(merge(std::slice::from_ref(&some), std::slice::from_ref(&all)), [all]);
        let short = json!({"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5});
        assert!(!covers(&short, &some));
        assert_eq!(merge(&[some.clone(), short.clone()], &[]), [some, short]);
    }
}
