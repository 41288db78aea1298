//! Type unification.

use std::collections::HashMap;
use std::sync::Arc;

use crate::types::Type;

/// Bindings of type variables. A failed unification is rolled back.
#[derive(Debug, Default)]
pub(super) struct Substitution {
    bound: HashMap<Arc<str>, Type>,
    /// Previous binding for each change, to roll back.
    trail: Vec<(Arc<str>, Option<Type>)>,
}

impl Substitution {
    /// Returns true if a value of the second type is assignable to the first.
    pub(super) fn assignable(&mut self, expected: &Type, found: &Type) -> bool {
        self.all_assignable(std::slice::from_ref(expected), std::slice::from_ref(found))
    }

    /// Returns true if all types are assignable, pairwise.
    pub(super) fn all_assignable(&mut self, expected: &[Type], found: &[Type]) -> bool {
        self.trail.clear();
        let fits = expected.len() == found.len()
            && expected.iter().zip(found).all(|(expected, found)| self.fits(expected, found));
        if !fits {
            while let Some((name, before)) = self.trail.pop() {
                match before {
                    Some(before) => self.bound.insert(name, before),
                    None => self.bound.remove(&name),
                };
            }
        }
        fits
    }

    fn bind(&mut self, name: &Arc<str>, to: Type) {
        let before = self.bound.insert(name.clone(), to);
        self.trail.push((name.clone(), before));
    }

    fn fits(&mut self, one: &Type, two: &Type) -> bool {
        if let Type::Param(name) = two {
            let (valid, was_bound) = self.unify_variable(one, name, two);
            if valid || was_bound {
                return valid;
            }
        }
        if let Type::Param(name) = one {
            return self.unify_variable(two, name, one).0;
        }
        if one.is_dyn_or_error() || two.is_dyn_or_error() {
            return true;
        }
        match (one, two) {
            (Type::Null, other) | (other, Type::Null) => is_nullable(other),
            (Type::Type(_), Type::Type(_)) => true,
            (Type::List(one), Type::List(two)) => self.fits(one, two),
            (Type::Map(keys, values), Type::Map(other_keys, other_values)) => {
                self.fits(keys, other_keys) && self.fits(values, other_values)
            }
            (Type::Opaque(name, params), Type::Opaque(other, other_params)) => {
                name == other
                    && params.len() == other_params.len()
                    && params.iter().zip(&**other_params).all(|(one, two)| self.fits(one, two))
            }
            _ => one == two,
        }
    }

    /// Returns whether a type can be bound to a variable, and whether the variable was bound
    /// before.
    fn unify_variable(&mut self, candidate: &Type, name: &Arc<str>, variable: &Type) -> (bool, bool) {
        if candidate == variable {
            return (true, true);
        }
        if let Some(bound) = self.bound.get(name).cloned() {
            if *candidate == bound {
                return (true, true);
            }
            if !self.fits(candidate, &bound) {
                return (false, true);
            }
            let general = most_general(candidate, &bound);
            if !self.occurs(variable, &general) {
                self.bind(name, general);
            }
            return (true, true);
        }
        if self.occurs(variable, candidate) {
            return (false, false);
        }
        self.bind(name, candidate.clone());
        (true, false)
    }

    /// Occurs check: returns true if a variable is part of a type, so that it cannot be bound to
    /// it.
    fn occurs(&self, variable: &Type, within: &Type) -> bool {
        if variable == within {
            return true;
        }
        match within {
            Type::Param(name) => self.bound.get(name).is_some_and(|bound| self.occurs(variable, bound)),
            Type::List(inner) => self.occurs(variable, inner),
            Type::Map(keys, values) => self.occurs(variable, keys) || self.occurs(variable, values),
            Type::Opaque(_, params) => params.iter().any(|param| self.occurs(variable, param)),
            Type::Type(Some(inner)) => self.occurs(variable, inner),
            _ => false,
        }
    }

    /// Substitutes bound variables in a type; with `free_to_dyn`, free variables become `dyn`.
    pub(super) fn apply(&self, found: &Type, free_to_dyn: bool) -> Type {
        let apply = |inner: &Type| self.apply(inner, free_to_dyn);
        match found {
            Type::Param(name) => match self.bound.get(name) {
                Some(bound) => apply(bound),
                None if free_to_dyn => Type::Dyn,
                None => found.clone(),
            },
            Type::List(inner) => Type::list(apply(inner)),
            Type::Map(keys, values) => Type::map(apply(keys), apply(values)),
            Type::Opaque(name, params) if !params.is_empty() => {
                Type::Opaque(name.clone(), params.iter().map(apply).collect())
            }
            Type::Type(Some(inner)) => Type::type_of(apply(inner)),
            _ => found.clone(),
        }
    }
}

fn is_nullable(found: &Type) -> bool {
    matches!(found, Type::Null | Type::Opaque(..) | Type::Struct(_) | Type::Duration | Type::Timestamp)
}

/// Returns the less specific of two unifiable types.
pub(super) fn most_general(one: &Type, two: &Type) -> Type {
    if is_equal_or_less_specific(one, two) { one.clone() } else { two.clone() }
}

fn is_equal_or_less_specific(one: &Type, two: &Type) -> bool {
    if one.is_dyn() || matches!(one, Type::Param(_)) {
        return true;
    }
    if two.is_dyn() || matches!(two, Type::Param(_)) {
        return false;
    }
    match (one, two) {
        (Type::Opaque(name, params), Type::Opaque(other, others)) => {
            name == other
                && params.len() == others.len()
                && params.iter().zip(&**others).all(|(one, two)| is_equal_or_less_specific(one, two))
        }
        (Type::List(one), Type::List(two)) => is_equal_or_less_specific(one, two),
        (Type::Map(keys, values), Type::Map(other_keys, other_values)) => {
            is_equal_or_less_specific(keys, other_keys) && is_equal_or_less_specific(values, other_values)
        }
        (Type::Type(_), Type::Type(_)) => true,
        _ => one == two,
    }
}
