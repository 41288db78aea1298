//! Schema validation, with kube-apiserver's messages.
//!
//! Paths, reasons and messages are those of kube-apiserver's validator, because clients show them
//! and tests compare them. The same holds for its peculiarities: for a value that matches no
//! alternative, the errors of the alternative with the most passed checks are reported; violations
//! of junctors have no path.

mod correlate;
mod number;
mod object;
mod path;
mod single;
mod violation;

use coracle_meta::field::{ErrorList, Path};
use serde_json::Value;

use crate::Structural;
use crate::structural::{Facet, Schema, Type};
pub(crate) use correlate::Correlated;
use path::ValuePath;
use violation::{Outcome, Violation};

impl Structural {
    /// Validates an object. With the object it replaces, violations in unchanged parts are accepted
    /// (ratcheting): the schema may have become stricter since.
    pub fn validate(&self, new: &Value, old: Option<&Value>, path: &Path<'_>, errors: &mut ErrorList) {
        let root = self.root();
        let correlated = old.map(|old| Correlated::new(root, new, old));
        validate(root, new, correlated, Reading::Objects, path, errors);
    }

    /// Validates the status only; `path` is its path.
    pub fn validate_status(&self, new: &Value, old: Option<&Value>, path: &Path<'_>, errors: &mut ErrorList) {
        let Some(schema) = self.root().property("status") else { return };
        let correlated = Correlated::new(schema, new, old.unwrap_or(&Value::Null));
        validate(schema, new, Some(correlated), Reading::Objects, path, errors);
    }
}

/// The use of the schema. kube-apiserver converts it for these two uses with small differences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// Objects of clients: unknown formats are ignored, and `x-kubernetes-int-or-string` is
    /// enforced.
    Objects,
    /// Defaults in the schema itself.
    Defaults,
}

pub(crate) fn validate(
    schema: Schema<'_>,
    value: &Value,
    correlated: Option<Correlated<'_>>,
    reading: Reading,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let outcome = Validator { reading }.correlated(schema, value, &ValuePath::ROOT, correlated);
    errors.extend(outcome.violations.into_iter().map(|violation| violation.into_error(path)));
}

#[derive(Clone, Copy)]
struct Validator {
    reading: Reading,
}

/// The type constraint of a schema.
#[derive(Clone, Copy)]
struct Types {
    one: Type,
    /// Integers and strings are both accepted, regardless of `one`.
    int_or_string: bool,
}

impl Types {
    fn is_specified(self) -> bool {
        self.int_or_string || !matches!(self.one, Type::Unspecified | Type::Other)
    }

    fn contains(self, ty: Type) -> bool {
        match self.int_or_string {
            true => matches!(ty, Type::Integer | Type::String),
            false => self.one == ty,
        }
    }

    fn name(self) -> &'static str {
        if self.int_or_string { "integer,string" } else { self.one.name() }
    }

    fn single(self) -> Option<Type> {
        (!self.int_or_string).then_some(self.one)
    }
}

impl Validator {
    fn types(self, schema: Schema<'_>) -> Types {
        let int_or_string = self.reading == Reading::Objects && schema.is_int_or_string();
        Types { one: schema.ty(), int_or_string }
    }

    fn format(self, schema: Schema<'_>) -> &str {
        let format = schema.format();
        let counts = match self.types(schema).single() {
            _ if self.reading == Reading::Defaults => true,
            Some(Type::Unspecified | Type::String | Type::Other) => crate::format::is_known(format),
            Some(Type::Integer) => matches!(format, "int32" | "int64"),
            Some(Type::Number) => matches!(format, "float" | "double"),
            Some(_) | None => false,
        };
        if counts { format } else { "" }
    }

    /// Validates a value; accepts violations if it is unchanged.
    fn correlated(
        self,
        schema: Schema<'_>,
        value: &Value,
        path: &ValuePath<'_>,
        correlated: Option<Correlated<'_>>,
    ) -> Outcome {
        let mut outcome = self.value(schema, value, path, correlated);
        if !outcome.is_valid() && correlated.is_some_and(Correlated::is_unchanged) {
            outcome.violations.clear();
        }
        outcome
    }

    fn value(
        self,
        schema: Schema<'_>,
        value: &Value,
        path: &ValuePath<'_>,
        correlated: Option<Correlated<'_>>,
    ) -> Outcome {
        let mut outcome = Outcome::default();
        let (types, format) = (self.types(schema), self.format(schema));
        if value.is_null() {
            outcome.merge(single::check_type(value, types, format, schema.is_nullable(), path));
            outcome.merge(single::check_enum(value, schema, path));
            return outcome;
        }
        if types.is_specified() || !format.is_empty() {
            outcome.check(single::check_type(value, types, format, schema.is_nullable(), path));
        }
        outcome.check(self.junctors(schema, value, path));
        match value {
            Value::String(text) => {
                outcome.check(single::check_text(text, schema, path));
                if crate::format::is_known(format) {
                    outcome.check(single::check_format(text, format, path));
                }
            }
            Value::Number(number) => outcome.check(number::check(number, types, format, schema, path)),
            Value::Array(items) => outcome.check(self.items(schema, items, path, correlated)),
            _ => {}
        }
        outcome.check(single::check_enum(value, schema, path));
        if let Value::Object(fields) = value {
            outcome.check(self.fields(schema, fields, path, correlated));
        }
        outcome.matches += 1;
        outcome
    }

