//! The impersonation modes, each with its own permissions.

use coracle_meta::name::{dns1123_label, dns1123_subdomain};
use coracle_meta::status::Status;
use coracle_registry::Identity;

use tokio::time::Instant;

use super::extra;
use crate::authorization::{Attributes, Permissions, ResourceTarget, Target, forbidden};
use crate::identity::{ANONYMOUS, UNAUTHENTICATED};
use crate::metrics::ServerMetrics;

const AUTHENTICATED: &str = "system:authenticated";
const MASTERS: &str = "system:masters";
const NODES: &str = "system:nodes";
const NODE: &str = "system:node:";
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";
const SERVICE_ACCOUNTS: &str = "system:serviceaccounts";

/// The extra field with the node of a service account's pod.
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";

/// The API group of user attributes that are not objects.
const AUTHENTICATION: &str = "authentication.k8s.io";

/// For this many groups or values, a wildcard permission is tried first.
const MANY: usize = 4;

/// An impersonation mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// A service account of a pod impersonates the pod's own node.
    AssociatedNode,
    /// Any user impersonates a node.
    ArbitraryNode,
    /// Any user impersonates a service account.
    ServiceAccount,
    /// Any user impersonates a user that is neither node nor service account.
    UserInfo,
    /// Any user impersonates any user, without limiting the operations.
    Legacy,
}

/// All modes, in the order in which they are tried.
pub(super) const MODES: [Mode; 5] =
    [Mode::AssociatedNode, Mode::ArbitraryNode, Mode::ServiceAccount, Mode::UserInfo, Mode::Legacy];

type Checked = Result<(), Box<Status>>;

impl Mode {
    /// Returns the impersonated identity if this mode permits it; None if the mode does not apply.
    pub(super) fn check(
        self,
        requested: &Identity,
        sender: &Identity,
        attributes: &Attributes<'_>,
        permissions: &dyn Permissions,
        metrics: &ServerMetrics,
    ) -> Option<Result<Identity, Box<Status>>> {
        if !self.applies_to(requested, sender) {
            return None;
        }
        let check = Check { mode: self, sender, permissions, metrics };
        let checked = check.check_operation(attributes).and_then(|()| check.check_identity(requested));
        Some(checked.map(|()| self.with_implied_groups(requested)))
    }

    fn is_constrained(self) -> bool {
        self != Self::Legacy
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::AssociatedNode => "associated-node",
            Self::ArbitraryNode => "arbitrary-node",
            Self::ServiceAccount => "serviceaccount",
            Self::UserInfo => "user-info",
            Self::Legacy => "legacy",
        }
    }

    fn verb(self) -> String {
        if self.is_constrained() { format!("impersonate:{}", self.name()) } else { "impersonate".to_owned() }
    }

    fn applies_to(self, requested: &Identity, sender: &Identity) -> bool {
        let only_named =
            requested.uid.is_empty() && requested.groups.is_empty() && requested.extra.is_empty();
        let node = node_name(&requested.name);
        let account = service_account(&requested.name);
        match self {
            Self::AssociatedNode => {
                let of_sender = sender.extra.get(NODE_NAME).map(Vec::as_slice);
                let is_own = matches!((of_sender, node), (Some([own]), Some(node)) if own == node);
                only_named && is_own && service_account(&sender.name).is_some()
            }
            Self::ArbitraryNode => only_named && node.is_some(),
            Self::ServiceAccount => only_named && account.is_some(),
            Self::UserInfo => node.is_none() && account.is_none(),
            Self::Legacy => true,
        }
    }

    /// Adds the groups that follow from the user name.
    fn with_implied_groups(self, requested: &Identity) -> Identity {
        let mut identity = requested.clone();
        if self.is_constrained() && node_name(&requested.name).is_some() {
            identity.groups = vec![NODES.to_owned()];
        }
        if let (true, Some((namespace, _))) = (requested.groups.is_empty(), service_account(&requested.name))
        {
            identity.groups = vec![SERVICE_ACCOUNTS.to_owned(), format!("{SERVICE_ACCOUNTS}:{namespace}")];
        }
        let is_in = |group: &str| identity.groups.iter().any(|own| own == group);
        let missing = if identity.name == ANONYMOUS { UNAUTHENTICATED } else { AUTHENTICATED };
        if !is_in(missing) && !is_in(UNAUTHENTICATED) {
            identity.groups.push(missing.to_owned());
        }
        identity
    }
}

/// The permission checks of one mode.
struct Check<'a> {
    mode: Mode,
    sender: &'a Identity,
    permissions: &'a dyn Permissions,
    metrics: &'a ServerMetrics,
}

