//! Which container of a pod is meant by somebody who wants to talk to it.

use serde_json::Value;

use crate::view;

/// Why no container of a pod is meant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ContainerChoiceError {
    /// There are several, and none was named.
    #[error("a container name must be specified for pod {pod}, choose one of: [{}]", .choices.join(" "))]
    Several {
        /// The pod.
        pod: String,
        /// Its containers.
        choices: Vec<String>,
    },
    /// There is none at all.
    #[error("a container name must be specified for pod {pod}")]
    None {
        /// The pod.
        pod: String,
    },
    /// There is none of this name.
    #[error("container {container} is not valid for pod {pod}")]
    Unknown {
        /// The pod.
        pod: String,
        /// The name.
        container: String,
    },
}

/// The container that is meant: the one named, or the only one.
///
/// # Errors
/// If there is no such container, or it is not clear which.
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
    fn one_of_several_has_to_be_named() {
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
