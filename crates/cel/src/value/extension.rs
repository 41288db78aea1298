//! Values of the Kubernetes libraries.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use crate::EvalError;
use crate::authorizer::{AuthorizerHandle, Decision, ResourceCheck};
use crate::library::{Amount, Cidr, NamedFormat, Semver, Url};
use crate::types::Type;

#[derive(Clone, Debug)]
pub(crate) enum Extension<'d> {
    Quantity(Amount),
    Ip(IpAddr),
    Cidr(Cidr),
    Url(Url),
    Semver(Semver),
    Format(&'static NamedFormat),
    Authorizer(AuthorizerHandle<'d>),
    PathCheck(AuthorizerHandle<'d>, Arc<str>),
    GroupCheck(AuthorizerHandle<'d>, Arc<str>),
    ResourceCheck(AuthorizerHandle<'d>, ResourceCheck),
    Decision(Decision),
}

impl Extension<'_> {
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Quantity(_) => "kubernetes.Quantity",
            Self::Ip(_) => "net.IP",
            Self::Cidr(_) => "net.CIDR",
            Self::Url(_) => "kubernetes.URL",
            Self::Semver(_) => "kubernetes.Semver",
            Self::Format(_) => "kubernetes.NamedFormat",
            Self::Authorizer(_) => "kubernetes.authorization.Authorizer",
            Self::PathCheck(..) => "kubernetes.authorization.PathCheck",
            Self::GroupCheck(..) => "kubernetes.authorization.GroupCheck",
            Self::ResourceCheck(..) => "kubernetes.authorization.ResourceCheck",
            Self::Decision(_) => "kubernetes.authorization.Decision",
        }
    }

    pub(crate) fn type_of(&self) -> Type {
        match self {
            Self::Ip(_) | Self::Cidr(_) => Type::opaque(self.type_name()),
            _ => Type::object(self.type_name()),
        }
    }

    pub(crate) fn cost_size(&self) -> u64 {
        match self {
            Self::Ip(IpAddr::V4(_)) => 4,
            Self::Ip(IpAddr::V6(_)) => 16,
            Self::Cidr(cidr) => u64::from(cidr.bits).div_ceil(8),
            _ => 1,
        }
    }

    /// Returns true if two values are equal.
    ///
    /// # Errors
    /// If they have different types.
    pub(crate) fn equal(&self, other: &Self) -> Result<bool, EvalError> {
        Ok(match (self, other) {
            (Self::Quantity(one), Self::Quantity(two)) if !two.computed => one.quantity == two.quantity,
            (Self::Ip(one), Self::Ip(two)) => one == two,
            (Self::Cidr(one), Self::Cidr(two)) => one == two,
            (Self::Url(one), Self::Url(two)) => one.text == two.text,
            (Self::Semver(one), Self::Semver(two)) => one.compare(two).is_eq(),
            (Self::Format(one), Self::Format(two)) => one.name == two.name,
            // Kubernetes' authorization values are never equal to any value: their comparison
            // checks for a type that none of them has.
            _ => return Err(EvalError::no_such_overload()),
        })
    }
}

impl fmt::Display for Extension<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Quantity(amount) => write!(f, "{}", amount.quantity),
            Self::Ip(address) => write!(f, "{address}"),
            Self::Cidr(cidr) => write!(f, "{cidr}"),
            Self::Url(url) => f.write_str(&url.text),
            Self::Semver(version) => f.write_str(&version.text),
            Self::Format(format) => f.write_str(format.name),
            other => f.write_str(other.type_name()),
        }
    }
}
