//! Evaluation of validation rules.

use std::borrow::Cow;

use coracle_cel::{Bindings, Budget, EvalError, PER_CALL_LIMIT, Program, RUNTIME_COST_BUDGET, Value};
use coracle_meta::field::{BadValue, ErrorList, FieldError, Path, quoted};
use serde_json::Value as Json;

use super::compile::{OLD_SELF, SELF};
use super::{CompiledRule, NodeRules, Rules};
use crate::structural::{Rule, Schema, Type};
use crate::validate::Correlated;

/// Maximum length of the result of a `messageExpression`, as in kube-apiserver.
const MAX_MESSAGE_BYTES: usize = 5 * 1024;

const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// State and result of evaluating rules.
pub(crate) struct Evaluation<'e> {
    pub(crate) errors: &'e mut ErrorList,
    /// Violations in unchanged parts, which are returned as warnings instead of errors.
    pub(crate) warnings: Vec<String>,
    pub(super) budget: Budget,
    /// True if no further rules may be evaluated.
    pub(super) is_over: bool,
}

impl<'e> Evaluation<'e> {
    /// Creates an evaluation with Kubernetes' cost budget for one object.
    pub(crate) fn new(errors: &'e mut ErrorList) -> Self {
        let budget = Budget::with_call_limit(RUNTIME_COST_BUDGET, PER_CALL_LIMIT);
        Self { errors, warnings: Vec::new(), budget, is_over: false }
    }

    fn stop(&mut self, error: FieldError) {
        self.errors.push(error);
        self.is_over = true;
    }
}

/// The old value, for ratcheting: violations in unchanged parts are accepted.
#[derive(Clone, Copy, Default)]
pub(crate) struct Ratchet<'a> {
    current: Option<Correlated<'a>>,
    /// The nearest ancestor that is correlated with an old value.
    nearest: Option<Correlated<'a>>,
}

impl<'a> Ratchet<'a> {
    pub(crate) fn new(root: Correlated<'a>) -> Self {
        Self { current: Some(root), nearest: None }
    }

    fn is_ratcheted(self) -> bool {
        self.current.or(self.nearest).is_some_and(Correlated::is_unchanged)
    }

    fn key(self, name: &str) -> Self {
        let Some(current) = self.current else { return self };
        // Both objects were converted to the same version, so equal values here do not indicate an
        // unchanged object.
        if self.nearest.is_none() && matches!(name, "apiVersion" | "kind") {
            return Self::default();
        }
        Self { current: current.key(name), nearest: Some(current) }
    }
}

/// A value to validate.
#[derive(Clone, Copy)]
struct Subject<'a, 's> {
    schema: Schema<'s>,
    value: &'a Json,
    old: Option<&'a Json>,
    ratchet: Ratchet<'a>,
}

impl Rules {
    /// Evaluates the rules of a schema node and its descendants.
    pub(crate) fn evaluate<'a>(
        &self,
        schema: Schema<'a>,
        value: &'a Json,
        old: Option<&'a Json>,
        ratchet: Ratchet<'a>,
        path: &Path<'_>,
        evaluation: &mut Evaluation<'_>,
    ) {
        self.subject(Subject { schema, value, old, ratchet }, path, evaluation);
    }

    fn subject<'a>(&self, subject: Subject<'a, 'a>, path: &Path<'_>, evaluation: &mut Evaluation<'_>) {
        if subject.value.is_null() || !subject.schema.has_rules_within() || evaluation.is_over {
            return;
        }
        // Skip the lookup for nodes without rules, which are the majority.
        if !subject.schema.rules().is_empty()
            && let Some(rules) = self.by_node.get(&subject.schema.index())
        {
            rules.evaluate(subject, path, evaluation);
        }
        match subject.value {
            Json::Array(items) => self.items(subject, items, path, evaluation),
            Json::Object(fields) => {
                let old = subject.old.and_then(Json::as_object);
                for (name, value) in fields {
                    let old = old.and_then(|old| old.get(name)).filter(|old| !old.is_null());
                    let ratchet = subject.ratchet.key(name);
                    if let Some(schema) = subject.schema.additional().schema() {
                        self.subject(Subject { schema, value, old, ratchet }, &path.key(name), evaluation);
                    }
                    if let Some(schema) = subject.schema.property(name) {
                        self.subject(Subject { schema, value, old, ratchet }, &path.child(name), evaluation);
                    }
                }
            }
            _ => {}
        }
    }

    fn items<'a>(
        &self,
        subject: Subject<'a, 'a>,
        items: &'a [Json],
        path: &Path<'_>,
        evaluation: &mut Evaluation<'_>,
    ) {
        let Some(schema) = subject.schema.items() else { return };
        let correlated = |old| Correlated::new(subject.schema, subject.value, old).items();
        let old_items = subject.old.map(correlated).unwrap_or_default();
        let current_items = subject.ratchet.current.map(Correlated::items).unwrap_or_default();
        for (index, value) in items.iter().enumerate() {
            let at = |items: &[Option<Correlated<'a>>]| items.get(index).copied().flatten();
            let ratchet = match subject.ratchet.current {
                Some(current) => Ratchet { current: at(&current_items), nearest: Some(current) },
                None => subject.ratchet,
            };
            let old = at(&old_items).map(Correlated::old);
            self.subject(Subject { schema, value, old, ratchet }, &path.index(index), evaluation);
        }
    }
}

