//! Cost estimates of calls to functions of the Kubernetes libraries.

use crate::ast::{Expr, Literal};
use crate::types::Type;

use super::calls::{CallSite, PATTERN_LENGTH, STRING_TRAVERSAL, pattern_cost};
use super::coster::{Argument, CallEstimate, Coster};
use super::range::scaled;
use super::{CostEstimate, SizeEstimate};

const LIST_CREATE: u64 = 10;
const STRUCT_CREATE: u64 = 40;
const AUTHORIZATION_CHECK: u64 = 350_000;
const MAX_FORMAT_SIZE: u64 = 64;
/// Assumed length of the regular expression of any named format.
const MAX_NAME_FORMAT_PATTERN: f64 = 128.0;
/// An address has four or sixteen bytes.
const ADDRESS: SizeEstimate = SizeEstimate { min: 4, max: 16 };

impl Coster<'_> {
    pub(super) fn kubernetes_function(&self, call: &CallSite<'_>) -> Option<CallEstimate> {
        let read = |argument: &Argument| self.size_of(argument).cost(STRING_TRAVERSAL);
        let one = CallEstimate::cost(CostEstimate::fixed(1));
        Some(match (call.function, call.target, call.args) {
            ("check", ..) => CallEstimate::cost(CostEstimate::fixed(AUTHORIZATION_CHECK)),
            (
                "serviceAccount"
                | "path"
                | "group"
                | "resource"
                | "subresource"
                | "namespace"
                | "name"
                | "allowed"
                | "reason"
                | "error"
                | "errored"
                | "masked"
                | "prefixLength"
                | "family"
                | "isUnspecified"
                | "isLoopback"
                | "isLinkLocalMulticast"
                | "isLinkLocalUnicast"
                | "isGlobalUnicast"
                | "format.named"
                | "sign"
                | "asInteger"
                | "isInteger"
                | "asApproximateFloat"
                | "isGreaterThan"
                | "isLessThan"
                | "compareTo"
                | "add"
                | "sub"
                | "major"
                | "minor"
                | "patch"
                | "getScheme"
                | "getHostname"
                | "getHost"
                | "getPort"
                | "getEscapedPath"
                | "getQuery",
                ..,
            ) => one,
            ("fieldSelector" | "labelSelector", _, [selector]) => {
                CallEstimate::cost(selector_cost(self.size_of(selector)))
            }
            ("isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf", Some(target), _) => {
                CallEstimate::cost(self.traversal(target))
            }
            ("url" | "jsonpatch.escapeKey", _, [text]) => CallEstimate::sized(read(text), self.size_of(text)),
            ("lowerAscii" | "upperAscii" | "substring" | "trim", Some(text), _) => {
                CallEstimate::sized(read(text), self.size_of(text))
            }
            ("replace", Some(text), [old, new, ..]) => {
                let size = replaced(self.size_of(text), self.size_of(old), self.size_of(new));
                CallEstimate::sized(self.size_of(text).cost(2.0 * STRING_TRAVERSAL), size)
            }
            ("split", Some(text), args) => {
                let size = self.size_of(text);
                let max = args.get(1).and_then(|limit| self.literal_int(limit)).unwrap_or(size.max);
                CallEstimate::sized(size.cost(2.0 * STRING_TRAVERSAL), SizeEstimate { min: 0, max })
            }
            ("join", Some(list), args) => {
                let size = self.joined(list, args.first());
                CallEstimate::sized(size.cost(STRING_TRAVERSAL), size)
            }
            ("find" | "findAll", Some(text), [pattern, ..]) => {
                let size = self.size_of(text);
                let cost = pattern_cost(size, self.size_of(pattern));
                CallEstimate::sized(cost, SizeEstimate { min: 0, max: size.max })
            }
            ("ip", ..) if call.overload == "cidr_ip" => one,
            (
                "cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver" | "isSemver",
                _,
                [text, ..],
            ) => CallEstimate::cost(read(text)),
            ("ip.isCanonical", _, [text]) => {
                CallEstimate::cost(self.size_of(text).cost(2.0 * STRING_TRAVERSAL))
            }
            ("containsIP" | "containsCIDR", _, [other, ..]) => {
                CallEstimate::cost(self.containment(call.overload, other))
            }
            ("validate", _, [text]) => {
                CallEstimate::cost(read(text).scale(MAX_NAME_FORMAT_PATTERN * PATTERN_LENGTH))
            }
            ("_==_", _, [left, right]) => CallEstimate::cost(equality(left, right)?),
            _ => return None,
        })
    }

    fn literal_int(&self, argument: &Argument) -> Option<u64> {
        match self.typed.tree.expr(argument.id) {
            Expr::Literal(Literal::Int(number)) => Some(number.cast_unsigned()),
            _ => None,
        }
    }

    /// Returns type and declared size of a list's elements.
    fn element(&self, list: &Argument) -> Option<(Type, SizeEstimate)> {
        let element = match &list.of {
            Type::List(element) => Type::clone(element),
            Type::Map(keys, _) => Type::clone(keys),
            Type::Opaque(_, parameters) => parameters.first()?.clone(),
            _ => return None,
        };
        let mut path = list.path.clone();
        if !path.is_empty() {
            path.push("@items".into());
        }
        Some((element, self.declared_size(&path).unwrap_or(SizeEstimate::UNKNOWN)))
    }

    /// Estimates a traversal of all elements of a list, or of all characters of a string.
    fn traversal(&self, target: &Argument) -> CostEstimate {
        let size = self.size_of(target);
        match self.element(target) {
            None => size.cost(STRING_TRAVERSAL),
            Some((Type::String | Type::Bytes, element)) => {
                size.times(CostEstimate::fixed(1).add(element.cost(STRING_TRAVERSAL)))
            }
            Some(_) => size.times(CostEstimate::fixed(1)),
        }
    }

    fn joined(&self, list: &Argument, separator: Option<&Argument>) -> SizeEstimate {
        let count = self.size_of(list);
        let elements = self.element(list).map(|(_, element)| count.multiply(element));
        let elements = elements.unwrap_or(SizeEstimate::fixed(0));
        let Some(separator) = separator else { return elements };
        let between = SizeEstimate { min: count.min.saturating_sub(1), max: count.max.saturating_sub(1) };
        elements.add(self.size_of(separator).multiply(between))
    }

    fn containment(&self, overload: &str, other: &Argument) -> CostEstimate {
        let mut cost = ADDRESS.add(ADDRESS).cost(STRING_TRAVERSAL);
        if overload.starts_with("cidr_contains_cidr") {
            cost = cost.add(ADDRESS.cost(STRING_TRAVERSAL)).add(CostEstimate::fixed(1));
        }
        if overload.ends_with("_string") {
            cost = cost.add(self.size_of(other).cost(STRING_TRAVERSAL));
        }
        cost
    }
}

