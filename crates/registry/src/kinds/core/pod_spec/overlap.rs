//! Warnings about files of a volume whose paths conflict.

use coracle_meta::field::quoted;
use serde_json::Value;

use crate::view;

/// A file and the object that it comes from.
struct File<'a> {
    path: &'a str,
    source: String,
}

impl File<'_> {
    fn describe(&self) -> String {
        let path = quoted(self.path);
        if self.source.is_empty() { path.to_string() } else { format!("{path} ({})", self.source) }
    }

    /// Returns true if the paths are equal, or if one is a directory in the other.
    fn overlaps(&self, other: &Self) -> bool {
        let within = |inner: &str, outer: &str| {
            inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        within(self.path, other.path) || within(other.path, self.path)
    }
}

/// Warns about files in a volume that overlap.
pub(super) fn warn(volume: &Value, warnings: &mut Vec<String>) {
    let name = quoted(view::text(volume, &["name"]));
    for (kind, title, name_field) in [
        ("configMap", "ConfigMap", "name"),
        ("secret", "Secret", "secretName"),
        ("downwardAPI", "DownwardAPI", ""),
    ] {
        let Some(source) = volume.get(kind) else { continue };
        let title = titled(source, title, name_field);
        for overlap in overlaps(files(source, String::new())) {
            warnings.push(format!("volume {name} ({title}): overlapping paths: {overlap}"));
        }
    }
    let Some(projected) = volume.get("projected") else { return };
    let mut all = Vec::new();
    for source in view::items(projected, &["sources"]) {
        if source.as_object().is_some_and(serde_json::Map::is_empty) {
            warnings.push(format!("volume {name} (Projected) has no sources provided"));
        }
        all.extend(projected_files(source));
    }
    for overlap in overlaps(all) {
        warnings.push(format!("volume {name} (Projected): overlapping paths: {overlap}"));
    }
}

fn titled(source: &Value, title: &str, name_field: &str) -> String {
    if name_field.is_empty() {
        return title.to_owned();
    }
    format!("{title} {}", quoted(view::text(source, &[name_field])))
}

fn files(source: &Value, title: String) -> Vec<File<'_>> {
    let items = view::items(source, &["items"]).iter();
    items.map(|item| File { path: view::text(item, &["path"]), source: title.clone() }).collect()
}

fn projected_files(source: &Value) -> Vec<File<'_>> {
    for (kind, title, name_field) in
        [("configMap", "ConfigMap", "name"), ("secret", "Secret", "name"), ("downwardAPI", "DownwardAPI", "")]
    {
        if let Some(found) = source.get(kind).filter(|found| found.get("items").is_some()) {
            return files(found, titled(found, title, name_field));
        }
    }
    let token = source.get("serviceAccountToken").into_iter();
    token
        .map(|token| File { path: view::text(token, &["path"]), source: "ServiceAccountToken".to_owned() })
        .collect()
}

fn overlaps(files: Vec<File<'_>>) -> Vec<String> {
    let mut found = Vec::new();
    let mut seen: Vec<File<'_>> = Vec::new();
    for file in files {
        let file = File { path: file.path.trim_end_matches('/'), ..file };
        if !file.path.is_empty() {
            for other in seen.iter().filter(|other| !other.path.is_empty() && file.overlaps(other)) {
                found.push(format!("{} with {}", file.describe(), other.describe()));
            }
        }
        seen.push(file);
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn file_that_is_also_a_directory_causes_a_warning() {
        let volume = json!({"name": "v", "configMap": {"name": "c", "items": [
            {"key": "a", "path": "x"}, {"key": "b", "path": "x/y"}, {"key": "c", "path": "xy"}
        ]}});
        let mut warnings = Vec::new();
        warn(&volume, &mut warnings);
        assert_eq!(warnings, ["volume \"v\" (ConfigMap \"c\"): overlapping paths: \"x/y\" with \"x\""]);
    }
}
