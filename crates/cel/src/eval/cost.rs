//! Runtime costs of calls, in cel-go's units. The rule is chosen when a program is planned, the
//! cost is computed at run time.

use crate::names::EQUALS;
use crate::value::{Extension, ListValue, Value};

/// Cost of reading one byte or character; ten of them cost one unit.
const STRING_TRAVERSAL: f64 = 0.1;
/// Cost per character of a pattern: four characters count as one expression.
const PATTERN_LENGTH: f64 = 0.25;
/// Cost of creating a list or a struct.
const LIST_CREATE: u64 = 10;
const STRUCT_CREATE: u64 = 40;
/// Cost of an authorization check, so high that an expression can make only two.
const AUTHORIZATION_CHECK: u64 = 350_000;

/// Rule for computing the cost of a call from its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CostRule {
    Fixed(u64),
    /// Reading the first argument this many times.
    Read(u8),
    /// Reading the result this many times.
    ReadResult(u8),
    /// Comparing with every element of the second argument.
    InList,
    /// Reading both arguments up to the length of the shorter one.
    Shorter,
    /// Reading both arguments.
    Both,
    /// Matching a regular expression against a string.
    Pattern,
    /// Searching the second argument in the first.
    Search,
    /// Reading the first argument with all its elements.
    Traverse,
    /// Parsing the second argument as a selector.
    Selector,
    ContainsIp {
        text: bool,
    },
    ContainsCidr {
        text: bool,
    },
    Validate,
    /// Creating a list of the size of the result.
    ListResult,
    /// Flattening a list to this depth.
    Flatten,
    /// Comparing all elements of the argument with each other.
    SelfCompare(u8),
    /// Comparing all elements of both arguments this many times.
    Sets(u8),
}

impl CostRule {
    /// Returns the rule of a function; `overload` is `None` if it is not known before evaluation.
    pub(crate) fn of(function: &str, overload: Option<&str>) -> Self {
        let extension = overload.and_then(Self::of_extension);
        extension
            .or_else(|| Self::of_kubernetes(function, overload))
            .or_else(|| overload.and_then(Self::of_standard))
            .unwrap_or(Self::Fixed(1))
    }

    /// Returns the rule of an overload of the list and set extensions.
    fn of_extension(overload: &str) -> Option<Self> {
        Some(match overload {
            "list_slice" | "lists_range" | "list_reverse" => Self::ListResult,
            "list_flatten" | "list_flatten_int" => Self::Flatten,
            "list_distinct" => Self::SelfCompare(0),
            "list_sets_contains_list" | "list_sets_intersects_list" => Self::Sets(1),
            "list_sets_equivalent_list" => Self::Sets(2),
            other if other.ends_with("_sort") => Self::SelfCompare(0),
            other if other.ends_with("_sortByAssociatedKeys") => Self::SelfCompare(1),
            _ => return None,
        })
    }

    /// Returns the rule of a function of the Kubernetes libraries.
    fn of_kubernetes(function: &str, overload: Option<&str>) -> Option<Self> {
        Some(match function {
            "check" => Self::Fixed(AUTHORIZATION_CHECK),
            "serviceAccount" | "path" | "group" | "resource" | "subresource" | "namespace" | "name"
            | "allowed" | "reason" | "error" | "errored" => Self::Fixed(1),
            "fieldSelector" | "labelSelector" => Self::Selector,
            "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => Self::Traverse,
            "url" | "lowerAscii" | "upperAscii" | "substring" | "trim" | "jsonpatch.escapeKey" => {
                Self::Read(1)
            }
            "replace" | "split" => Self::Read(2),
            "join" => Self::ReadResult(2),
            "find" | "findAll" => Self::Pattern,
            "cidr" | "isIP" | "isCIDR" => Self::Read(1),
            "ip" if overload == Some("cidr_ip") => Self::Fixed(1),
            "ip" => Self::Read(1),
            "ip.isCanonical" => Self::Read(2),
            "masked"
            | "prefixLength"
            | "family"
            | "isUnspecified"
            | "isLoopback"
            | "isLinkLocalMulticast"
            | "isLinkLocalUnicast"
            | "isGlobalUnicast" => Self::Fixed(1),
            "containsIP" => Self::ContainsIp { text: overload == Some("cidr_contains_ip_string") },
            "containsCIDR" => Self::ContainsCidr { text: overload == Some("cidr_contains_cidr_string") },
            "quantity" | "isQuantity" | "semver" | "isSemver" => Self::Read(1),
            "validate" => Self::Validate,
            "format.named" | "sign" | "asInteger" | "isInteger" | "asApproximateFloat" | "isGreaterThan"
            | "isLessThan" | "compareTo" | "add" | "sub" | "major" | "minor" | "patch" | "getScheme"
            | "getHostname" | "getHost" | "getPort" | "getEscapedPath" | "getQuery" => Self::Fixed(1),
            _ => return None,
        })
    }

    fn of_standard(overload: &str) -> Option<Self> {
        Some(match overload {
            "starts_with_string" | "ends_with_string" | "string_to_bytes" | "bytes_to_string"
            | "strings_quote" | "string_format" => Self::Read(1),
            "in_list" => Self::InList,
            "less_string"
            | "greater_string"
            | "less_equals_string"
            | "greater_equals_string"
            | "less_bytes"
            | "greater_bytes"
            | "less_equals_bytes"
            | "greater_equals_bytes" => Self::Shorter,
            "add_string" | "add_bytes" => Self::Both,
            "matches_string" => Self::Pattern,
            "contains_string" => Self::Search,
            _ => return None,
        })
    }

