//! ServiceAccount: assigns a service account to every pod, and mounts its token.
//!
//! Static pods of a node are represented by mirror pods, which are not changed and may not use a service account.

mod secrets;
mod token_volume;

use std::sync::Arc;
use std::time::Duration;

use coracle_meta::name::path_segment_name;
use coracle_meta::object::Meta;
use coracle_meta::selector::fields;
use coracle_meta::status::{Reason, Status};
use coracle_registry::admission::{Attributes, BoxFuture, Operation};
use coracle_registry::kinds::core::pod::references;
use coracle_registry::kinds::core::service_account::ServiceAccount as Kind;
use coracle_registry::lifecycle::{ListOptions, ObjectEvent, Selection, WatchOptions};
use coracle_registry::{Cluster, Error, Result, view};
use serde_json::{Value, json};

use super::plugin::{Plugin, Rule, forbidden};
use super::{PODS, read};

const DEFAULT_ACCOUNT: &str = "default";
const ENFORCE_ANNOTATION: &str = "kubernetes.io/enforce-mountable-secrets";

/// How long a pod waits for the default account that the controller creates in a new namespace. kube-apiserver tries up
/// to ten times, every 100 to 200 ms.
const PATIENCE: Duration = Duration::from_millis(1500);

pub(super) struct ServiceAccount {
    patience: Duration,
}

impl Default for ServiceAccount {
    fn default() -> Self {
        Self { patience: PATIENCE }
    }
}

impl Plugin for ServiceAccount {
    fn name(&self) -> &str {
        "ServiceAccount"
    }

    fn mutates(&self) -> Vec<Rule> {
        vec![Rule::new("", PODS, &[Operation::Create])]
    }

    fn validates(&self) -> Vec<Rule> {
        vec![
            Rule::new("", PODS, &[Operation::Create]),
            Rule::new("", PODS, &[Operation::Update]).of_subresource("ephemeralcontainers"),
        ]
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        pod: &'a mut Value,
        _warnings: &'a mut Vec<String>,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            if references::is_mirror(pod) {
                return Ok(());
            }
            if view::text(pod, &["spec", "serviceAccountName"]).is_empty() {
                for field in ["serviceAccountName", "serviceAccount"] {
                    *read::entry(pod, &["spec", field]) = DEFAULT_ACCOUNT.into();
                }
            }
            let account = self.account_of(attributes, pod).await?;
            if wants_token(pod, &account) {
                token_volume::mount(pod, || attributes.cluster.generate_name(token_volume::PREFIX));
            }
            set_pull_secrets(pod, &account);
            Ok(())
        })
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        pod: &'a Value,
        _warnings: &'a mut Vec<String>,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let is_update = attributes.operation == Operation::Update;
            let fault = if !is_update && references::is_mirror(pod) {
                mirror_fault(pod)
            } else {
                let account = self.account_of(attributes, pod).await?;
                let lists = if is_update { secrets::EPHEMERAL } else { secrets::CONTAINERS };
                enforces(&account).then(|| secrets::fault(pod, &account, lists)).flatten()
            };
            match fault {
                // kube-apiserver returns this error without the reason Forbidden.
                Some(message) if is_update => {
                    Err(Error::Refused(Box::new(Status::failure(Reason::Unknown, message))))
                }
                Some(message) => Err(forbidden(attributes, pod, message)),
                None => Ok(()),
            }
        })
    }
}

impl ServiceAccount {
    async fn account_of(&self, attributes: &Attributes<'_>, pod: &Value) -> Result<Arc<Value>> {
        let namespace = attributes.write.namespace;
        let name = view::text(pod, &["spec", "serviceAccountName"]);
        if name.is_empty() {
            let message = format!("no service account specified for pod {namespace}/{}", view::name(pod));
            return Err(forbidden(attributes, pod, message));
        }
        let mut account = attributes.cluster.find(&Kind, namespace, name).await?;
        if account.is_none() && name == DEFAULT_ACCOUNT {
            let appearance = appearance(attributes.cluster, namespace);
            let _ = tokio::time::timeout(self.patience, appearance).await.ok().transpose()?;
            account = attributes.cluster.find(&Kind, namespace, name).await?;
        }
        account.ok_or_else(|| {
            // kube-apiserver reads the account by a client, which rejects names that cannot be in a path.
            let faults = path_segment_name(name);
            let why = match faults.is_empty() {
                true => format!("serviceaccount {name:?} not found"),
                false => format!("invalid resource name {name:?}: [{}]", faults.join(" ")),
            };
            let message = format!("error looking up service account {namespace}/{name}: {why}");
            forbidden(attributes, pod, message)
        })
    }
}

