//! Checks that a pod uses only secrets that its account names.

use coracle_registry::view;
use serde_json::Value;

/// A list of containers, and the name of its members in messages.
type Containers = (&'static str, &'static str);

/// The containers of a new pod.
pub(super) const CONTAINERS: &[Containers] =
    &[("initContainers", "init container"), ("containers", "container")];

/// The containers that an update can add.
pub(super) const EPHEMERAL: &[Containers] = &[("ephemeralContainers", "ephemeral container")];

/// The error for the first secret that the account does not name. Volumes and pull secrets are checked only together
/// with the containers of a new pod.
pub(super) fn fault(pod: &Value, account: &Value, lists: &[Containers]) -> Option<String> {
    let whole_pod = lists == CONTAINERS;
    let of_volumes = || whole_pod.then(|| volume_fault(pod, account)).flatten();
    let of_containers = || lists.iter().find_map(|list| container_fault(pod, account, *list));
    let of_pull_secrets = || whole_pod.then(|| pull_secret_fault(pod, account)).flatten();
    of_volumes().or_else(of_containers).or_else(of_pull_secrets)
}

fn volume_fault(pod: &Value, account: &Value) -> Option<String> {
    let mut volumes = view::items(pod, &["spec", "volumes"]).iter();
    volumes.find_map(|volume| {
        let name = view::text(view::at(volume, &["secret"])?, &["secretName"]);
        (!names(account, "secrets", name))
            .then(|| refusal(&format!("volume with secret.secretName=\"{name}\""), account))
    })
}

fn container_fault(pod: &Value, account: &Value, (list, called): Containers) -> Option<String> {
    let refused = |container: &Value, by: &str, secret: &str| {
        (!names(account, "secrets", secret)).then(|| {
            let container = view::text(container, &["name"]);
            let what = format!("{called} {container} with {by} referencing secret.secretName=\"{secret}\"");
            refusal(&what, account)
        })
    };
    view::items(pod, &["spec", list]).iter().find_map(|container| {
        let by_variable = view::items(container, &["env"]).iter().find_map(|variable| {
            let secret = view::at(variable, &["valueFrom", "secretKeyRef"])?;
            let by = format!("envVar {}", view::text(variable, &["name"]));
            refused(container, &by, view::text(secret, &["name"]))
        });
        by_variable.or_else(|| {
            view::items(container, &["envFrom"]).iter().find_map(|source| {
                refused(container, "envFrom", view::text(view::at(source, &["secretRef"])?, &["name"]))
            })
        })
    })
}

fn refusal(what: &str, account: &Value) -> String {
    let account = view::name(account);
    format!("{what} is not allowed because service account {account} does not reference that secret")
}

fn pull_secret_fault(pod: &Value, account: &Value) -> Option<String> {
    let secrets = view::items(pod, &["spec", "imagePullSecrets"]);
    let named = |secret: &Value| names(account, "imagePullSecrets", view::text(secret, &["name"]));
    let (index, secret) = secrets.iter().enumerate().find(|(_, secret)| !named(secret))?;
    let (secret, account) = (view::text(secret, &["name"]), view::name(account));
    Some(format!(
        "imagePullSecrets[{index}].name=\"{secret}\" is not allowed because service account {account} \
         does not reference that imagePullSecret"
    ))
}

fn names(account: &Value, list: &str, secret: &str) -> bool {
    view::items(account, &[list]).iter().any(|named| view::text(named, &["name"]) == secret)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_use_of_a_secret_has_its_message() {
        let account = json!({"metadata": {"name": "a"}});
        let check = |spec: Value, expected: &str| {
            let found = fault(&json!({"spec": spec}), &account, CONTAINERS);
            assert_eq!(found.as_deref(), Some(expected));
        };
        check(
            json!({"initContainers": [{"name": "i", "envFrom": [{"secretRef": {"name": "s"}}]}]}),
            "init container i with envFrom referencing secret.secretName=\"s\" is not allowed because \
             service account a does not reference that secret",
        );
        check(
            json!({"imagePullSecrets": [{"name": "s"}]}),
            "imagePullSecrets[0].name=\"s\" is not allowed because service account a does not reference \
             that imagePullSecret",
        );
    }
}
