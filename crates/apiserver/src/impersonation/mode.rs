//! The ways in which somebody may be allowed to act as another.

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

/// Where it is noted on which node the pod of a service account runs.
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";

/// The group of the attributes of users that are no objects.
const AUTHENTICATION: &str = "authentication.k8s.io";

/// Whoever wants so many groups or values may be allowed all of them at once.
const MANY: usize = 4;

/// A way to be allowed to act as another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// An agent as the node that its pod is on.
    AssociatedNode,
    /// Somebody as a node.
    ArbitraryNode,
    /// Somebody as a service account.
    ServiceAccount,
    /// Somebody as a user who is neither.
    UserInfo,
    /// Somebody as anybody, without limit of what is done.
    Legacy,
}

/// All of them, in the order in which they are tried.
pub(super) const MODES: [Mode; 5] =
    [Mode::AssociatedNode, Mode::ArbitraryNode, Mode::ServiceAccount, Mode::UserInfo, Mode::Legacy];

type Checked = Result<(), Box<Status>>;

impl Mode {
    /// Who the request is from if this way is open; none if it does not lead there.
    pub(super) fn check(
        self,
        wanted: &Identity,
        sender: &Identity,
        asked: &Attributes<'_>,
        permissions: &dyn Permissions,
        metrics: &ServerMetrics,
    ) -> Option<Result<Identity, Box<Status>>> {
        if !self.leads_to(wanted, sender) {
            return None;
        }
        let check = Check { mode: self, sender, permissions, metrics };
        let checked = check.may_do(asked).and_then(|()| check.may_be(wanted));
        Some(checked.map(|()| self.completed(wanted)))
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

    fn leads_to(self, wanted: &Identity, sender: &Identity) -> bool {
        let only_named = wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty();
        let node = node_name(&wanted.name);
        let account = service_account(&wanted.name);
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

    /// With the groups that follow from who somebody is.
    fn completed(self, wanted: &Identity) -> Identity {
        let mut identity = wanted.clone();
        if self.is_constrained() && node_name(&wanted.name).is_some() {
            identity.groups = vec![NODES.to_owned()];
        }
        if let (true, Some((namespace, _))) = (wanted.groups.is_empty(), service_account(&wanted.name)) {
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

/// The questions of one way.
struct Check<'a> {
    mode: Mode,
    sender: &'a Identity,
    permissions: &'a dyn Permissions,
    metrics: &'a ServerMetrics,
}

impl Check<'_> {
    /// Whether this may be done as another at all.
    fn may_do(&self, asked: &Attributes<'_>) -> Checked {
        if !self.mode.is_constrained() {
            return Ok(());
        }
        let verb = format!("impersonate-on:{}:{}", self.mode.name(), asked.verb);
        self.ask(&Attributes { verb: &verb, target: asked.target })
    }

    /// Whether every part of the other identity is one that the sender may take on.
    fn may_be(&self, wanted: &Identity) -> Checked {
        self.may_be_called(&wanted.name)?;
        if !wanted.uid.is_empty() {
            self.may_take("uids", AUTHENTICATION, "", &wanted.uid)?;
        }
        self.may_be_in(&wanted.groups)?;
        self.may_have(wanted)
    }

    fn may_be_called(&self, name: &str) -> Checked {
        if let Some((namespace, name)) = service_account(name) {
            let target = ResourceTarget {
                group: self.group(),
                version: "v1",
                resource: "serviceaccounts",
                namespace,
                name,
                ..ResourceTarget::default()
            };
            return self.ask(&Attributes { verb: &self.mode.verb(), target: Target::Resource(target) });
        }
        match node_name(name) {
            // The agent's own node was found out, so that all of them are one.
            Some(_) if self.mode == Mode::AssociatedNode => self.may_take("nodes", self.group(), "", "*"),
            Some(node) if self.mode.is_constrained() => self.may_take("nodes", self.group(), "", node),
            _ => self.may_take("users", self.group(), "", name),
        }
    }

    fn may_be_in(&self, groups: &[String]) -> Checked {
        if self.mode.is_constrained() && !groups.is_empty() {
            if groups.iter().any(String::is_empty) {
                let reason = "impersonating the empty string group is not allowed";
                return Err(self.refused("groups", self.group(), "", reason));
            }
            if groups.iter().any(|group| group == MASTERS) {
                let reason = "impersonating the system:masters group is not allowed";
                return Err(self.refused("groups", self.group(), MASTERS, reason));
            }
            if groups.len() >= MANY && self.may_take("groups", self.group(), "", "*").is_ok() {
                return Ok(());
            }
        }
        groups.iter().try_for_each(|group| self.may_take("groups", self.group(), "", group))
    }

    fn may_have(&self, wanted: &Identity) -> Checked {
        let count: usize = wanted.extra.values().map(Vec::len).sum();
        if self.mode.is_constrained() && !wanted.extra.is_empty() {
            if let Some(problem) = extra::problem(&wanted.extra) {
                return Err(self.refused("userextras", AUTHENTICATION, "", &problem));
            }
            let many = count >= MANY || wanted.extra.len() >= MANY;
            if many && self.may_take("userextras", AUTHENTICATION, "*", "*").is_ok() {
                return Ok(());
            }
        }
        wanted.extra.iter().try_for_each(|(key, values)| {
            values.iter().try_for_each(|value| self.may_take("userextras", AUTHENTICATION, key, value))
        })
    }

    /// Where users and groups are: in the old way they are in the group of pods.
    fn group(&self) -> &'static str {
        if self.mode.is_constrained() { AUTHENTICATION } else { "" }
    }

    fn may_take(&self, resource: &str, group: &str, subresource: &str, name: &str) -> Checked {
        let target = target(resource, group, subresource, name);
        self.ask(&Attributes { verb: &self.mode.verb(), target })
    }

    fn refused(&self, resource: &str, group: &str, name: &str, reason: &str) -> Box<Status> {
        let target = target(resource, group, "", name);
        Box::new(forbidden(self.sender, &Attributes { verb: &self.mode.verb(), target }, reason))
    }

    fn ask(&self, attributes: &Attributes<'_>) -> Checked {
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

/// The node that a user is, if it is one.
fn node_name(user: &str) -> Option<&str> {
    user.strip_prefix(NODE).filter(|name| dns1123_subdomain(name).is_empty())
}

/// Namespace and name of the service account that a user is, if it is one.
fn service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(SERVICE_ACCOUNT)?.split_once(':')?;
    (dns1123_label(namespace).is_empty() && dns1123_subdomain(name).is_empty()).then_some((namespace, name))
}
