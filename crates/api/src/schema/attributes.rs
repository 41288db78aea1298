//! Attributes of types and fields for patches, server-side apply and published schemas. Kept as text, because most
//! fields have none.

/// Attributes of the form `name=value`, separated by spaces.
#[derive(Clone, Copy, Debug, Default)]
pub struct Attributes(pub(super) &'static str);

impl Attributes {
    /// The value of an attribute.
    fn get(self, name: &str) -> Option<&'static str> {
        self.words().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
    }

    pub(super) fn words(self) -> impl Iterator<Item = &'static str> {
        self.0.split_ascii_whitespace()
    }

    /// The default as JSON text, if it is not the empty value.
    pub fn default_json(self) -> Option<&'static str> {
        self.get("default")
    }

    /// `x-kubernetes-list-type`.
    pub fn list_type(self) -> Option<&'static str> {
        self.get("list")
    }

    /// `x-kubernetes-list-map-keys`.
    pub fn list_map_keys(self) -> impl Iterator<Item = &'static str> {
        self.get("keys").into_iter().flat_map(|keys| keys.split(','))
    }

    /// `x-kubernetes-map-type`.
    pub fn map_type(self) -> Option<&'static str> {
        self.get("map")
    }

    /// `x-kubernetes-patch-strategy`.
    pub fn patch_strategy(self) -> Option<&'static str> {
        self.get("patch")
    }

    /// `x-kubernetes-patch-merge-key`.
    pub fn patch_merge_key(self) -> Option<&'static str> {
        self.get("by")
    }

    /// The allowed values of a string, if they are enumerated.
    pub fn enum_values(self) -> Option<impl Iterator<Item = String>> {
        Some(self.get("enum")?.split(',').map(|value| value.replace('~', " ")))
    }

    /// The required fields of a type in order, if it is not that of their protobuf numbers.
    pub fn required_order(self) -> Option<impl Iterator<Item = &'static str>> {
        Some(self.get("required")?.split(','))
    }

    /// `x-kubernetes-unions` as JSON text.
    pub fn unions_json(self) -> Option<&'static str> {
        self.get("unions")
    }

    /// The type as Go prints it, if it is not the usual one of the shape; clients see it in messages about type
    /// errors.
    pub fn go_type(self) -> Option<&'static str> {
        self.get("go")
    }

    /// The embedded Go struct of a field, which Go's messages contain too.
    pub fn embedded(self) -> Option<&'static str> {
        self.get("in")
    }

    /// The kinds of a type, as `group/version/kind`.
    pub fn kinds(self) -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
        self.words().filter_map(|word| {
            let mut parts = word.strip_prefix("kind=")?.splitn(3, '/');
            Some((parts.next()?, parts.next()?, parts.next()?))
        })
    }
}