    fn items(
        self,
        schema: Schema<'_>,
        items: &[Value],
        path: &ValuePath<'_>,
        correlated: Option<Correlated<'_>>,
    ) -> Outcome {
        let mut outcome = Outcome { matches: 1, ..Outcome::default() };
        if let Some(item_schema) = schema.items() {
            let mut correlated = correlated.map(Correlated::items).into_iter().flatten();
            for (index, item) in items.iter().enumerate() {
                let correlated = correlated.next().flatten();
                outcome.merge(self.correlated(item_schema, item, &path.index(index), correlated));
            }
        }
        let found = i64::try_from(items.len()).unwrap_or(i64::MAX);
        for facet in schema.facets() {
            match *facet {
                Facet::MinItems(min) if found < min => {
                    let message = format!("{path} in body should have at least {min} items");
                    outcome.add(Violation::invalid(path, found, message));
                }
                Facet::MaxItems(max) if found > max => {
                    let message = format!("{path} in body should have at most {max} items");
                    outcome.add(Violation::too_many(path, found, max, message));
                }
                _ => {}
            }
        }
        if schema.has_unique_items() && has_duplicates(items) {
            outcome.add(Violation::invalid(path, "", format!("{path} in body shouldn't contain duplicates")));
        }
        outcome
    }

    fn junctors(self, schema: Schema<'_>, value: &Value, path: &ValuePath<'_>) -> Outcome {
        let mut outcome = Outcome::default();
        for facet in schema.facets() {
            if let Facet::AnyOf(nodes) = facet {
                self.any_of(schema.nested(nodes), value, path, &mut outcome);
            }
        }
        for facet in schema.facets() {
            if let Facet::OneOf(nodes) = facet {
                self.one_of(schema.nested(nodes), value, path, &mut outcome);
            }
        }
        for facet in schema.facets() {
            if let Facet::AllOf(nodes) = facet {
                self.all_of(schema.nested(nodes), value, path, &mut outcome);
            }
        }
        for facet in schema.facets() {
            if let Facet::Not(node) = facet {
                let is_valid = |nested| self.value(nested, value, &path.quietly(), None).is_valid();
                if schema.nested(std::slice::from_ref(node)).all(is_valid) {
                    outcome.add(Violation::junctor(path, "must not validate the schema (not)"));
                }
            }
        }
        outcome.matches += 1;
        outcome
    }

    fn any_of<'s>(
        self,
        alternatives: impl Iterator<Item = Schema<'s>> + Clone,
        value: &Value,
        path: &ValuePath<'_>,
        outcome: &mut Outcome,
    ) {
        // Usually one alternative matches, and the violations of the others are not reported.
        let quiet = path.quietly();
        let mut tried = alternatives.clone().map(|one| self.value(one, value, &quiet, None));
        if let Some(found) = tried.find(Outcome::is_valid) {
            return outcome.merge(found);
        }
        outcome.add(Violation::junctor(path, "must validate at least one schema (anyOf)"));
        self.best_of(alternatives, value, path).into_iter().for_each(|best| outcome.merge(best));
    }

    fn one_of<'s>(
        self,
        alternatives: impl Iterator<Item = Schema<'s>> + Clone,
        value: &Value,
        path: &ValuePath<'_>,
        outcome: &mut Outcome,
    ) {
        let quiet = path.quietly();
        let tried = alternatives.clone().map(|one| self.value(one, value, &quiet, None));
        let mut fitting = tried.filter(Outcome::is_valid);
        let (first, further) = (fitting.next(), fitting.count());
        let valid = usize::from(first.is_some()) + further;
        if let (Some(found), 0) = (first, further) {
            return outcome.merge(found);
        }
        let found = match valid {
            0 => "Found none valid".to_owned(),
            several => format!("Found {several} valid alternatives"),
        };
        let message = format!("must validate one and only one schema (oneOf). {found}");
        outcome.add(Violation::junctor(path, &message));
        if valid == 0 {
            self.best_of(alternatives, value, path).into_iter().for_each(|best| outcome.merge(best));
        }
    }

    /// Returns the result of the best alternative, if violations are reported.
    fn best_of<'s>(
        self,
        alternatives: impl Iterator<Item = Schema<'s>>,
        value: &Value,
        path: &ValuePath<'_>,
    ) -> Option<Outcome> {
        let mut best: Option<Outcome> = None;
        for alternative in alternatives.take_while(|_| !path.is_quiet()) {
            let found = self.value(alternative, value, path, None);
            if best.as_ref().is_none_or(|best| found.matches > best.matches) {
                best = Some(found);
            }
        }
        best
    }

    fn all_of<'s>(
        self,
        parts: impl ExactSizeIterator<Item = Schema<'s>>,
        value: &Value,
        path: &ValuePath<'_>,
        outcome: &mut Outcome,
    ) {
        let (all, mut valid) = (parts.len(), 0);
        for part in parts {
            let found = self.value(part, value, path, None);
            valid += usize::from(found.is_valid());
            outcome.merge(found);
        }
        if valid != all {
            let none = if valid == 0 { ". None validated" } else { "" };
            outcome.add(Violation::junctor(path, &format!("must validate all the schemas (allOf){none}")));
        }
    }
}

fn has_duplicates(items: &[Value]) -> bool {
    let mut seen = std::collections::HashSet::new();
    !items.iter().all(|item| seen.insert(item.to_string()))
}