/// Waits until the default account exists.
async fn appearance(cluster: &Cluster, namespace: &str) -> Result<()> {
    let selection = Selection {
        fields: fields::Selector::equals("metadata.name", DEFAULT_ACCOUNT),
        ..Selection::default()
    };
    let options = ListOptions { selection: selection.clone(), ..ListOptions::default() };
    let page = cluster.list(&Kind, namespace, &options).await?;
    if !page.entries.is_empty() {
        return Ok(());
    }
    let options = WatchOptions { selection, after: page.revision };
    let mut watch = cluster.watch(&Kind, namespace, options).await?;
    while let Some(event) = watch.next().await? {
        if let ObjectEvent::Added(_) | ObjectEvent::Modified(_) = event {
            break;
        }
    }
    Ok(())
}

/// Returns true if the pod gets a token. The pod's setting takes precedence over its account's.
fn wants_token(pod: &Value, account: &Value) -> bool {
    let field = "automountServiceAccountToken";
    view::at(pod, &["spec", field])
        .or_else(|| view::at(account, &[field]))
        .and_then(Value::as_bool)
        .unwrap_or(true)
}

fn set_pull_secrets(pod: &mut Value, account: &Value) {
    let own = view::items(pod, &["spec", "imagePullSecrets"]);
    let of_account = view::items(account, &["imagePullSecrets"]);
    if own.is_empty() && !of_account.is_empty() {
        let names = of_account.iter().map(|secret| json!({"name": view::text(secret, &["name"])}));
        *read::entry(pod, &["spec", "imagePullSecrets"]) = names.collect();
    }
}

/// Returns true if pods of the account may use only the secrets that it names.
fn enforces(account: &Value) -> bool {
    let value = Meta::of(account).annotation(ENFORCE_ANNOTATION);
    matches!(value, Some("1" | "t" | "T" | "true" | "TRUE" | "True"))
}

fn mirror_fault(pod: &Value) -> Option<String> {
    let uses_tokens = || {
        view::items(pod, &["spec", "volumes"])
            .iter()
            .flat_map(|volume| view::items(volume, &["projected", "sources"]))
            .any(|source| view::at(source, &["serviceAccountToken"]).is_some())
    };
    let fault = if !view::text(pod, &["spec", "serviceAccountName"]).is_empty() {
        "a mirror pod may not reference service accounts"
    } else if references::secret_names(pod).next().is_some() {
        "a mirror pod may not reference secrets"
    } else if uses_tokens() {
        "a mirror pod may not use ServiceAccountToken volume projections"
    } else {
        return None;
    };
    Some(fault.to_owned())
}

#[cfg(test)]
mod tests {
    use coracle_registry::kinds::core::pod::Pod;

    use super::super::testing::Bench;
    use super::*;

    fn plugin() -> ServiceAccount {
        ServiceAccount { patience: Duration::ZERO }
    }

    fn pod(spec: Value) -> Value {
        json!({"metadata": {"name": "p"}, "spec": spec})
    }

    async fn bench(account: Value) -> Bench {
        let bench = Bench::new().await;
        let mut object =
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
        object.as_object_mut().unwrap().extend(account.as_object().unwrap().clone());
        bench.create(&Kind, object).await;
        bench
    }

