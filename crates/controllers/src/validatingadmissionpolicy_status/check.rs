//! Type-checks the expressions of a policy.

use coracle_cel::policy::PolicyExpressions;
use coracle_cel::{Checked, Decl};
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicySpec;
use kube::core::GroupVersionKind;
use serde_json::{Value, json};

/// A kind and the declaration of its objects; `None` if expressions cannot access them.
pub(super) struct DeclaredKind {
    pub(super) kind: GroupVersionKind,
    pub(super) decl: Option<Decl>,
}

/// The `expressionWarnings` of a policy for these kinds and this kind of parameters.
pub(super) fn warnings(
    spec: &ValidatingAdmissionPolicySpec,
    kinds: &[DeclaredKind],
    params: Option<&DeclaredKind>,
) -> Vec<Value> {
    let environments: Vec<_> = kinds.iter().map(|known| (known, environment(spec, known, params))).collect();
    let mut warnings = Vec::new();
    for (index, validation) in spec.validations.iter().flatten().enumerate() {
        let message = validation.message_expression.as_deref().filter(|message| !message.is_empty());
        let expressions = [("expression", Some(&*validation.expression)), ("messageExpression", message)];
        for (field, expression) in expressions {
            let Some(expression) = expression else { continue };
            let found: Vec<String> =
                environments.iter().filter_map(|(known, env)| problem(known, env, expression)).collect();
            if !found.is_empty() {
                let field = format!("spec.validations[{index}].{field}");
                warnings.push(json!({"fieldRef": field, "warning": found.join("\n")}));
            }
        }
    }
    warnings
}

fn problem(known: &DeclaredKind, expressions: &PolicyExpressions, expression: &str) -> Option<String> {
    let error = expressions.check_types(expression).err()?;
    let GroupVersionKind { group, version, kind } = &known.kind;
    Some(format!("{group}/{version}, Kind={kind}: {error}\n"))
}

/// Environment of expressions about objects of a kind.
fn environment(
    spec: &ValidatingAdmissionPolicySpec,
    known: &DeclaredKind,
    params: Option<&DeclaredKind>,
) -> PolicyExpressions {
    let mut expressions = PolicyExpressions::new(params.is_some());
    if let Some(decl) = &known.decl {
        expressions = expressions.with_object_type(&known.kind.kind, decl);
    }
    if let Some((params, decl)) = params.and_then(|params| Some((params, params.decl.as_ref()?))) {
        expressions = expressions.with_params_type(&params.kind.kind, decl);
    }
    for variable in spec.variables.iter().flatten() {
        let checked = expressions.check_types(&variable.expression).ok();
        expressions.name(&variable.name, checked.as_ref().map(Checked::output_type));
    }
    expressions
}