/// Estimates parsing a selector: a list of requirements, each at least two characters long.
fn selector_cost(length: SizeEstimate) -> CostEstimate {
    let requirement = LIST_CREATE + STRUCT_CREATE;
    let requirements = length.cost(0.5).multiply(CostEstimate::fixed(requirement));
    CostEstimate::fixed(LIST_CREATE).add(length.cost(STRING_TRAVERSAL)).add(requirements)
}

/// Returns the size of a string after replacing a substring.
fn replaced(text: SizeEstimate, old: SizeEstimate, new: SizeEstimate) -> SizeEstimate {
    // The empty substring occurs before and after every character.
    let (most, rest_most) = if old.min == 0 {
        (text.max.saturating_add(1), text.max)
    } else if new.max <= old.min {
        (0, text.max)
    } else {
        (divided(text.max, old.min), 0)
    };
    let (least, rest_least) = if old.max == 0 {
        (text.min.saturating_add(1), text.min)
    } else if old.max <= new.min {
        (0, text.min)
    } else {
        (divided(text.min, old.max), 0)
    };
    let count = SizeEstimate { min: least, max: most };
    count.multiply(new).add(SizeEstimate { min: rest_least, max: rest_most })
}

#[expect(clippy::cast_precision_loss, reason = "Kubernetes divides doubles")]
fn divided(size: u64, by: u64) -> u64 {
    scaled(size, 1.0 / by as f64)
}

/// Estimates `==` for types of the libraries.
fn equality(left: &Argument, right: &Argument) -> Option<CostEstimate> {
    if left.of != right.of {
        return None;
    }
    match &left.of {
        Type::Opaque(name, _) if matches!(&**name, "net.IP" | "net.CIDR") => Some(CostEstimate::fixed(1)),
        Type::Struct(name) => match &**name {
            "kubernetes.Quantity" | "kubernetes.Semver" => Some(CostEstimate::fixed(1)),
            name if name.starts_with("kubernetes.authorization.") => Some(CostEstimate::fixed(1)),
            "kubernetes.NamedFormat" => {
                Some(SizeEstimate { min: 1, max: MAX_FORMAT_SIZE }.cost(STRING_TRAVERSAL))
            }
            "kubernetes.URL" => {
                let max = right.size.map_or(1, |size| size.max);
                Some(SizeEstimate { min: 1, max }.cost(STRING_TRAVERSAL))
            }
            _ => None,
        },
        _ => None,
    }
}