    /// The expected pod is that of kube-apiserver.
    #[tokio::test]
    async fn pod_gets_account_token_and_pull_secrets() {
        let bench = bench(json!({"imagePullSecrets": [{"name": "reg"}]})).await;
        let spec = json!({"containers": [{"name": "c"}], "initContainers": [{"name": "i"}]});
        let pod = bench.admit_new(plugin(), &Pod, pod(spec)).await.unwrap();
        let spec = &pod["spec"];
        assert_eq!(
            (&spec["serviceAccountName"], &spec["serviceAccount"]),
            (&json!("default"), &json!("default"))
        );
        assert_eq!(spec["imagePullSecrets"], json!([{"name": "reg"}]));
        let name = view::text(&spec["volumes"][0], &["name"]);
        assert!(name.starts_with("kube-api-access-") && name.len() == "kube-api-access-".len() + 5, "{name}");
        let mount = json!([{"name": name, "readOnly": true, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}]);
        assert_eq!(spec["containers"][0]["volumeMounts"], mount);
        assert_eq!(spec["initContainers"][0]["volumeMounts"], mount);
        assert_eq!(
            spec["volumes"],
            json!([{"name": name, "projected": {"defaultMode": 420, "sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {"configMap": {"items": [{"key": "ca.crt", "path": "ca.crt"}], "name": "kube-root-ca.crt"}},
                {"downwardAPI": {"items": [
                    {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}, "path": "namespace"}
                ]}},
            ]}}])
        );
    }

    #[tokio::test]
    async fn pod_setting_overrides_the_account_for_token_mounts() {
        let has_token = async |account: Value, own: Value| {
            let bench = bench(account).await;
            let spec = json!({"containers": [{"name": "c"}], "automountServiceAccountToken": own});
            let pod = bench.admit_new(plugin(), &Pod, pod(spec)).await.unwrap();
            view::at(&pod, &["spec", "volumes"]).is_some()
        };
        let refusing = json!({"automountServiceAccountToken": false});
        assert!(!has_token(refusing.clone(), Value::Null).await);
        assert!(has_token(refusing, true.into()).await);
        assert!(!has_token(json!({}), false.into()).await);
    }

    #[tokio::test]
    async fn pod_with_a_missing_account_is_rejected() {
        let bench = Bench::new().await;
        for (name, why) in [
            ("default", "serviceaccount \"default\" not found"),
            ("robot", "serviceaccount \"robot\" not found"),
            ("a/b", "invalid resource name \"a/b\": [may not contain '/']"),
        ] {
            let refused = bench.admit_new(plugin(), &Pod, pod(json!({"serviceAccountName": name}))).await;
            let message =
                format!("pods \"p\" is forbidden: error looking up service account default/{name}: {why}");
            assert_eq!(refused.unwrap_err(), message);
        }
    }

    #[tokio::test]
    async fn pod_waits_for_the_default_account_of_a_new_namespace() {
        let bench = Bench::new().await;
        let patient = ServiceAccount { patience: Duration::from_secs(60) };
        let admitted = bench.admit_new(patient, &Pod, pod(json!({"containers": [{"name": "c"}]})));
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
        let (admitted, ()) = tokio::join!(admitted, bench.create(&Kind, account));
        assert!(admitted.is_ok());
    }

    #[tokio::test]
    async fn mirror_pod_is_unchanged_and_may_not_use_an_account() {
        let bench = Bench::new().await;
        let check = async |spec: Value, refused: Option<&str>| {
            let pod = json!({"metadata": {"name": "p", "annotations": {"kubernetes.io/config.mirror": ""}}, "spec": spec});
            let mut same = pod.clone();
            coracle_registry::Kind::set_defaults(&Pod, &mut same);
            let outcome = bench.admit_new(plugin(), &Pod, pod).await;
            let message = |reason| format!("pods \"p\" is forbidden: {reason}");
            assert_eq!(outcome, refused.map(message).map_or(Ok(same), Err));
        };
        check(json!({"containers": [{"name": "c"}]}), None).await;
        let account = json!({"serviceAccountName": "a"});
        check(account, Some("a mirror pod may not reference service accounts")).await;
        let secret = json!({"volumes": [{"name": "v", "secret": {"secretName": "s"}}]});
        check(secret, Some("a mirror pod may not reference secrets")).await;
        let token = json!({"volumes": [{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]});
        check(token, Some("a mirror pod may not use ServiceAccountToken volume projections")).await;
    }

    #[tokio::test]
    async fn account_may_restrict_pods_to_its_secrets() {
        let bench = bench(json!({
            "metadata": {"name": "default", "annotations": {ENFORCE_ANNOTATION: "true"}},
            "secrets": [{"name": "mine"}],
        }))
        .await;
        let volume = |name: &str| pod(json!({"volumes": [{"name": "v", "secret": {"secretName": name}}]}));
        assert!(bench.admit_new(plugin(), &Pod, volume("mine")).await.is_ok());
        let refused = bench.admit_new(plugin(), &Pod, volume("other")).await;
        let message = "pods \"p\" is forbidden: volume with secret.secretName=\"other\" is not allowed \
                       because service account default does not reference that secret";
        assert_eq!(refused.unwrap_err(), message);
        let env = json!([{"name": "E", "valueFrom": {"secretKeyRef": {"name": "other", "key": "k"}}}]);
        let debugged = pod(json!({
            "serviceAccountName": "default", "ephemeralContainers": [{"name": "d", "env": env}],
            "volumes": [{"name": "v", "secret": {"secretName": "other"}}],
        }));
        let old = pod(json!({}));
        let refused = bench.admit_update(plugin(), &Pod, "ephemeralcontainers", &old, debugged).await;
        let message = "ephemeral container d with envVar E referencing \
                       secret.secretName=\"other\" is not allowed because service account default does not \
                       reference that secret";
        assert_eq!(refused.unwrap_err(), message);
    }
}