impl NodeRules {
    fn evaluate<'a>(&'a self, subject: Subject<'a, 'a>, path: &Path<'_>, evaluation: &mut Evaluation<'_>) {
        let ty = subject.schema.ty().name();
        let Some(decl) = &self.decl else {
            let detail =
                "rule compiler initialization error: failed to convert to declType for CEL validation rules";
            return evaluation.errors.push(FieldError::invalid(path, ty, detail));
        };
        if evaluation.budget.remaining() == 0 {
            return evaluation.stop(FieldError::invalid(path, ty, OUT_OF_BUDGET));
        }
        let this = Value::from_json(subject.value, decl).map(|this| Bindings::new().with(SELF, this));
        let old = subject.old.map(|old| Value::from_json(old, decl));
        for (compiled, rule) in self.rules.iter().zip(subject.schema.rules()) {
            let call = RuleCall { compiled, rule, subject, path, ty, this: &this, old: old.as_ref() };
            call.evaluate(evaluation);
            if evaluation.is_over {
                return;
            }
        }
    }
}

/// A rule applied to a value.
struct RuleCall<'c, 'a> {
    compiled: &'a CompiledRule,
    rule: &'a Rule,
    subject: Subject<'a, 'a>,
    path: &'c Path<'c>,
    ty: &'static str,
    /// Bindings with `self`.
    this: &'c Result<Bindings<'a>, EvalError>,
    old: Option<&'c Result<Value<'a>, EvalError>>,
}

