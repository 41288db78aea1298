//! The media types by which a request says what kind of patch its body is.

/// A kind of patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PatchType {
    /// A list of operations, see [`super::json`].
    Json,
    /// A partial object, see [`super::merge`].
    Merge,
    /// A partial object merged by the schema, see [`super::strategic`]; only for kinds whose
    /// schema says how, that is the built-in ones.
    StrategicMerge,
    /// The whole intent of one manager, merged by field ownership.
    Apply,
}

impl PatchType {
    /// All kinds, in the order in which a refusal names them.
    pub const ALL: [Self; 4] = [Self::Json, Self::Merge, Self::StrategicMerge, Self::Apply];

    /// Its media type.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json-patch+json",
            Self::Merge => "application/merge-patch+json",
            Self::StrategicMerge => "application/strategic-merge-patch+json",
            Self::Apply => "application/apply-patch+yaml",
        }
    }

    /// The kind of this media type, given without parameters.
    pub fn from_media_type(media_type: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.media_type() == media_type)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_found_by_its_media_type() {
        for kind in PatchType::ALL {
            assert_eq!(PatchType::from_media_type(kind.media_type()), Some(kind));
        }
        assert_eq!(PatchType::from_media_type("application/json"), None);
    }
}
