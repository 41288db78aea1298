//! What a query string asks for.

use std::collections::HashMap;

use coracle_meta::selector::{fields, labels};
use coracle_meta::status::Status;
use coracle_registry::lifecycle::Selection;
use coracle_registry::{Kind, Scope};

use crate::status::Refusal;

/// A query string, taken apart. Unknown parameters are ignored, as upstream does.
pub(crate) struct Query(HashMap<String, String>);

/// What to do about fields that a kind does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

impl Query {
    pub(crate) fn parse(query: &str) -> Self {
        // The first of several counts, as in Go.
        let mut pairs = HashMap::new();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            pairs.entry(name.into_owned()).or_insert_with(|| value.into_owned());
        }
        Self(pairs)
    }

    /// The value of a parameter; empty if it is not there.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    /// Whether a parameter is set, in any of the ways Go takes for true.
    pub(crate) fn flag(&self, name: &str) -> Result<bool, Refusal> {
        match self.text(name) {
            "" if self.0.contains_key(name) => Ok(true),
            "" | "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
            other => {
                Err(Refusal::bad_request(format!("invalid value {other:?} for {name}: expected a boolean")))
            }
        }
    }

    /// Whether a flag was given at all, and what it says.
    pub(crate) fn optional_flag(&self, name: &str) -> Result<Option<bool>, Refusal> {
        if self.0.contains_key(name) { self.flag(name).map(Some) } else { Ok(None) }
    }

    pub(crate) fn number(&self, name: &str) -> Result<Option<u64>, Refusal> {
        match self.text(name) {
            "" => Ok(None),
            text => {
                let refused =
                    |_| Refusal::bad_request(format!("invalid value {text:?} for {name}: expected a number"));
                text.parse().map(Some).map_err(refused)
            }
        }
    }

    pub(crate) fn integer(&self, name: &str) -> Result<Option<i64>, Refusal> {
        match self.text(name) {
            "" => Ok(None),
            text => {
                let refused =
                    |_| Refusal::bad_request(format!("invalid value {text:?} for {name}: expected a number"));
                text.parse().map(Some).map_err(refused)
            }
        }
    }

    pub(crate) fn dry_run(&self) -> Result<bool, Refusal> {
        match self.text("dryRun") {
            "" => Ok(false),
            "All" => Ok(true),
            other => {
                Err(Refusal::bad_request(format!("invalid dryRun {other:?}: supported values: \"All\"")))
            }
        }
    }

    pub(crate) fn field_validation(&self) -> Result<FieldValidation, Refusal> {
        match self.text("fieldValidation") {
            "" | "Warn" => Ok(FieldValidation::Warn),
            "Ignore" => Ok(FieldValidation::Ignore),
            "Strict" => Ok(FieldValidation::Strict),
            other => Err(Refusal::bad_request(format!(
                "invalid fieldValidation {other:?}: supported values: \"Ignore\", \"Warn\", \"Strict\""
            ))),
        }
    }

    /// Which objects count.
    pub(crate) fn selection(&self, kind: &dyn Kind) -> Result<Selection, Refusal> {
        let labels: labels::Selector = parse(self.text("labelSelector"))?;
        let fields: fields::Selector = parse(self.text("fieldSelector"))?;
        for requirement in fields.requirements() {
            check_field(kind, &requirement.field)?;
        }
        Ok(Selection { labels, fields })
    }
}

fn parse<T: std::str::FromStr<Err: std::fmt::Display>>(text: &str) -> Result<T, Refusal> {
    text.parse()
        .map_err(|error: T::Err| Status::bad_request(format!("unable to parse requirement: {error}")).into())
}

fn check_field(kind: &dyn Kind, field: &str) -> Result<(), Refusal> {
    let declaration = kind.declaration();
    let known = field == "metadata.name"
        || field == "metadata.namespace" && declaration.scope == Scope::Namespaced
        || declaration.selectable_fields.iter().any(|selectable| selectable == field);
    if known { Ok(()) } else { Err(Refusal::bad_request(format!("field label not supported: {field}"))) }
}
