//! Violations of a schema, before conversion to field errors.

use coracle_meta::field::{BadValue, ErrorKind, FieldError, Path, quoted};

use super::path::ValuePath;

/// Maximum number of violations reported per object. kube-apiserver has no limit.
const MAX_VIOLATIONS: usize = 1_000;

/// The result of validating a value.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    pub(super) violations: Vec<Violation>,
    /// Number of checks passed, counted as in kube-apiserver. If several alternatives all fail, the
    /// errors of the one with the most passed checks are reported.
    pub(super) matches: usize,
}

/// A violation of the schema.
#[derive(Clone, Debug)]
pub(super) struct Violation {
    /// `None` for a violation of the whole value.
    value_path: Option<String>,
    kind: ViolationKind,
    /// The message, which contains the path. Equal messages are reported once.
    message: String,
}

#[derive(Clone, Debug)]
enum ViolationKind {
    Required,
    NotSupported(BadValue, Vec<String>),
    TooLong(i64),
    TooMany { found: i64, max: i64 },
    TypeInvalid(BadValue),
    Invalid(BadValue),
}

impl Outcome {
    pub(super) fn is_valid(&self) -> bool {
        self.violations.is_empty()
    }

    pub(super) fn add(&mut self, violation: Violation) {
        let is_duplicate = || self.violations.iter().any(|existing| existing.message == violation.message);
        if self.violations.len() < MAX_VIOLATIONS && !is_duplicate() {
            self.violations.push(violation);
        }
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.matches += other.matches;
        if self.violations.is_empty() {
            self.violations = other.violations;
        } else {
            other.violations.into_iter().for_each(|violation| self.add(violation));
        }
    }

    /// Merges the result of an applicable check.
    pub(super) fn check(&mut self, other: Self) {
        self.merge(other);
        self.matches += 1;
    }
}

impl From<Violation> for Outcome {
    fn from(violation: Violation) -> Self {
        Self { violations: vec![violation], matches: 0 }
    }
}

impl Violation {
    pub(super) fn required(value_path: &ValuePath<'_>) -> Self {
        if value_path.is_quiet() {
            return Self::unreported();
        }
        let message = format!("{value_path} in body is required");
        Self { value_path: Some(value_path.to_string()), kind: ViolationKind::Required, message }
    }

    pub(super) fn not_supported(value_path: &ValuePath<'_>, found: BadValue, allowed: Vec<String>) -> Self {
        let message = format!("{value_path} in body should be one of [{}]", allowed.join(" "));
        Self {
            value_path: Some(value_path.to_string()),
            kind: ViolationKind::NotSupported(found, allowed),
            message,
        }
    }

    pub(super) fn too_long(value_path: &ValuePath<'_>, max: i64) -> Self {
        let message = format!("{value_path} in body should be at most {max} chars long");
        Self { value_path: Some(value_path.to_string()), kind: ViolationKind::TooLong(max), message }
    }

    pub(super) fn too_many(value_path: &ValuePath<'_>, found: i64, max: i64, message: String) -> Self {
        Self {
            value_path: Some(value_path.to_string()),
            kind: ViolationKind::TooMany { found, max },
            message,
        }
    }

    /// A value with the wrong type or format.
    pub(super) fn type_invalid(value_path: &ValuePath<'_>, expected: &str, found: &str) -> Self {
        if value_path.is_quiet() {
            return Self::unreported();
        }
        let message = format!("{value_path} in body must be of type {expected}: {}", quoted(found));
        Self {
            value_path: Some(value_path.to_string()),
            kind: ViolationKind::TypeInvalid(found.into()),
            message,
        }
    }

    pub(super) fn invalid(value_path: &ValuePath<'_>, found: impl Into<BadValue>, message: String) -> Self {
        Self { value_path: Some(value_path.to_string()), kind: ViolationKind::Invalid(found.into()), message }
    }

    pub(super) fn junctor(value_path: &ValuePath<'_>, message: &str) -> Self {
        Self::whole(format!("{} {message}", quoted(&value_path.to_string())))
    }

    /// A violation that is not reported; only its existence matters.
    fn unreported() -> Self {
        Self::whole(String::new())
    }

    /// A violation without path.
    pub(super) fn whole(message: String) -> Self {
        Self { value_path: None, kind: ViolationKind::Invalid("".into()), message }
    }

    pub(super) fn into_error(self, path: &Path<'_>) -> FieldError {
        let value_path = self.value_path.unwrap_or_default();
        let value_path = if value_path == "." { "" } else { &value_path };
        if value_path.is_empty() {
            self.kind.into_error(path, self.message)
        } else {
            self.kind
                .into_error(&path.child(value_path.strip_prefix('.').unwrap_or(value_path)), self.message)
        }
    }
}

impl ViolationKind {
    fn into_error(self, path: &Path<'_>, message: String) -> FieldError {
        match self {
            Self::Required => FieldError::required(path, ""),
            Self::NotSupported(found, allowed) => {
                let allowed: Vec<&str> = allowed.iter().map(String::as_str).collect();
                FieldError::not_supported(path, found, &allowed)
            }
            Self::TooLong(max) => match usize::try_from(max) {
                Ok(max) => FieldError::too_long(path, max),
                Err(_) => unlimited(ErrorKind::TooLong, path, BadValue::Omitted, "value is too long"),
            },
            Self::TooMany { found, max } => match (usize::try_from(found), usize::try_from(max)) {
                (Ok(found), Ok(max)) => FieldError::too_many(path, found, max),
                _ => unlimited(
                    ErrorKind::TooMany,
                    path,
                    BadValue::Json(found.to_string()),
                    "has too many items",
                ),
            },
            Self::TypeInvalid(found) => FieldError::type_invalid(path, found, message),
            Self::Invalid(found) => FieldError::invalid(path, found, message),
        }
    }
}

/// A negative limit, which no value satisfies.
fn unlimited(kind: ErrorKind, path: &Path<'_>, bad_value: BadValue, detail: &str) -> FieldError {
    FieldError { kind, field: path.to_string(), bad_value, detail: detail.to_owned(), ratchet: None }
}
