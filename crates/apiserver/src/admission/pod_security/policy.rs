//! The policy in the labels of a namespace.

use std::borrow::Cow;
use std::fmt;

use coracle_meta::field::{ErrorList, FieldError, Path};
use coracle_registry::view;
use serde_json::Value;

/// The prefix of all labels and audit annotations.
pub(super) const PREFIX: &str = "pod-security.kubernetes.io/";

/// The minor version of Kubernetes that is served.
const SERVED_MINOR: u32 = 36;

/// The level of a standard; stricter ones are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Privileged,
    Baseline,
    Restricted,
}

impl Level {
    const ALL: [Level; 3] = [Level::Privileged, Level::Baseline, Level::Restricted];

    fn name(self) -> &'static str {
        match self {
            Level::Privileged => "privileged",
            Level::Baseline => "baseline",
            Level::Restricted => "restricted",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.name() == text)
    }
}

/// The minor version of Kubernetes of a standard. The latest is greater than all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Version {
    Minor(u32),
    Latest,
}

impl Version {
    /// Parses `latest`, or `v1.` and a number without leading zeros, as Go does.
    fn parse(text: &str) -> Option<Self> {
        if text == "latest" {
            return Some(Version::Latest);
        }
        let minor = text.strip_prefix("v1.")?;
        let digits = minor.bytes().all(|byte| byte.is_ascii_digit());
        let plain = digits && (minor.len() == 1 || !minor.starts_with('0'));
        minor.parse().ok().filter(|_| plain).map(Version::Minor)
    }
}

/// A level in a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Standard {
    pub(super) level: Level,
    pub(super) version: Version,
}

impl Standard {
    const DEFAULT: Standard = Standard { level: Level::Privileged, version: Version::Latest };

    pub(super) fn is_privileged(self) -> bool {
        self.level == Level::Privileged
    }

    pub(super) fn level_label(self) -> &'static str {
        self.level.name()
    }

    /// The version as a metric label: all future versions share one.
    pub(super) fn version_label(self) -> Cow<'static, str> {
        match self.version {
            // The privileged standard is the same in all versions.
            _ if self.is_privileged() => "latest".into(),
            Version::Latest => "latest".into(),
            Version::Minor(minor) if minor > SERVED_MINOR => "future".into(),
            Version::Minor(minor) => format!("v1.{minor}").into(),
        }
    }
}

impl fmt::Display for Standard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.version {
            Version::Latest => write!(f, "{}:latest", self.level.name()),
            Version::Minor(minor) => write!(f, "{}:v1.{minor}", self.level.name()),
        }
    }
}

/// The standards that are enforced, audited and warned about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Policy {
    pub(super) enforce: Standard,
    pub(super) audit: Standard,
    pub(super) warn: Standard,
}

impl Policy {
    /// Parses the labels of a namespace; also returns their errors. An invalid level is enforced as restricted, but
    /// neither audited nor warned about.
    pub(super) fn of_namespace(namespace: &Value) -> (Self, ErrorList) {
        let mut reading = Reading { namespace, errors: ErrorList::new() };
        let enforce = reading.standard("enforce", "enforce-version", Level::Restricted);
        let audit = reading.standard("audit", "audit-version", Level::Privileged);
        let mut warn = reading.standard("warn", "warn-version", Level::Privileged);
        // Without a `warn` label, the enforced standard is warned about.
        let said = reading.label("enforce").and_then(Level::parse);
        if reading.label("warn").is_none() && said.is_some_and(|level| level > warn.level) {
            warn.level = enforce.level;
            if reading.label("warn-version").is_none() {
                warn.version = enforce.version;
            }
        }
        (Self { enforce, audit, warn }, reading.errors)
    }
}

struct Reading<'a> {
    namespace: &'a Value,
    errors: ErrorList,
}

impl<'a> Reading<'a> {
    fn label(&self, name: &str) -> Option<&'a str> {
        view::at(self.namespace, &["metadata", "labels", &format!("{PREFIX}{name}")])?.as_str()
    }

    /// Parses the labels of one mode; `fallback` replaces an invalid level.
    fn standard(&mut self, level: &str, version: &str, fallback: Level) -> Standard {
        let mut standard = Standard::DEFAULT;
        if let Some(text) = self.label(level) {
            standard.level = Level::parse(text).unwrap_or_else(|| {
                self.mistake(level, text, "must be one of privileged, baseline, restricted");
                fallback
            });
        }
        if let Some(text) = self.label(version) {
            standard.version = Version::parse(text).unwrap_or_else(|| {
                self.mistake(version, text, "must be \"latest\" or \"v1.x\"");
                Version::Latest
            });
        }
        standard
    }

    fn mistake(&mut self, label: &str, value: &str, why: &str) {
        let metadata = Path::root("metadata");
        let (labels, name) = (metadata.child("labels"), format!("{PREFIX}{label}"));
        self.errors.push(FieldError::invalid(&labels.key(&name), value, why));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The modes of a namespace with these labels, and the number of invalid labels.
    fn read(labels: &[(&str, &str)]) -> (String, usize) {
        let labels: serde_json::Map<String, Value> =
            labels.iter().map(|(name, value)| (format!("{PREFIX}{name}"), json!(value))).collect();
        let (policy, errors) = Policy::of_namespace(&json!({"metadata": {"labels": labels}}));
        (format!("{} {} {}", policy.enforce, policy.audit, policy.warn), errors.len())
    }

    #[test]
    fn labels_select_level_and_version() {
        for (labels, policy, wrong) in [
            (&[][..], "privileged:latest privileged:latest privileged:latest", 0),
            (&[("enforce", "baseline")], "baseline:latest privileged:latest baseline:latest", 0),
            (
                &[("enforce", "restricted"), ("enforce-version", "v1.22")],
                "restricted:v1.22 privileged:latest restricted:v1.22",
                0,
            ),
            (
                &[("enforce", "restricted"), ("enforce-version", "v1.22"), ("warn-version", "v1.5")],
                "restricted:v1.22 privileged:latest restricted:v1.5",
                0,
            ),
            (
                &[("enforce", "restricted"), ("warn", "baseline"), ("audit", "baseline")],
                "restricted:latest baseline:latest baseline:latest",
                0,
            ),
            (
                &[("enforce", "x"), ("audit", "x"), ("warn", "x")],
                "restricted:latest privileged:latest privileged:latest",
                3,
            ),
            (&[("enforce", "x")], "restricted:latest privileged:latest privileged:latest", 1),
        ] {
            assert_eq!(read(labels), (policy.to_owned(), wrong), "{labels:?}");
        }
    }

    #[test]
    fn version_is_latest_or_a_minor_version() {
        for (text, version) in [
            ("latest", Some(Version::Latest)),
            ("v1.0", Some(Version::Minor(0))),
            ("v1.25", Some(Version::Minor(25))),
            ("v1.99999999999", None),
            ("v1.025", None),
            ("v1.", None),
            ("v1.+1", None),
            ("v2.1", None),
            ("1.25", None),
            ("", None),
        ] {
            assert_eq!(Version::parse(text), version, "{text}");
        }
        assert!(Version::Latest > Version::Minor(u32::MAX));
    }
}
