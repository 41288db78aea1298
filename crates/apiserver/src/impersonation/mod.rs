//! User impersonation: a permitted sender names another user in headers, and later filters authorize and record the
//! request as if that user had sent it.
//!
//! There are several modes, tried in kube-apiserver's order (`pkg/endpoints/filters/impersonation` of
//! k8s.io/apiserver): constrained modes, which also limit the operations, and the legacy mode, which allows everything
//! that the impersonated user may do.

mod extra;
mod headers;
mod mode;

use coracle_registry::Identity;
use http::HeaderMap;
use tokio::time::Instant;

use crate::authorization::{Attributes, Permissions};
use crate::metrics::ServerMetrics;
use crate::status::Refusal;
use mode::MODES;

pub(crate) use headers::is_asked_for;

/// Returns the impersonated user, or None without impersonation headers. Removes the headers from the request, so that
/// later filters treat it like a request of that user.
///
/// # Errors
/// If the sender may not impersonate the user, or the headers are invalid.
pub(crate) fn impersonated(
    headers: &mut HeaderMap,
    sender: &Identity,
    attributes: &Attributes<'_>,
    permissions: &dyn Permissions,
    metrics: &ServerMetrics,
) -> Result<Option<Identity>, Refusal> {
    let requested = headers::requested(headers).map_err(Refusal::bad_impersonation)?;
    let Some(requested) = requested else { return Ok(None) };
    headers::strip(headers);
    let began = Instant::now();
    let mut refused = None;
    for mode in MODES {
        match mode.check(&requested, sender, attributes, permissions, metrics) {
            Some(Ok(identity)) => {
                metrics.note_impersonation(Some(mode.name()), began.elapsed());
                return Ok(Some(identity));
            }
            Some(Err(status)) => refused = refused.or(Some(status)),
            None => {}
        }
    }
    metrics.note_impersonation(None, began.elapsed());
    // The legacy mode applies to every user, so at least one mode has rejected the request.
    Err(refused.map_or_else(Refusal::undecided, |status| Refusal::unauthorized_action(*status)))
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;
    use crate::authorization::{Decision, MastersOnly, ResourceTarget, Rules, Target};

    const USER: &str = "impersonate-user";
    const GROUP: &str = "impersonate-group";
    const MASTERS: &[&str] = &["system:masters"];
    const POD: Target<'_> = Target::Resource(ResourceTarget {
        group: "",
        version: "v1",
        resource: "pods",
        subresource: "",
        namespace: "ns",
        name: "p",
        field_selector: &[],
        label_selector: &[],
    });

    fn ask(
        sender: &Identity,
        permissions: &dyn Permissions,
        headers: &[(&'static str, &'static str)],
    ) -> Result<Option<Identity>, (u16, String)> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        let attributes = Attributes { verb: "get", target: POD };
        let outcome = impersonated(&mut map, sender, &attributes, permissions, &ServerMetrics::default());
        if matches!(outcome, Ok(Some(_))) {
            assert!(!is_asked_for(&map), "headers stay behind");
        }
        outcome.map_err(|refusal| (refusal.status().code, refusal.status().message.clone()))
    }

    fn impersonate(
        groups: &[&str],
        headers: &[(&'static str, &'static str)],
    ) -> Result<Option<Identity>, (u16, String)> {
        let groups = groups.iter().map(|group| (*group).to_owned()).collect();
        ask(&Identity { name: "me".into(), groups, ..Identity::default() }, &MastersOnly, headers)
    }

    /// Permissions that allow these requests, each `verb group resource/subresource namespace/name`.
    struct Allows(&'static [&'static str]);

    impl Permissions for Allows {
        fn authorize(&self, _identity: &Identity, attributes: &Attributes<'_>) -> Decision {
            let Target::Resource(target) = &attributes.target else { return Decision::default() };
            let shown = format!(
                "{} {} {}/{} {}/{}",
                attributes.verb,
                target.group,
                target.resource,
                target.subresource,
                target.namespace,
                target.name
            );
            Decision { allowed: self.0.contains(&&*shown), ..Decision::default() }
        }

        fn rules(&self, _identity: &Identity, _namespace: &str) -> Rules {
            Rules::default()
        }
    }

    #[test]
    fn permitted_sender_impersonates_another_user() {
        let headers = [
            (USER, "jane"),
            (GROUP, "dev"),
            (GROUP, "ops"),
            ("impersonate-uid", "7"),
            ("impersonate-extra-example.com%2fscopes", "view"),
        ];
        let jane = impersonate(MASTERS, &headers).unwrap().unwrap();
        assert_eq!((jane.name.as_str(), jane.uid.as_str()), ("jane", "7"));
        assert_eq!(jane.groups, ["dev", "ops", "system:authenticated"]);
        assert_eq!(jane.extra["example.com/scopes"], ["view"]);
        assert_eq!(impersonate(MASTERS, &[]), Ok(None));
    }

    #[test]
    fn impersonated_users_get_their_implied_groups() {
        let account = impersonate(MASTERS, &[(USER, "system:serviceaccount:ns:robot")]).unwrap().unwrap();
        let groups = ["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"];
        assert_eq!(account.groups, groups);
        let node = impersonate(MASTERS, &[(USER, "system:node:n")]).unwrap().unwrap();
        assert_eq!(node.groups, ["system:nodes", "system:authenticated"]);
        let stranger = impersonate(MASTERS, &[(USER, "system:anonymous")]).unwrap().unwrap();
        assert_eq!(stranger.groups, ["system:unauthenticated"]);
    }

    #[test]
    fn sender_without_permission_gets_the_message_of_kube_apiserver() {
        let refusal = impersonate(&["dev"], &[(USER, "jane")]).unwrap_err();
        let message = "pods \"p\" is forbidden: User \"me\" cannot impersonate-on:user-info:get resource \
                       \"pods\" in API group \"\" in the namespace \"ns\"";
        assert_eq!(refusal, (403, message.to_owned()));
        let (code, message) = impersonate(&["dev"], &[(USER, "system:serviceaccount:ns:robot")]).unwrap_err();
        assert_eq!(code, 403);
        assert!(message.contains("cannot impersonate-on:serviceaccount:get resource"), "{message}");
        let (code, message) = impersonate(MASTERS, &[(GROUP, "system:masters")]).unwrap_err();
        assert_eq!(
            (code, &*message),
            (
                400,
                "requested &user.DefaultInfo{Name:\"\", UID:\"\", Groups:[]string{\"system:masters\"}, \
                 Extra:map[string][]string(nil)} without impersonating a user name"
            )
        );
    }

    #[test]
    fn unreadable_user_header_is_not_treated_as_the_sender() {
        let mut headers = HeaderMap::new();
        headers.insert(USER, HeaderValue::from_bytes(b"jan\xe9").unwrap());
        let attributes = Attributes { verb: "get", target: POD };
        let admin = Identity { groups: vec!["system:masters".into()], ..Identity::default() };
        let jane = impersonated(&mut headers, &admin, &attributes, &MastersOnly, &ServerMetrics::default())
            .unwrap()
            .unwrap();
        assert_eq!(jane.name, "jan\u{fffd}");
    }

    #[test]
    fn constrained_impersonation_limits_operations() {
        let sender = Identity { name: "me".into(), ..Identity::default() };
        let rules: &[&str] = &[
            "impersonate-on:user-info:get  pods/ ns/p",
            "impersonate:user-info authentication.k8s.io users/ /jane",
            "impersonate:user-info authentication.k8s.io groups/ /dev",
            "impersonate:user-info authentication.k8s.io groups/ /system:masters",
        ];
        let ask = |headers: &[(&'static str, &'static str)]| ask(&sender, &Allows(rules), headers);
        assert_eq!(ask(&[(USER, "jane"), (GROUP, "dev")]).unwrap().unwrap().name, "jane");
        assert!(ask(&[(USER, "joe")]).is_err());
        let (_, message) = ask(&[(USER, "jane"), (GROUP, "system:masters")]).unwrap_err();
        assert!(message.ends_with("impersonating the system:masters group is not allowed"), "{message}");
        // Nodes and accounts require their own modes.
        assert!(ask(&[(USER, "system:node:n")]).is_err());
    }

    #[test]
    fn associated_node_mode_is_limited_to_the_own_node() {
        let node = |name: &str| Identity {
            name: "system:serviceaccount:kube-system:agent".into(),
            extra: [("authentication.kubernetes.io/node-name".to_owned(), vec![name.to_owned()])].into(),
            ..Identity::default()
        };
        let rules = Allows(&[
            "impersonate-on:associated-node:get  pods/ ns/p",
            "impersonate:associated-node authentication.k8s.io nodes/ /*",
        ]);
        let own = ask(&node("n"), &rules, &[(USER, "system:node:n")]).unwrap().unwrap();
        assert_eq!((own.name.as_str(), own.groups[0].as_str()), ("system:node:n", "system:nodes"));
        assert!(ask(&node("other"), &rules, &[(USER, "system:node:n")]).is_err());
        assert!(ask(&node("n"), &rules, &[(USER, "system:node:n"), (GROUP, "x")]).is_err());
    }
}