impl Check<'_> {
    /// Checks that the operation is permitted during impersonation.
    fn check_operation(&self, attributes: &Attributes<'_>) -> Checked {
        if !self.mode.is_constrained() {
            return Ok(());
        }
        let verb = format!("impersonate-on:{}:{}", self.mode.name(), attributes.verb);
        self.authorize(&Attributes { verb: &verb, target: attributes.target })
    }

    /// Checks that the sender may impersonate the user name, the UID, each group and each extra field.
    fn check_identity(&self, requested: &Identity) -> Checked {
        self.check_name(&requested.name)?;
        if !requested.uid.is_empty() {
            self.check_attribute("uids", AUTHENTICATION, "", &requested.uid)?;
        }
        self.check_groups(&requested.groups)?;
        self.check_extra(requested)
    }

    fn check_name(&self, name: &str) -> Checked {
        if let Some((namespace, name)) = service_account(name) {
            let target = ResourceTarget {
                group: self.group(),
                version: "v1",
                resource: "serviceaccounts",
                namespace,
                name,
                ..ResourceTarget::default()
            };
            return self.authorize(&Attributes { verb: &self.mode.verb(), target: Target::Resource(target) });
        }
        match node_name(name) {
            // The node was verified to be the sender's own, so the permission names no single node.
            Some(_) if self.mode == Mode::AssociatedNode => {
                self.check_attribute("nodes", self.group(), "", "*")
            }
            Some(node) if self.mode.is_constrained() => self.check_attribute("nodes", self.group(), "", node),
            _ => self.check_attribute("users", self.group(), "", name),
        }
    }

    fn check_groups(&self, groups: &[String]) -> Checked {
        if self.mode.is_constrained() && !groups.is_empty() {
            if groups.iter().any(String::is_empty) {
                let reason = "impersonating the empty string group is not allowed";
                return Err(self.refused("groups", self.group(), "", reason));
            }
            if groups.iter().any(|group| group == MASTERS) {
                let reason = "impersonating the system:masters group is not allowed";
                return Err(self.refused("groups", self.group(), MASTERS, reason));
            }
            if groups.len() >= MANY && self.check_attribute("groups", self.group(), "", "*").is_ok() {
                return Ok(());
            }
        }
        groups.iter().try_for_each(|group| self.check_attribute("groups", self.group(), "", group))
    }

    fn check_extra(&self, requested: &Identity) -> Checked {
        let count: usize = requested.extra.values().map(Vec::len).sum();
        if self.mode.is_constrained() && !requested.extra.is_empty() {
            if let Some(problem) = extra::problem(&requested.extra) {
                return Err(self.refused("userextras", AUTHENTICATION, "", &problem));
            }
            let many = count >= MANY || requested.extra.len() >= MANY;
            if many && self.check_attribute("userextras", AUTHENTICATION, "*", "*").is_ok() {
                return Ok(());
            }
        }
        requested.extra.iter().try_for_each(|(key, values)| {
            values.iter().try_for_each(|value| self.check_attribute("userextras", AUTHENTICATION, key, value))
        })
    }

    /// The API group of users and groups: the legacy mode uses the core group.
    fn group(&self) -> &'static str {
        if self.mode.is_constrained() { AUTHENTICATION } else { "" }
    }

    fn check_attribute(&self, resource: &str, group: &str, subresource: &str, name: &str) -> Checked {
        let target = target(resource, group, subresource, name);
        self.authorize(&Attributes { verb: &self.mode.verb(), target })
    }

    fn refused(&self, resource: &str, group: &str, name: &str, reason: &str) -> Box<Status> {
        let target = target(resource, group, "", name);
        Box::new(forbidden(self.sender, &Attributes { verb: &self.mode.verb(), target }, reason))
    }

    fn authorize(&self, attributes: &Attributes<'_>) -> Checked {
        let began = Instant::now();
        let decision = self.permissions.authorize(self.sender, attributes);
        self.metrics.note_impersonation_check(self.mode.name(), decision.allowed, began.elapsed());
        if decision.allowed {
            return Ok(());
        }
        let reason = match (&*decision.evaluation_error, &*decision.reason) {
            ("", reason) => reason.to_owned(),
            (error, "") => error.to_owned(),
            (error, reason) => format!("{error}: {reason}"),
        };
        Err(Box::new(forbidden(self.sender, attributes, &reason)))
    }
}

fn target<'a>(resource: &'a str, group: &'a str, subresource: &'a str, name: &'a str) -> Target<'a> {
    Target::Resource(ResourceTarget {
        group,
        version: "v1",
        resource,
        subresource,
        name,
        ..ResourceTarget::default()
    })
}

/// The node name in a user name of a node.
fn node_name(user: &str) -> Option<&str> {
    user.strip_prefix(NODE).filter(|name| dns1123_subdomain(name).is_empty())
}

/// Namespace and name in a user name of a service account.
fn service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(SERVICE_ACCOUNT)?.split_once(':')?;
    (dns1123_label(namespace).is_empty() && dns1123_subdomain(name).is_empty()).then_some((namespace, name))
}
