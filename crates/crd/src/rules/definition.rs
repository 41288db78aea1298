//! Whether the rules of a schema can be evaluated, and what that may cost.

use coracle_cel::Checked;
use coracle_meta::field::{BadValue, ErrorList, FieldError, Path, json_text};
use serde_json::Value;

use super::compile::{Environments, OLD_SELF};
use super::cost::{self, Cardinality, EXPRESSION_LIMIT, Total};
use super::declare::Declarations;
use crate::Structural;
use crate::structural::{ListType, Rule, Schema};

impl Structural {
    /// Checks the rules of a schema that stands at `path`. Where something else is wrong with the schema
    /// already, which `found` says, its rules are not looked at: what they mean is not clear.
    pub fn check_rules(
        &self,
        costs: ExpressionCosts,
        path: &Path<'_>,
        found: &ErrorList,
        errors: &mut ErrorList,
    ) {
        if !self.root().has_rules_within() {
            return;
        }
        let declarations = Declarations::default();
        let mut check = RulesCheck { costs, found, declarations, total: Total::default(), errors };
        check.schema(self.root(), Place { is_root: true, cardinality: Some(1), uncorrelated: None }, path);
        let RulesCheck { total, errors, .. } = check;
        total.check(path, errors);
    }
}

/// Whether one expression may cost more than its share. All of a schema never may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpressionCosts {
    /// It may not.
    Limited,
    /// It may: the schema was accepted once, by a server with another estimate.
    Tolerated,
}

#[derive(Clone, Copy)]
struct Place<'a> {
    is_root: bool,
    cardinality: Cardinality,
    /// Where values cannot be told from each other from here on, so that there is no old value.
    uncorrelated: Option<&'a Path<'a>>,
}

struct RulesCheck<'e> {
    costs: ExpressionCosts,
    found: &'e ErrorList,
    declarations: Declarations,
    total: Total,
    errors: &'e mut ErrorList,
}

impl RulesCheck<'_> {
    fn schema(&mut self, schema: Schema<'_>, place: Place<'_>, path: &Path<'_>) {
        if !schema.has_rules_within() {
            return;
        }
        let below = Place { is_root: false, cardinality: cost::within(place.cardinality, schema), ..place };
        if let Some(additional) = schema.additional().schema() {
            self.schema(additional, below, &path.child("additionalProperties"));
        }
        let properties = path.child("properties");
        for (name, property) in schema.properties() {
            self.schema(property, below, &properties.key(name));
        }
        if let Some(items) = schema.items() {
            let is_correlated = schema.list_type() == Some(ListType::Map);
            let uncorrelated = place.uncorrelated.or((!is_correlated).then_some(path));
            self.schema(items, Place { uncorrelated, ..below }, &path.child("items"));
        }
        if !schema.rules().is_empty() && !self.is_faulty(path) {
            self.rules(schema, place, &path.child("x-kubernetes-validations"));
        }
    }

    /// Whether something else is wrong here or below.
    fn is_faulty(&self, path: &Path<'_>) -> bool {
        if self.found.is_empty() {
            return false;
        }
        let path = path.to_string();
        let is_within = |field: &str| {
            field.strip_prefix(&*path).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        self.found.iter().any(|error| is_within(&error.field))
    }

    fn rules(&mut self, schema: Schema<'_>, place: Place<'_>, path: &Path<'_>) {
        let Some(decl) = self.declarations.decl(schema, place.is_root) else {
            let detail = "internal error: failed to construct type information for x-kubernetes-validations \
                          rules: unable to convert structural schema to CEL declarations";
            return self.errors.push(FieldError::internal(path, detail));
        };
        let environments = Environments::new(&decl);
        for (index, rule) in schema.rules().iter().enumerate() {
            let path = path.index(index);
            let checked = environments.check(rule);
            let estimate = |checked: &Checked| checked.estimate(&*decl).max;
            let cost = match &checked {
                Some(Ok(checked)) => estimate(checked),
                _ => 0,
            };
            let times = place.cardinality.unwrap_or_else(|| decl.max_cardinality());
            self.cost("estimated rule cost", cost::product(cost, times), &path.child("rule"));
            let uses_old_self = matches!(&checked, Some(Ok(checked)) if checked.uses(OLD_SELF));
            match checked {
                Some(Err(problem)) => {
                    self.errors.push(FieldError::invalid(&path.child("rule"), rule.shown_whole(), problem));
                }
                Some(Ok(_)) => match environments.check_message(rule) {
                    Some(Err(problem)) => {
                        let path = path.child("messageExpression");
                        self.errors.push(FieldError::invalid(&path, rule.shown_whole(), problem));
                    }
                    Some(Ok(message)) => {
                        let path = path.child("messageExpression");
                        self.cost("estimated messageExpression cost", estimate(&message), &path);
                    }
                    None => {}
                },
                None => {}
            }
            self.old_self(rule, uses_old_self, place, &path);
        }
    }

    fn cost(&mut self, name: &str, cost: u64, path: &Path<'_>) {
        if self.costs == ExpressionCosts::Limited && cost > EXPRESSION_LIMIT {
            self.errors.push(FieldError::forbidden(path, cost::excess(name, cost, EXPRESSION_LIMIT)));
        }
        self.total.add(path, cost);
    }

    fn old_self(&mut self, rule: &Rule, uses_old_self: bool, place: Place<'_>, path: &Path<'_>) {
        match (uses_old_self, place.uncorrelated, rule.optional_old_self) {
            (true, Some(uncorrelated), _) => {
                let detail = format!(
                    "oldSelf cannot be used on the uncorrelatable portion of the schema within {uncorrelated}"
                );
                self.errors.push(FieldError::invalid(&path.child("rule"), &*rule.rule, detail));
            }
            (false, _, Some(said)) => {
                let detail = "may not be set if oldSelf is not used in rule";
                self.errors.push(FieldError::invalid(&path.child("optionalOldSelf"), said, detail));
            }
            _ => {}
        }
    }
}

impl Rule {
    /// The whole rule, as upstream's internal type is shown.
    fn shown_whole(&self) -> BadValue {
        let text = |text: &str| json_text(&Value::from(text));
        let reason = self.reason.as_deref().map_or_else(|| "null".to_owned(), text);
        let optional = self.optional_old_self.map_or_else(|| "null".to_owned(), |said| said.to_string());
        BadValue::Json(format!(
            "{{\"Rule\":{},\"Message\":{},\"MessageExpression\":{},\"Reason\":{reason},\"FieldPath\":{},\"OptionalOldSelf\":{optional}}}",
            text(&self.rule),
            text(&self.message),
            text(&self.message_expression),
            text(&self.field_path),
        ))
    }
}
