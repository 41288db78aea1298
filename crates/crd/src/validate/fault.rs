//! What is wrong with a value, before it becomes an error of a field.

use coracle_meta::field::{BadValue, ErrorKind, FieldError, Path, quoted};

use super::place::Place;

/// As many faults as are told of one object. Upstream has no limit; nobody reads that many.
const MAX_FAULTS: usize = 1_000;

/// What came of checking a value.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    pub(super) faults: Vec<Fault>,
    /// How many checks it passed, as upstream counts them. Of several alternatives that all failed,
    /// the one with the most is told.
    pub(super) matches: usize,
}

/// One fault.
#[derive(Clone, Debug)]
pub(super) struct Fault {
    /// Nothing if it is a fault of the whole.
    place: Option<String>,
    kind: FaultKind,
    /// In words, with the place. The same words are told once only.
    message: String,
}

#[derive(Clone, Debug)]
enum FaultKind {
    Required,
    NotSupported(BadValue, Vec<String>),
    TooLong(i64),
    TooMany { found: i64, max: i64 },
    TypeInvalid(BadValue),
    Invalid(BadValue),
}

impl Outcome {
    pub(super) fn is_valid(&self) -> bool {
        self.faults.is_empty()
    }

    pub(super) fn add(&mut self, fault: Fault) {
        let is_known = || self.faults.iter().any(|known| known.message == fault.message);
        if self.faults.len() < MAX_FAULTS && !is_known() {
            self.faults.push(fault);
        }
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.matches += other.matches;
        if self.faults.is_empty() {
            self.faults = other.faults;
        } else {
            other.faults.into_iter().for_each(|fault| self.add(fault));
        }
    }

    /// Merges what a check that applied came to.
    pub(super) fn check(&mut self, other: Self) {
        self.merge(other);
        self.matches += 1;
    }
}

impl From<Fault> for Outcome {
    fn from(fault: Fault) -> Self {
        Self { faults: vec![fault], matches: 0 }
    }
}

impl Fault {
    pub(super) fn required(place: &Place<'_>) -> Self {
        if place.is_quiet() {
            return Self::unread();
        }
        let message = format!("{place} in body is required");
        Self { place: Some(place.to_string()), kind: FaultKind::Required, message }
    }

    pub(super) fn not_supported(place: &Place<'_>, found: BadValue, allowed: Vec<String>) -> Self {
        let message = format!("{place} in body should be one of [{}]", allowed.join(" "));
        Self { place: Some(place.to_string()), kind: FaultKind::NotSupported(found, allowed), message }
    }

    pub(super) fn too_long(place: &Place<'_>, max: i64) -> Self {
        let message = format!("{place} in body should be at most {max} chars long");
        Self { place: Some(place.to_string()), kind: FaultKind::TooLong(max), message }
    }

    pub(super) fn too_many(place: &Place<'_>, found: i64, max: i64, message: String) -> Self {
        Self { place: Some(place.to_string()), kind: FaultKind::TooMany { found, max }, message }
    }

    /// Not of the type or format it should be.
    pub(super) fn type_invalid(place: &Place<'_>, expected: &str, found: &str) -> Self {
        if place.is_quiet() {
            return Self::unread();
        }
        let message = format!("{place} in body must be of type {expected}: {}", quoted(found));
        Self { place: Some(place.to_string()), kind: FaultKind::TypeInvalid(found.into()), message }
    }

    pub(super) fn invalid(place: &Place<'_>, found: impl Into<BadValue>, message: String) -> Self {
        Self { place: Some(place.to_string()), kind: FaultKind::Invalid(found.into()), message }
    }

    pub(super) fn junctor(place: &Place<'_>, message: &str) -> Self {
        Self::whole(format!("{} {message}", quoted(&place.to_string())))
    }

    /// A fault of which nobody reads more than that it is one.
    fn unread() -> Self {
        Self::whole(String::new())
    }

    /// A fault without a place.
    pub(super) fn whole(message: String) -> Self {
        Self { place: None, kind: FaultKind::Invalid("".into()), message }
    }

    pub(super) fn into_error(self, path: &Path<'_>) -> FieldError {
        let place = self.place.unwrap_or_default();
        let place = if place == "." { "" } else { &place };
        if place.is_empty() {
            self.kind.into_error(path, self.message)
        } else {
            self.kind.into_error(&path.child(place.strip_prefix('.').unwrap_or(place)), self.message)
        }
    }
}

impl FaultKind {
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

/// Nothing at all would be short enough.
fn unlimited(kind: ErrorKind, path: &Path<'_>, bad_value: BadValue, detail: &str) -> FieldError {
    FieldError { kind, field: path.to_string(), bad_value, detail: detail.to_owned(), ratchet: None }
}
