//! Type checking of calls: resolution of functions and their overloads.

use std::collections::HashMap;
use std::sync::Arc;

use crate::ast::{Expr, ExprId, Literal};
use crate::library::{Declaration, Overload};
use crate::names::{AND, OPT_SELECT, OR};
use crate::types::{Type, write_list};

use super::{Checker, Reference};

impl Checker<'_> {
    pub(super) fn call(&mut self, id: ExprId, function: &Arc<str>, target: Option<ExprId>, args: &[ExprId]) {
        if &**function == OPT_SELECT {
            return self.optional_select(id, args);
        }
        for arg in args {
            self.check(*arg);
        }
        let Some(target) = target else {
            let name = function.strip_prefix('.').unwrap_or(function);
            let Some(declared) = self.env.function(name) else { return self.undeclared(id, function) };
            self.rename(id, declared.name, args);
            return self.resolve(id, declared, None, args);
        };
        if let Some(prefix) = self.tree.qualified_name(target)
            && let Some(declared) = self.env.function(format!("{prefix}.{function}").trim_start_matches('.'))
        {
            // The target is a namespace, not a receiver.
            self.rename(id, declared.name, args);
            return self.resolve(id, declared, None, args);
        }
        self.check(target);
        match self.env.function(function) {
            Some(declared) => self.resolve(id, declared, Some(target), args),
            None => self.undeclared(id, function),
        }
    }

    fn rename(&mut self, id: ExprId, function: &str, args: &[ExprId]) {
        self.tree.replace(id, Expr::Call { function: function.into(), target: None, args: args.to_vec() });
    }

    fn optional_select(&mut self, id: ExprId, args: &[ExprId]) {
        let [operand, field] = args else { return self.set_type(id, Type::Error) };
        let Expr::Literal(Literal::String(name)) = self.tree.expr(*field).clone() else {
            return self.set_type(id, Type::Error);
        };
        let found = self.select_field(id, *operand, &name, true);
        let found = self.substitution.apply(&found, false);
        self.set_type(id, found);
        self.set_type(*field, Type::String);
        let overloads = self.env.function(OPT_SELECT).map(|declared| declared.overloads.clone());
        self.references[id.index()] = Some(Reference::Overloads(overloads.unwrap_or_default()));
    }

    fn resolve(&mut self, id: ExprId, declared: &Declaration, target: Option<ExprId>, args: &[ExprId]) {
        let found: Vec<Type> = target.iter().chain(args).map(|arg| self.type_of(*arg)).collect();
        if declared.name == AND || declared.name == OR {
            return self.logic(id, declared, args, &found);
        }
        let mut matching: Vec<Arc<Overload>> = Vec::new();
        let mut result: Option<Type> = None;
        for overload in declared.overloads.iter().filter(|overload| overload.member == target.is_some()) {
            let (params, returned) = self.instantiate(overload);
            // cel-go checks in this direction: whether the parameters are assignable to the
            // arguments.
            if !self.substitution.all_assignable(&found, &params) {
                continue;
            }
            matching.push(overload.clone());
            let returned = self.substitution.apply(&returned, false);
            result = Some(match result {
                None => returned,
                Some(so_far) if so_far.is_dyn() || so_far == returned => so_far,
                Some(_) => Type::Dyn,
            });
        }
        let Some(result) = result else {
            let found: Vec<Type> = found.iter().map(|arg| self.substitution.apply(arg, true)).collect();
            let text = signature(&found, target.is_some());
            self.report(
                id,
                format!("found no matching overload for '{}' applied to '{text}'", declared.name),
            );
            return self.set_type(id, Type::Error);
        };
        self.set_type(id, result);
        self.references[id.index()] = Some(Reference::Overloads(matching));
    }

    /// Checks `&&` and `||`, whose operands are reported individually.
    fn logic(&mut self, id: ExprId, declared: &Declaration, args: &[ExprId], found: &[Type]) {
        let mut sound = true;
        for (arg, found) in args.iter().zip(found) {
            if !self.substitution.assignable(found, &Type::Bool) {
                self.mismatch(*arg, &Type::Bool, found);
                sound = false;
            }
        }
        self.set_type(id, if sound { Type::Bool } else { Type::Error });
        self.references[id.index()] = Some(Reference::Overloads(declared.overloads.clone()));
    }

    /// Returns the types of a signature, with fresh type variables for its parameters.
    fn instantiate(&mut self, overload: &Overload) -> (Vec<Type>, Type) {
        if overload.params.is_empty() {
            return (overload.args.clone(), overload.result.clone());
        }
        let fresh: HashMap<&str, Type> =
            overload.params.iter().map(|param| (*param, self.free_variable())).collect();
        let args = overload.args.iter().map(|arg| replace(arg, &fresh)).collect();
        (args, replace(&overload.result, &fresh))
    }
}

fn replace(found: &Type, fresh: &HashMap<&str, Type>) -> Type {
    match found {
        Type::Param(name) => fresh.get(&**name).unwrap_or(found).clone(),
        Type::List(inner) => Type::list(replace(inner, fresh)),
        Type::Map(keys, values) => Type::map(replace(keys, fresh), replace(values, fresh)),
        Type::Opaque(name, params) if !params.is_empty() => {
            Type::Opaque(name.clone(), params.iter().map(|param| replace(param, fresh)).collect())
        }
        Type::Type(Some(inner)) => Type::type_of(replace(inner, fresh)),
        _ => found.clone(),
    }
}

fn signature(args: &[Type], member: bool) -> String {
    let mut text = String::new();
    let mut args = args;
    if let (true, Some((receiver, rest))) = (member, args.split_first()) {
        text = format!("{receiver}.");
        args = rest;
    }
    text.push('(');
    // Writing to a string cannot fail.
    let _ = write_list(&mut text, args);
    text.push(')');
    text
}
