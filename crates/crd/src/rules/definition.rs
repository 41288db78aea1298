//! Validation of the rules in a schema, and of their cost.

use coracle_cel::Checked;
use coracle_meta::field::{BadValue, ErrorList, FieldError, Path, json_text};
use serde_json::Value;

use super::compile::{Environments, OLD_SELF};
use super::cost::{self, Cardinality, EXPRESSION_LIMIT, Total};
use super::declare::Declarations;
use crate::Structural;
use crate::structural::{ListType, Rule, Schema};

impl Structural {
    /// Validates the rules of a schema at `path`. Skips the rules of nodes for which `found`
    /// contains other errors, because their meaning is not well-defined.
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
        check.schema(
            self.root(),
            NodeContext { is_root: true, cardinality: Some(1), uncorrelated: None },
            path,
        );
        let RulesCheck { total, errors, .. } = check;
        total.check(path, errors);
    }
}

/// Handling of expressions that exceed the cost limit of one expression. The limit of a whole
/// schema always applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpressionCosts {
    /// The limit applies.
    Limited,
    /// The limit does not apply: the schema was accepted before, by a server with a different
    /// estimate.
    Tolerated,
}

#[derive(Clone, Copy)]
struct NodeContext<'a> {
    is_root: bool,
    cardinality: Cardinality,
    /// The path below which values cannot be correlated with old values, so that `oldSelf` is
    /// unavailable.
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
    fn schema(&mut self, schema: Schema<'_>, context: NodeContext<'_>, path: &Path<'_>) {
        if !schema.has_rules_within() {
            return;
        }
        let below =
            NodeContext { is_root: false, cardinality: cost::within(context.cardinality, schema), ..context };
        if let Some(additional) = schema.additional().schema() {
            self.schema(additional, below, &path.child("additionalProperties"));
        }
        let properties = path.child("properties");
        for (name, property) in schema.properties() {
            self.schema(property, below, &properties.key(name));
        }
        if let Some(items) = schema.items() {
            let is_correlated = schema.list_type() == Some(ListType::Map);
            let uncorrelated = context.uncorrelated.or((!is_correlated).then_some(path));
            self.schema(items, NodeContext { uncorrelated, ..below }, &path.child("items"));
        }
        if !schema.rules().is_empty() && !self.is_faulty(path) {
            self.rules(schema, context, &path.child("x-kubernetes-validations"));
        }
    }

    /// Returns true if there is another error at this path or below.
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

    fn rules(&mut self, schema: Schema<'_>, context: NodeContext<'_>, path: &Path<'_>) {
        let Some(decl) = self.declarations.decl(schema, context.is_root) else {
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
            let times = context.cardinality.unwrap_or_else(|| decl.max_cardinality());
            self.cost("estimated rule cost", cost::product(cost, times), &path.child("rule"));
            let uses_old_self = matches!(&checked, Some(Ok(checked)) if checked.uses(OLD_SELF));
            match checked {
                Some(Err(problem)) => {
                    self.errors.push(FieldError::invalid(&path.child("rule"), rule.to_bad_value(), problem));
                }
                Some(Ok(_)) => match environments.check_message(rule) {
                    Some(Err(problem)) => {
                        let path = path.child("messageExpression");
                        self.errors.push(FieldError::invalid(&path, rule.to_bad_value(), problem));
                    }
                    Some(Ok(message)) => {
                        let path = path.child("messageExpression");
                        self.cost("estimated messageExpression cost", estimate(&message), &path);
                    }
                    None => {}
                },
                None => {}
            }
            self.old_self(rule, uses_old_self, context, &path);
        }
    }

    fn cost(&mut self, name: &str, cost: u64, path: &Path<'_>) {
        if self.costs == ExpressionCosts::Limited && cost > EXPRESSION_LIMIT {
            self.errors.push(FieldError::forbidden(path, cost::excess(name, cost, EXPRESSION_LIMIT)));
        }
        self.total.add(path, cost);
    }

    fn old_self(&mut self, rule: &Rule, uses_old_self: bool, context: NodeContext<'_>, path: &Path<'_>) {
        match (uses_old_self, context.uncorrelated, rule.optional_old_self) {
            (true, Some(uncorrelated), _) => {
                let detail = format!(
                    "oldSelf cannot be used on the uncorrelatable portion of the schema within {uncorrelated}"
                );
                self.errors.push(FieldError::invalid(&path.child("rule"), &*rule.rule, detail));
            }
            (false, _, Some(value)) => {
                let detail = "may not be set if oldSelf is not used in rule";
                self.errors.push(FieldError::invalid(&path.child("optionalOldSelf"), value, detail));
            }
            _ => {}
        }
    }
}

impl Rule {
    /// Formats the whole rule as kube-apiserver prints its internal type.
    fn to_bad_value(&self) -> BadValue {
        let text = |text: &str| json_text(&Value::from(text));
        let reason = self.reason.as_deref().map_or_else(|| "null".to_owned(), text);
        let optional = self.optional_old_self.map_or_else(|| "null".to_owned(), |value| value.to_string());
        BadValue::Json(format!(
            "{{\"Rule\":{},\"Message\":{},\"MessageExpression\":{},\"Reason\":{reason},\"FieldPath\":{},\"OptionalOldSelf\":{optional}}}",
            text(&self.rule),
            text(&self.message),
            text(&self.message_expression),
            text(&self.field_path),
        ))
    }
}
