//! The name of a server's clusters in kubeconfigs, so that kubeconfigs of several servers can be merged.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use crate::error::ConfigError;

/// Maximum length of a name, that of a DNS label: names appear in prompts and tables.
const MAX_NAME_BYTES: usize = 63;

/// The name if the data directory yields none.
const FALLBACK: &str = "coracle";

/// A name for kubeconfigs: at most 63 of `A-Z`, `a-z`, `0-9`, `.`, `_` and `-`, a letter or digit first.
///
/// ```
/// use coracle::config::ClusterName;
///
/// assert_eq!("dev".parse::<ClusterName>()?.as_str(), "dev");
/// assert!("a b".parse::<ClusterName>().is_err());
/// # Ok::<(), coracle::ConfigError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterName(String);

impl ClusterName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Derived from the name of a data directory, with a dash for every character that a name cannot have.
    pub fn of_data_dir(data_dir: &Path) -> Self {
        // Paths such as `.` and `..` have a name only once they are resolved.
        let resolved = data_dir.file_name().is_none().then(|| data_dir.canonicalize().ok()).flatten();
        let name = resolved.as_deref().unwrap_or(data_dir).file_name();
        let name = name.map(|name| name.to_string_lossy()).unwrap_or_default();
        let fitting = name.chars().map(|c| if is_allowed(c) { c } else { '-' });
        let fitting: String =
            fitting.skip_while(|c| !c.is_ascii_alphanumeric()).take(MAX_NAME_BYTES).collect();
        Self(if fitting.is_empty() { FALLBACK.to_owned() } else { fitting })
    }
}

fn is_allowed(character: char) -> bool {
    character.is_ascii_alphanumeric() || "._-".contains(character)
}

impl FromStr for ClusterName {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let begins_well = text.starts_with(|c: char| c.is_ascii_alphanumeric());
        if begins_well && text.len() <= MAX_NAME_BYTES && text.chars().all(is_allowed) {
            return Ok(Self(text.to_owned()));
        }
        Err(ConfigError::ClusterName { text: text.to_owned() })
    }
}

impl fmt::Display for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_of_a_directory_is_its_last_component() {
        for (dir, expected) in [
            ("/var/lib/coracle", "coracle"),
            ("/nowhere/dev/", "dev"),
            ("/nowhere/my data", "my-data"),
            ("/nowhere/.hidden", "hidden"),
            ("/nowhere/été-1", "t--1"),
            ("/nowhere/日本", "coracle"),
            ("/", "coracle"),
        ] {
            assert_eq!(ClusterName::of_data_dir(Path::new(dir)).as_str(), expected, "{dir}");
        }
        let long = ClusterName::of_data_dir(Path::new(&format!("/nowhere/{}", "x".repeat(200))));
        assert_eq!(long.as_str().len(), MAX_NAME_BYTES);
        let here = ClusterName::of_data_dir(Path::new("."));
        assert_eq!(here, ClusterName::of_data_dir(&std::path::absolute(".").unwrap()));
    }

    #[test]
    fn name_with_other_characters_is_rejected() {
        for name in ["dev", "a.b_c-1", "9"] {
            assert_eq!(name.parse::<ClusterName>().unwrap().as_str(), name);
        }
        for name in ["", "-a", ".a", "a b", "a/b", "a@b", "é", &"x".repeat(64)] {
            assert!(name.parse::<ClusterName>().is_err(), "{name}");
        }
    }
}
