//! The 403 status with kube-apiserver's text (`ForbiddenStatusError` in `handlers/responsewriters` of
//! k8s.io/apiserver).

use coracle_meta::field::quoted;
use coracle_meta::gvk::GroupResource;
use coracle_meta::status::Status;
use coracle_registry::Identity;

use super::{Attributes, Target};

/// The status for a user without permission, with the reason of the authorizer.
pub(crate) fn forbidden(identity: &Identity, attributes: &Attributes<'_>, reason: &str) -> Status {
    let (verb, user) = (attributes.verb, quoted(&identity.name));
    let (resource, name, message) = match &attributes.target {
        Target::Path(path) => {
            let resource = GroupResource { group: "".into(), resource: "".into() };
            (resource, "", format!("User {user} cannot {verb} path {}", quoted(path)))
        }
        Target::Resource(target) => {
            let whole = match target.subresource {
                "" => target.resource.to_owned(),
                part => format!("{}/{part}", target.resource),
            };
            let place = match target.namespace {
                "" => "at the cluster scope".to_owned(),
                namespace => format!("in the namespace {}", quoted(namespace)),
            };
            let (whole, group) = (quoted(&whole), quoted(target.group));
            let message = format!("User {user} cannot {verb} resource {whole} in API group {group} {place}");
            let (group, resource) = (target.group.to_owned().into(), target.resource.to_owned().into());
            (GroupResource { group, resource }, target.name, message)
        }
    };
    let message = without_markup(&message);
    match reason {
        "" => Status::forbidden(&resource, name, message),
        reason => Status::forbidden(&resource, name, format!("{message}: {reason}")),
    }
}

/// Escapes client input, so that a browser does not interpret it as markup.
fn without_markup(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authorization::ResourceTarget;

    fn message(verb: &str, target: Target<'_>, reason: &str) -> String {
        let somebody = Identity { name: "u".into(), ..Identity::default() };
        forbidden(&somebody, &Attributes { verb, target }, reason).message
    }

    #[test]
    fn forbidden_messages_are_those_of_kube_apiserver() {
        let pod =
            ResourceTarget { resource: "pods", namespace: "ns", name: "x", ..ResourceTarget::default() };
        assert_eq!(
            message("get", Target::Resource(pod), ""),
            "pods \"x\" is forbidden: User \"u\" cannot get resource \"pods\" in API group \"\" in the \
             namespace \"ns\""
        );
        let roles = ResourceTarget {
            group: "rbac.authorization.k8s.io",
            resource: "clusterroles",
            ..ResourceTarget::default()
        };
        assert_eq!(
            message("list", Target::Resource(roles), "RBAC: no"),
            "clusterroles.rbac.authorization.k8s.io is forbidden: User \"u\" cannot list resource \
             \"clusterroles\" in API group \"rbac.authorization.k8s.io\" at the cluster scope: RBAC: no"
        );
        let scale = ResourceTarget { group: "apps", resource: "d", subresource: "scale", ..pod };
        assert_eq!(
            message("update", Target::Resource(scale), ""),
            "d.apps \"x\" is forbidden: User \"u\" cannot update resource \"d/scale\" in API group \"apps\" \
             in the namespace \"ns\""
        );
        assert_eq!(
            message("get", Target::Path("/<script>&\""), ""),
            "forbidden: User \"u\" cannot get path \"/&lt;script&gt;&amp;\\\"\""
        );
    }
}