impl<'a> RuleCall<'_, 'a> {
    fn evaluate(&self, evaluation: &mut Evaluation<'_>) {
        let program = match &self.compiled.program {
            None => return,
            Some(Ok(program)) => program,
            Some(Err(problem)) => return self.fault(format!("rule compile error: {problem}"), evaluation),
        };
        let is_optional = self.rule.optional_old_self == Some(true);
        if self.compiled.uses_old_self && self.old.is_none() && !is_optional {
            // A transition rule without old value is not evaluated.
            return;
        }
        let result = self
            .bindings(is_optional)
            .and_then(|bindings| program.evaluate(&*bindings, &mut evaluation.budget));
        if evaluation.budget.is_exhausted() {
            return evaluation.stop(FieldError::invalid(self.path, self.ty, OUT_OF_BUDGET));
        }
        match result {
            Ok(value) if value.as_bool() == Some(true) => {}
            Ok(_) => self.report_violation(evaluation),
            Err(error) => self.failed(&error, evaluation),
        }
    }

    fn bindings(&self, is_optional: bool) -> Result<Cow<'_, Bindings<'a>>, EvalError> {
        let bindings = self.this.as_ref().map_err(Clone::clone)?;
        let old = self.old.filter(|_| self.compiled.uses_old_self).cloned().transpose()?;
        if old.is_none() && !is_optional {
            return Ok(Cow::Borrowed(bindings));
        }
        let mut bindings = bindings.clone();
        match (old, is_optional) {
            (Some(old), false) => bindings.bind(OLD_SELF, old),
            (old, true) => bindings.bind(OLD_SELF, Value::Optional(old.map(Box::new).map(Into::into))),
            (None, false) => {}
        }
        Ok(Cow::Owned(bindings))
    }

    /// Reports an expression that failed.
    fn failed(&self, error: &EvalError, evaluation: &mut Evaluation<'_>) {
        let rule = self.rule.display_name();
        let text = error.to_string();
        match error {
            EvalError::CostLimitExceeded => {
                let detail = format!(
                    "'{text}': no further validation rules will be run due to call cost exceeds limit for rule: {rule}"
                );
                evaluation.stop(FieldError::invalid(self.path, self.ty, detail));
            }
            _ if text.starts_with("no such overload") => self.fault(
                format!(
                    "'{text}': call arguments did not match a supported operator, function or macro signature for rule: {rule}"
                ),
                evaluation,
            ),
            _ => self.fault(format!("{text} evaluating rule: {rule}"), evaluation),
        }
    }

    fn fault(&self, detail: String, evaluation: &mut Evaluation<'_>) {
        evaluation.errors.push(FieldError::invalid(self.path, self.ty, detail));
    }

    /// Reports that the expression evaluated to false.
    fn report_violation(&self, evaluation: &mut Evaluation<'_>) {
        match &self.compiled.field_path {
            Some(field_path) => self.report_violation_at(&self.path.child(field_path), evaluation),
            None => self.report_violation_at(self.path, evaluation),
        }
    }

    fn report_violation_at(&self, path: &Path<'_>, evaluation: &mut Evaluation<'_>) {
        let error = match self.message(&mut evaluation.budget) {
            Ok(message) => self.rule.error(path, self.bad_value(), message),
            Err(problem) => {
                evaluation.is_over = true;
                FieldError::invalid(path, self.ty, problem)
            }
        };
        if !self.compiled.uses_old_self && self.subject.ratchet.is_ratcheted() {
            evaluation.warnings.push(error.to_string());
        } else {
            evaluation.errors.push(error);
        }
    }

    /// Returns the value for the error; objects and lists are omitted.
    fn bad_value(&self) -> BadValue {
        match self.subject.schema.ty() {
            Type::Object | Type::Array => BadValue::Omitted,
            _ => BadValue::from(self.subject.value),
        }
    }

    /// Returns the message of the rule. A failing `messageExpression` is ignored, except if it
    /// exceeds the budget.
    fn message(&self, budget: &mut Budget) -> Result<String, String> {
        let Some(program) = &self.compiled.message else { return Ok(self.rule.message_or_default()) };
        let evaluated = self.bindings(false).and_then(|bindings| text_of(program, &bindings, budget));
        if budget.is_exhausted() {
            return Err("messageExpression evaluation failed due to running out of cost budget, no further \
                        validation rules will be run"
                .to_owned());
        }
        match evaluated {
            Err(EvalError::CostLimitExceeded) => Err(format!(
                "no further validation rules will be run due to call cost exceeds limit for messageExpression: {}",
                quoted(&self.rule.message_expression)
            )),
            Ok(Some(text)) if is_message(text.trim()) => Ok(text.trim().to_owned()),
            Ok(_) | Err(_) => Ok(self.rule.message_or_default()),
        }
    }
}

fn text_of<'a>(
    program: &'a Program,
    bindings: &Bindings<'a>,
    budget: &mut Budget,
) -> Result<Option<String>, EvalError> {
    Ok(program.evaluate(bindings, budget)?.as_str().map(str::to_owned))
}

fn is_message(text: &str) -> bool {
    !text.is_empty() && text.len() <= MAX_MESSAGE_BYTES && !text.contains('\n')
}

impl Rule {
    /// Returns the name of the rule in errors.
    fn display_name(&self) -> &str {
        if self.message.is_empty() { self.rule.trim() } else { self.message.trim() }
    }

    fn message_or_default(&self) -> String {
        match &*self.message {
            "" => format!("failed rule: {}", self.display_name()),
            message => message.trim().to_owned(),
        }
    }

    fn error(&self, path: &Path<'_>, value: BadValue, message: String) -> FieldError {
        match self.reason.as_deref() {
            Some("FieldValueForbidden") => FieldError::forbidden(path, message),
            Some("FieldValueRequired") => FieldError::required(path, message),
            Some("FieldValueDuplicate") => FieldError::duplicate(path, value),
            _ => FieldError::invalid(path, value, message),
        }
    }
}
