//! Patch types and their media types.

/// The type of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PatchType {
    /// A list of operations, see [`super::json`].
    Json,
    /// A partial object, see [`super::merge`].
    Merge,
    /// A partial object merged according to the schema, see [`super::strategic`]; only for built-in
    /// kinds, whose schema contains merge keys.
    StrategicMerge,
    /// A configuration of one manager, merged according to field ownership.
    Apply,
}

impl PatchType {
    /// All types, in the order in which an error message lists them.
    pub const ALL: [Self; 4] = [Self::Json, Self::Merge, Self::StrategicMerge, Self::Apply];

    /// Returns the media type.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json-patch+json",
            Self::Merge => "application/merge-patch+json",
            Self::StrategicMerge => "application/strategic-merge-patch+json",
            Self::Apply => "application/apply-patch+yaml",
        }
    }

    /// Returns the patch type of a media type given without parameters.
    pub fn from_media_type(media_type: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.media_type() == media_type)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patch_type_is_found_by_media_type() {
        for kind in PatchType::ALL {
            assert_eq!(PatchType::from_media_type(kind.media_type()), Some(kind));
        }
        assert_eq!(PatchType::from_media_type("application/json"), None);
    }
}
