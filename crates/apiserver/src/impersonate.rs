//! Acting as somebody else: whoever may do that asks with headers, and everything after is decided
//! and noted as if the other had asked.

use std::collections::BTreeMap;

use coracle_meta::gvk::GroupResource;
use coracle_meta::status::Status;
use coracle_registry::Identity;
use http::HeaderMap;
use percent_encoding::percent_decode_str;

use crate::authorization::{Attributes, Permissions, ResourceTarget, Target};
use crate::identity::{ANONYMOUS, UNAUTHENTICATED, authenticated};
use crate::status::Refusal;

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";

const SERVICE_ACCOUNT: &str = "system:serviceaccount:";
const SERVICE_ACCOUNTS: &str = "system:serviceaccounts";

/// The group of the attributes of users that are not objects (`impersonate` in RBAC rules).
const AUTHENTICATION: &str = "authentication.k8s.io";

/// What all headers of impersonation begin with.
const PREFIX: &str = "impersonate-";

/// Whether a request says that it is from somebody else.
pub(crate) fn is_asked_for(headers: &HeaderMap) -> bool {
    headers.keys().any(|name| name.as_str().starts_with(PREFIX))
}

/// Takes all of it out of a request.
pub(crate) fn forget(headers: &mut HeaderMap) {
    let names: Vec<_> = headers.keys().filter(|name| name.as_str().starts_with(PREFIX)).cloned().collect();
    for name in names {
        headers.remove(name);
    }
}

/// Who the request is to be from, if not from whoever sent it.
///
/// # Errors
/// If the sender may not act as that, or does not say as whom.
pub(crate) fn impersonated(
    headers: &HeaderMap,
    sender: &Identity,
    permissions: &dyn Permissions,
) -> Result<Option<Identity>, Refusal> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let groups: Vec<String> =
        headers.get_all(GROUP).iter().filter_map(|value| value.to_str().ok()).map(str::to_owned).collect();
    let (name, uid, extra) = (text(USER), text(UID), extra(headers));
    if name.is_empty() {
        if groups.is_empty() && uid.is_empty() && extra.is_empty() {
            return Ok(None);
        }
        return Err(
            Status::internal_error("requested groups, uid or extra without impersonating a user").into()
        );
    }
    let wanted = Identity { name: name.to_owned(), uid: uid.to_owned(), groups, extra };
    check(&wanted, sender, permissions)?;
    Ok(Some(with_own_groups(wanted)))
}

fn extra(headers: &HeaderMap) -> BTreeMap<String, Vec<String>> {
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in headers {
        let Some(key) = name.as_str().strip_prefix(EXTRA) else { continue };
        let key = percent_decode_str(key).decode_utf8_lossy().into_owned();
        extra.entry(key).or_default().extend(value.to_str().ok().map(str::to_owned));
    }
    extra
}

/// Every part of the other identity is one that the sender may take on.
fn check(wanted: &Identity, sender: &Identity, permissions: &dyn Permissions) -> Result<(), Refusal> {
    let account = wanted.name.strip_prefix(SERVICE_ACCOUNT).and_then(|rest| rest.split_once(':'));
    let mut targets = vec![match account {
        Some((namespace, name)) => {
            ResourceTarget { resource: "serviceaccounts", namespace, name, ..ResourceTarget::default() }
        }
        None => ResourceTarget { resource: "users", name: &wanted.name, ..ResourceTarget::default() },
    }];
    targets.extend(wanted.groups.iter().map(|name| ResourceTarget {
        resource: "groups",
        name,
        ..ResourceTarget::default()
    }));
    let attribute = |resource, subresource, name| ResourceTarget {
        group: AUTHENTICATION,
        resource,
        subresource,
        name,
        ..ResourceTarget::default()
    };
    if !wanted.uid.is_empty() {
        targets.push(attribute("uids", "", &wanted.uid));
    }
    for (key, values) in &wanted.extra {
        targets.extend(values.iter().map(|value| attribute("userextras", key, value)));
    }
    for target in targets {
        let attributes = Attributes { verb: "impersonate", target: Target::Resource(target) };
        if !permissions.authorize(sender, &attributes).allowed {
            return Err(refused(sender, &target));
        }
    }
    Ok(())
}

fn refused(sender: &Identity, target: &ResourceTarget<'_>) -> Refusal {
    let resource =
        GroupResource { group: target.group.to_owned().into(), resource: target.resource.to_owned().into() };
    let why = format!(
        "User {:?} cannot impersonate resource {:?} in API group {:?} at the cluster scope",
        sender.name, target.resource, target.group
    );
    Status::forbidden(&resource, target.name, why).into()
}

/// Groups that follow from who somebody is.
fn with_own_groups(mut identity: Identity) -> Identity {
    let account = identity.name.strip_prefix(SERVICE_ACCOUNT).and_then(|rest| rest.split_once(':'));
    if let (true, Some((namespace, _))) = (identity.groups.is_empty(), account) {
        let of_namespace = format!("{SERVICE_ACCOUNTS}:{namespace}");
        identity.groups = vec![SERVICE_ACCOUNTS.to_owned(), of_namespace];
    }
    if identity.name == ANONYMOUS {
        if !identity.groups.iter().any(|group| group == UNAUTHENTICATED) {
            identity.groups.push(UNAUTHENTICATED.to_owned());
        }
        return identity;
    }
    authenticated(identity)
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;
    use crate::authorization::MastersOnly;

    fn asked(
        sender_groups: &[&str],
        headers: &[(&'static str, &'static str)],
    ) -> Result<Option<Identity>, u16> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        let groups = sender_groups.iter().map(|group| (*group).to_owned()).collect();
        let sender = Identity { name: "me".into(), groups, ..Identity::default() };
        impersonated(&map, &sender, &MastersOnly).map_err(|refusal| refusal.status().code)
    }

    const MASTERS: &[&str] = &["system:masters"];

    #[test]
    fn whoever_may_acts_as_another() {
        let headers = [
            (USER, "jane"),
            (GROUP, "dev"),
            (GROUP, "ops"),
            (UID, "7"),
            ("impersonate-extra-example.com%2fscopes", "view"),
        ];
        let jane = asked(MASTERS, &headers).unwrap().unwrap();
        assert_eq!((jane.name.as_str(), jane.uid.as_str()), ("jane", "7"));
        assert_eq!(jane.groups, ["dev", "ops", "system:authenticated"]);
        assert_eq!(jane.extra["example.com/scopes"], ["view"]);
        assert_eq!(asked(MASTERS, &[]), Ok(None));
    }

    #[test]
    fn accounts_and_strangers_are_in_their_groups() {
        let account = asked(MASTERS, &[(USER, "system:serviceaccount:ns:robot")]).unwrap().unwrap();
        let groups = ["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"];
        assert_eq!(account.groups, groups);
        let stranger = asked(MASTERS, &[(USER, ANONYMOUS)]).unwrap().unwrap();
        assert_eq!(stranger.groups, [UNAUTHENTICATED]);
    }

    #[test]
    fn others_are_refused() {
        assert_eq!(asked(&["dev"], &[(USER, "jane")]), Err(403));
        assert_eq!(asked(&["dev"], &[(USER, "system:serviceaccount:ns:robot")]), Err(403));
        assert_eq!(asked(MASTERS, &[(GROUP, "system:masters")]), Err(500));
    }
}