    /// Returns true if the cost depends on the result of the call.
    pub(crate) fn needs_result(self) -> bool {
        matches!(self, Self::ReadResult(_) | Self::ListResult)
    }

    /// Returns the cost. For a rule with [`Self::needs_result`], the result is the only argument.
    pub(crate) fn price(self, args: &[Value<'_>]) -> u64 {
        let size = |index: usize| args.get(index).map_or(1, Value::cost_size);
        match self {
            Self::Fixed(price) => price,
            Self::Read(times) | Self::ReadResult(times) => read(size(0), f64::from(times)),
            Self::InList => size(1),
            Self::Shorter => read(deep_size(args.first()).min(deep_size(args.get(1))), 1.0),
            Self::Both => read(size(0).saturating_add(size(1)), 1.0),
            Self::Pattern => {
                read(size(0).saturating_add(1), 1.0).saturating_mul(scaled(size(1), PATTERN_LENGTH))
            }
            Self::Search => read(size(0), 1.0).saturating_mul(read(size(1), 1.0)),
            Self::Traverse => args.first().map_or(0, traverse),
            Self::Selector => selector(size(1)),
            Self::ContainsIp { text } => {
                read(size(0).saturating_mul(2), 1.0) + if text { read(size(1), 1.0) } else { 0 }
            }
            Self::ContainsCidr { text } => {
                let parse = if text { read(size(1), 1.0) } else { 0 };
                read(size(0).saturating_mul(2), 1.0) + read(size(0), 1.0) + 1 + parse
            }
            Self::Validate => {
                let pattern = args.first().map_or(0, pattern_size);
                read(size(1).saturating_add(1), 1.0).saturating_mul(scaled(pattern, PATTERN_LENGTH))
            }
            Self::ListResult => list_call(1.0, size(0)),
            Self::Flatten => {
                let depth = match args.get(1) {
                    Some(Value::Int(depth)) => *depth,
                    _ => 1,
                };
                // With a negative depth cel-go's arithmetic wraps around, to the cost of an empty
                // list minus the size.
                let levels = i64::try_from(size(0)).unwrap_or(i64::MAX).saturating_mul(depth);
                levels.cast_unsigned().wrapping_add(1 + LIST_CREATE)
            }
            Self::SelfCompare(argument) => self_compare(args.get(usize::from(argument))),
            Self::Sets(times) => {
                1_u64.saturating_add(truncated(to_float(size(0).saturating_mul(size(1))) * f64::from(times)))
            }
        }
    }
}

/// Returns the cost of `==` and `!=`.
pub(super) fn equality(function: &str, left: &Value<'_>, right: &Value<'_>) -> u64 {
    if function == EQUALS && matches!(left, Value::Extension(_)) {
        return 1;
    }
    read(deep_size(Some(left)).min(deep_size(Some(right))), 1.0)
}

/// Returns the size of a value, or of the value in an optional.
fn deep_size(value: Option<&Value<'_>>) -> u64 {
    match value {
        Some(Value::Optional(Some(inner))) => deep_size(Some(inner)),
        Some(value) => value.cost_size(),
        None => 1,
    }
}

#[expect(clippy::cast_precision_loss, reason = "costs are rounded anyway")]
fn to_float(size: u64) -> f64 {
    size as f64
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturation is intended")]
fn truncated(price: f64) -> u64 {
    price as u64
}

fn scaled(size: u64, factor: f64) -> u64 {
    truncated((to_float(size) * factor).ceil())
}

fn read(size: u64, times: f64) -> u64 {
    truncated((to_float(size) * times * STRING_TRAVERSAL).ceil())
}

/// Returns the cost of reading a value with all its elements; a scalar costs one.
fn traverse(value: &Value<'_>) -> u64 {
    match value {
        Value::String(text) => truncated(to_float(text.as_str().len() as u64) * STRING_TRAVERSAL),
        Value::Bytes(bytes) => truncated(to_float(bytes.len() as u64) * STRING_TRAVERSAL),
        Value::List(list) => list
            .0
            .iter()
            .map(|element| element.map_or(1, |element| traverse(&element)))
            .fold(0, u64::saturating_add),
        Value::Map(map) => map
            .0
            .entries()
            .map(|entry| entry.map_or(1, |(key, value)| traverse(&key).saturating_add(traverse(&value))))
            .fold(0, u64::saturating_add),
        _ => 1,
    }
}

/// Returns the cost of parsing a selector: a list of requirements, each at least two characters
/// long.
fn selector(length: u64) -> u64 {
    let requirements = scaled(length, 0.5).saturating_mul(LIST_CREATE + STRUCT_CREATE);
    LIST_CREATE.saturating_add(read(length, 1.0)).saturating_add(requirements)
}

fn pattern_size(format: &Value<'_>) -> u64 {
    match format {
        Value::Extension(extension) => match &*extension.0 {
            Extension::Format(format) => format.pattern_size,
            _ => 0,
        },
        _ => 0,
    }
}

fn list_call(factor: f64, size: u64) -> u64 {
    truncated(to_float(size) * factor).saturating_add(1 + LIST_CREATE)
}

fn self_compare(list: Option<&Value<'_>>) -> u64 {
    let Some(Value::List(ListValue(list))) = list else { return 1 };
    let texts = matches!(list.get(0), Some(Ok(Value::String(_) | Value::Bytes(_))));
    let factor = if texts { 2.0 + STRING_TRAVERSAL } else { 2.0 };
    let size = list.len() as u64;
    list_call(factor, size.saturating_mul(size))
}
