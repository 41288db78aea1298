//! Selection of the container that a streaming request, such as exec or log, refers to.

use serde_json::Value;

use crate::view;

/// Reason why no container of a pod could be selected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ContainerChoiceError {
    /// The pod has several containers, and the request names none.
    #[error("a container name must be specified for pod {pod}, choose one of: [{}]", .choices.join(" "))]
    Several {
        /// Name of the pod.
        pod: String,
        /// Names of its containers.
        choices: Vec<String>,
    },
    /// The pod has no containers.
    #[error("a container name must be specified for pod {pod}")]
    None {
        /// Name of the pod.
        pod: String,
    },
    /// The pod has no container of that name.
    #[error("container {container} is not valid for pod {pod}")]
    Unknown {
        /// Name of the pod.
        pod: String,
        /// Name of the container.
        container: String,
    },
}

/// Returns the named container of a pod, or its only one if `named` is empty.
///
/// # Errors
/// If there is no such container, or if none is named and the pod has not exactly one.
pub fn choose_container<'a>(pod: &'a Value, named: &'a str) -> Result<&'a str, ContainerChoiceError> {
    let of = |list| view::items(pod, &["spec", list]).iter().map(|one| view::text(one, &["name"]));
    let all = || of("initContainers").chain(of("containers")).chain(of("ephemeralContainers"));
    let pod_name = || view::name(pod).to_owned();
    if !named.is_empty() {
        let unknown = || ContainerChoiceError::Unknown { pod: pod_name(), container: named.to_owned() };
        return all().find(|name| *name == named).ok_or_else(unknown);
    }
    let mut containers = of("containers");
    match (containers.next(), containers.next()) {
        (Some(only), None) => Ok(only),
        (None, _) => Err(ContainerChoiceError::None { pod: pod_name() }),
        _ => {
            let choices = all().map(str::to_owned).collect();
            Err(ContainerChoiceError::Several { pod: pod_name(), choices })
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn container_must_be_named_if_there_are_several() {
        let one = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a"}]}});
        assert_eq!(choose_container(&one, ""), Ok("a"));
        let error = choose_container(&one, "b").unwrap_err();
        assert_eq!(error.to_string(), "container b is not valid for pod p");
        let several = json!({
            "metadata": {"name": "p"},
            "spec": {"initContainers": [{"name": "i"}], "containers": [{"name": "a"}, {"name": "b"}]}
        });
        assert_eq!(choose_container(&several, "i"), Ok("i"));
        let error = choose_container(&several, "").unwrap_err();
        assert_eq!(error.to_string(), "a container name must be specified for pod p, choose one of: [i a b]");
    }
}
