//! Descriptions of types and fields.
//!
//! The build script takes them from k8s-openapi (`build/descriptions.rs` documents the format). They are decompressed
//! only while a document is built: they are larger than all other data on types, and clients fetch documents rarely.

use std::ops::Range;

use crate::schema::inflate;

static COMPRESSED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptions.deflate"));

const TYPE: char = '\x1d';
const FIELD: char = '\x1e';
const NAME_END: char = '\x1f';

/// A kind whose `apiVersion` and `kind` have the same descriptions as in all kinds.
const ANY_KIND: &str = "io.k8s.api.core.v1.Pod";

/// Descriptions of types and fields.
pub(super) struct Descriptions {
    text: String,
    /// Offsets of types in the text, sorted by name.
    types: Vec<Range<usize>>,
}

impl Descriptions {
    /// Decompresses the descriptions.
    pub(super) fn load() -> Self {
        let text = inflate(COMPRESSED);
        let starts: Vec<usize> = text.match_indices(TYPE).map(|(at, _)| at + 1).collect();
        let ends = starts.iter().skip(1).map(|start| start - 1).chain([text.len()]);
        let types = starts.iter().zip(ends).map(|(start, end)| *start..end).collect();
        Self { text, types }
    }

    /// The description of a type, by its full name such as `io.k8s.api.core.v1.Pod`.
    pub(super) fn of_type(&self, type_name: &str) -> Option<&str> {
        let (_, text) = self.entries(type_name)?.next()?;
        Some(text).filter(|text| !text.is_empty())
    }

    /// The description of a field.
    pub(super) fn of_field(&self, type_name: &str, field: &str) -> Option<&str> {
        let (_, text) = self.entries(type_name)?.skip(1).find(|(name, _)| *name == field)?;
        Some(text).filter(|text| !text.is_empty())
    }

    /// The description of a field of a list. `apiVersion` and `kind` have the same description in all kinds.
    pub(super) fn of_list_field(&self, type_name: &str, field: &str) -> Option<&str> {
        match field {
            "apiVersion" | "kind" => self.of_field(ANY_KIND, field),
            _ => self.of_field(type_name, field),
        }
    }

    /// The descriptions of a type (with an empty name) and of its fields.
    fn entries(&self, type_name: &str) -> Option<impl Iterator<Item = (&str, &str)>> {
        let entry = |text| -> (&str, &str) { str::split_once(text, NAME_END).unwrap_or((text, "")) };
        let name = |range: &Range<usize>| entry(&self.text[range.clone()]).0;
        let at = self.types.binary_search_by(|range| name(range).cmp(type_name)).ok()?;
        Some(self.text[self.types[at].clone()].split(FIELD).map(entry))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::types;

    #[test]
    fn types_and_fields_are_found() {
        let descriptions = Descriptions::load();
        let pod = descriptions.of_type("io.k8s.api.core.v1.Pod").unwrap();
        assert!(pod.starts_with("Pod is a collection of containers"), "{pod}");
        let image = descriptions.of_field("io.k8s.api.core.v1.Container", "image").unwrap();
        assert!(image.starts_with("Container image name."), "{image}");
        assert_eq!(descriptions.of_type("io.k8s.api.core.v1.Nothing"), None);
        assert_eq!(descriptions.of_field("io.k8s.api.core.v1.Container", "nothing"), None);
    }

    #[test]
    fn types_have_descriptions() {
        let descriptions = Descriptions::load();
        let silent = |name: &String| descriptions.of_type(name).is_none();
        let names = types().iter().map(|(_, one)| format!("{}.{}", one.package, one.name));
        let silent: Vec<String> = names.filter(silent).collect();
        let expected = [
            // No document describes it.
            "io.k8s.api.admissionregistration.v1alpha1.MatchCondition",
            "io.k8s.apimachinery.pkg.apis.meta.v1.PartialObjectMetadata",
            "io.k8s.apimachinery.pkg.apis.meta.v1.PartialObjectMetadataList",
        ];
        assert_eq!(silent, expected);
    }
}
