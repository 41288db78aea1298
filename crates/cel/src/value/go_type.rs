//! Go types of values in cel-go, which some of its messages contain.

use crate::decl::{ListKind, Shape};

use super::list::List;
use super::map::Map;
use super::{Extension, ListValue, MapValue, Value};

impl Value<'_> {
    /// Returns the name of the Go type in cel-go.
    pub(crate) fn go_type(&self) -> &'static str {
        match self {
            Self::Null => "types.Null",
            Self::Bool(_) => "types.Bool",
            Self::Int(_) => "types.Int",
            Self::Uint(_) => "types.Uint",
            Self::Double(_) => "types.Double",
            Self::String(_) => "types.String",
            Self::Bytes(_) => "types.Bytes",
            Self::Timestamp(_) => "types.Timestamp",
            Self::Duration(_) => "types.Duration",
            Self::Optional(_) => "*types.Optional",
            Self::Type(_) => "*types.Type",
            Self::List(ListValue(list)) => match (list, list.decl().map(|decl| decl.shape())) {
                (List::Joined(_), _) => "*types.concatList",
                (_, None) => "*types.baseList",
                (_, Some(Shape::List(_, ListKind::Set))) => "*common.unstructuredSetList",
                (_, Some(Shape::List(_, ListKind::Map(_)))) => "*common.unstructuredMapList",
                (_, Some(Shape::List(..))) => "*common.unstructuredList",
                (_, Some(_)) => "[]interface {}",
            },
            Self::Map(MapValue(Map::Json(_, decl))) if decl.is_typed() => "*common.unstructuredMap",
            Self::Map(MapValue(Map::Json(..))) => "map[string]interface {}",
            Self::Map(_) => "*types.baseMap",
            Self::Extension(extension) => match &*extension.0 {
                Extension::Quantity(_) => "cel.Quantity",
                Extension::Ip(_) => "cel.IP",
                Extension::Cidr(_) => "cel.CIDR",
                Extension::Url(_) => "cel.URL",
                Extension::Semver(_) => "cel.Semver",
                Extension::Format(_) => "cel.Format",
                _ => "ref.Val",
            },
            Self::Object(_) | Self::Lazy(_) => "ref.Val",
        }
    }

    /// Returns true if the value can be an index or map key in a path.
    pub(crate) fn is_qualifier(&self) -> bool {
        matches!(self, Self::Bool(_) | Self::Int(_) | Self::Uint(_) | Self::Double(_) | Self::String(_))
    }
}
