//! The functions of the dialect: one table for each library, with signatures and what is called.

mod authz;
mod dialect;
mod formats;
mod lists;
mod net;
mod operators;
mod optionals;
mod patterns;
mod printf;
mod quantities;
mod semver;
mod sets;
mod signature;
mod standard;
mod strings;
mod times;
mod urls;

use std::sync::Arc;

use crate::EvalError;
use crate::types::Type;
use crate::value::Value;

pub(crate) use formats::NamedFormat;
pub(crate) use net::Cidr;
pub(crate) use patterns::{compile as compile_pattern, find, find_all};
pub(crate) use printf::{Clause, Part, next_part};
pub(crate) use quantities::Amount;
pub(crate) use semver::Semver;
pub(crate) use sets::has;
pub(crate) use urls::Url;

/// What a function makes of its arguments. A receiver is the first of them.
pub(crate) type Native = for<'d> fn(&[Value<'d>]) -> Result<Value<'d>, EvalError>;

/// Overloads of one name that one function answers. A name may have several entries, also across libraries.
pub(crate) struct Function {
    pub(crate) name: &'static str,
    /// Identifier and signature: `string.(int) -> string` for a member, `(string) -> int` otherwise.
    pub(crate) overloads: &'static [(&'static str, &'static str)],
    pub(crate) call: Native,
}

/// A signature.
#[derive(Clone, Debug)]
pub(crate) struct Overload {
    pub(crate) id: &'static str,
    pub(crate) member: bool,
    /// With the receiver first.
    pub(crate) args: Vec<Type>,
    pub(crate) result: Type,
    /// Parameters that occur in it.
    pub(crate) params: Vec<&'static str>,
    pub(crate) call: Native,
}

/// All overloads of a name, in the order they were declared.
#[derive(Clone, Debug)]
pub(crate) struct Declaration {
    pub(crate) name: &'static str,
    pub(crate) overloads: Vec<Arc<Overload>>,
}

/// The libraries of the base environment, as of Kubernetes 1.36.
pub(crate) const BASE: &[&[Function]] = &[
    operators::FUNCTIONS,
    standard::FUNCTIONS,
    times::FUNCTIONS,
    optionals::FUNCTIONS,
    lists::FUNCTIONS,
    strings::FUNCTIONS,
    printf::FUNCTIONS,
    sets::FUNCTIONS,
    patterns::FUNCTIONS,
    urls::FUNCTIONS,
    quantities::FUNCTIONS,
    net::FUNCTIONS,
    formats::FUNCTIONS,
    semver::FUNCTIONS,
    authz::FUNCTIONS,
];

/// What only mutating policies have: `jsonpatch.escapeKey`.
pub(crate) const JSON_PATCH: &[Function] = strings::JSON_PATCH;

/// Adds the functions of a library to what is declared.
pub(crate) fn declare(functions: &[Function], into: &mut Vec<Declaration>) {
    for function in functions {
        let parsed =
            function.overloads.iter().map(|(id, text)| Arc::new(signature::parse(id, text, function.call)));
        match into.iter_mut().find(|declared| declared.name == function.name) {
            Some(declared) => declared.overloads.extend(parsed),
            None => into.push(Declaration { name: function.name, overloads: parsed.collect() }),
        }
    }
}

/// Called with arguments that no signature allows.
fn mismatch<'d>() -> Result<Value<'d>, EvalError> {
    Err(EvalError::no_such_overload())
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORDED: &[&str] = &[
        include_str!("../../tests/fixtures/conformance/language.txt"),
        include_str!("../../tests/fixtures/conformance/libraries.txt"),
        include_str!("../../tests/fixtures/conformance/objects.txt"),
    ];

    fn declared() -> Vec<Declaration> {
        let mut declared = Vec::new();
        BASE.iter().for_each(|library| declare(library, &mut declared));
        declared
    }

    #[test]
    fn every_function_is_compared_with_upstream() {
        let expressions: Vec<&str> = RECORDED
            .iter()
            .flat_map(|recorded| recorded.lines())
            .filter_map(|line| line.strip_prefix("expr: "))
            .collect();
        let spelled = |name: &str| expressions.iter().any(|text| text.contains(&format!("{name}(")));
        // Operators, and what macros call, are spelled otherwise.
        let missing: Vec<&str> = declared()
            .iter()
            .map(|declaration| declaration.name)
            .filter(|name| !name.contains(['_', '@']) && !name.contains("Prefix") && !spelled(name))
            .filter(|name| name.starts_with(|first: char| first.is_ascii_alphabetic()))
            .collect();
        assert_eq!(missing, Vec::<&str>::new());
    }

    #[test]
    fn overloads_are_told_apart() {
        let mut ids: Vec<&str> = declared()
            .iter()
            .flat_map(|declaration| &declaration.overloads)
            .map(|overload| overload.id)
            .collect();
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count);
        assert!(
            declared().iter().flat_map(|found| &found.overloads).all(|overload| overload.args.len() <= 4)
        );
    }
}
