//! Compilation of validation rules (`x-kubernetes-validations`).

use coracle_cel::{Checked, Decl, Env, Type};

use super::CompiledRule;
use crate::field_path;
use crate::structural::{Rule, Schema};

/// Variable with the validated value.
pub(super) const SELF: &str = "self";

/// Variable with the old value.
pub(super) const OLD_SELF: &str = "oldSelf";

/// Type name of `self`. kube-apiserver's contains a number, so that users do not depend on it.
const SELF_TYPE: &str = "selfType";

/// The environments of the rules of one schema node.
pub(super) struct Environments {
    plain: Env,
    /// For rules with `optionalOldSelf: true`.
    optional: Env,
}

impl Environments {
    pub(super) fn new(decl: &Decl) -> Self {
        let with_self = Env::kubernetes().declared_variable(SELF, SELF_TYPE, decl);
        let ty = with_self.check(SELF).map_or(Type::Dyn, |checked| checked.output_type().clone());
        let plain = with_self.clone().variable(OLD_SELF, ty.clone());
        let optional = with_self.variable(OLD_SELF, Type::optional(ty));
        Self { plain, optional }
    }

    fn of(&self, rule: &Rule) -> &Env {
        if rule.optional_old_self == Some(true) { &self.optional } else { &self.plain }
    }

    /// Checks the expression of a rule. `None` if it is empty.
    pub(super) fn check(&self, rule: &Rule) -> Option<Result<Checked, String>> {
        if rule.rule.trim().is_empty() {
            return None;
        }
        Some(match self.of(rule).check(&rule.rule) {
            Err(error) => Err(format!("compilation failed: {error}")),
            Ok(checked) if *checked.output_type() != Type::Bool => {
                Err("cel expression must evaluate to a bool".to_owned())
            }
            Ok(checked) => Ok(checked),
        })
    }

    /// Checks the `messageExpression`. `None` if there is none.
    pub(super) fn check_message(&self, rule: &Rule) -> Option<Result<Checked, String>> {
        if rule.message_expression.is_empty() {
            return None;
        }
        Some(match self.of(rule).check(&rule.message_expression) {
            Err(error) => Err(format!("messageExpression compilation failed: {error}")),
            Ok(checked) if *checked.output_type() != Type::String => {
                Err("messageExpression must evaluate to a string".to_owned())
            }
            Ok(checked) => Ok(checked),
        })
    }

    pub(super) fn compile(&self, rule: &Rule, schema: Schema<'_>) -> CompiledRule {
        let checked = self.check(rule);
        let uses_old_self = matches!(&checked, Some(Ok(checked)) if checked.uses(OLD_SELF));
        let program = checked.map(|checked| {
            checked?.program().map_err(|error| format!("program instantiation failed: {error}"))
        });
        let is_sound = matches!(program, Some(Ok(_)));
        let message = self.check_message(rule).filter(|_| is_sound);
        let path = Some(&rule.field_path).filter(|path| is_sound && !path.is_empty());
        CompiledRule {
            program,
            uses_old_self,
            message: message.and_then(|checked| checked.ok()?.program().ok()),
            field_path: path.and_then(|path| field_path::resolve(path, schema)).map(Into::into),
        }
    }
}
