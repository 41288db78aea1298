//! Cost estimates of calls to functions of the list and set extensions.

use crate::ast::{Expr, Literal};

use super::calls::{CallSite, STRING_TRAVERSAL};
use super::coster::{Argument, CallEstimate, Coster};
use super::{CostEstimate, SizeEstimate};

const LIST_CREATE: u64 = 10;

impl Coster<'_> {
    pub(super) fn list_function(&self, call: &CallSite<'_>) -> Option<CallEstimate> {
        Some(match (call.overload, call.target, call.args) {
            ("list_slice", Some(list), [start, end]) => {
                let start = self.int(start, 0);
                let end = self.int(end, self.size_of(list).max);
                list_call(1.0, SizeEstimate::fixed(end.wrapping_sub(start)))
            }
            ("lists_range", None, [end]) => list_call(1.0, SizeEstimate::fixed(self.int(end, u64::MAX))),
            ("list_reverse", Some(list), []) => list_call(1.0, self.size_of(list)),
            ("list_flatten" | "list_flatten_int", Some(list), depth) => {
                let depth = depth.first().map_or(1, |depth| self.int(depth, u64::MAX));
                list_call(to_float(depth), self.size_of(list))
            }
            ("list_distinct", Some(list), []) => self_compare(2.0, self.size_of(list)),
            (sort, Some(list), []) if sort.ends_with("_sort") => {
                self_compare(sort_factor(sort), self.size_of(list))
            }
            (sort, Some(_), [keys]) if sort.ends_with("_sortByAssociatedKeys") => {
                self_compare(sort_factor(sort), self.size_of(keys))
            }
            ("list_sets_contains_list" | "list_sets_intersects_list", _, [one, other]) => {
                self.sets(one, other, 1.0)
            }
            ("list_sets_equivalent_list", _, [one, other]) => self.sets(one, other, 2.0),
            _ => return None,
        })
    }

    /// Returns the size of an argument, from the expression or from its declaration.
    pub(super) fn size_of(&self, argument: &Argument) -> SizeEstimate {
        argument.size.or_else(|| self.declared_size(&argument.path)).unwrap_or(SizeEstimate::UNKNOWN)
    }

    /// Returns the value of an integer literal.
    fn int(&self, argument: &Argument, otherwise: u64) -> u64 {
        match self.typed.tree.expr(argument.id) {
            Expr::Literal(Literal::Int(number)) => u64::try_from(*number).unwrap_or(0),
            _ => otherwise,
        }
    }

    fn sets(&self, one: &Argument, other: &Argument, factor: f64) -> CallEstimate {
        let size = self.size_of(one).multiply(self.size_of(other));
        CallEstimate::cost(size.cost(factor).add(CostEstimate::fixed(1)))
    }
}

#[expect(clippy::cast_precision_loss, reason = "estimates are rounded up anyway")]
fn to_float(number: u64) -> f64 {
    number as f64
}

fn sort_factor(overload: &str) -> f64 {
    let texts = overload.starts_with("list_string") || overload.starts_with("list_bytes");
    if texts { 2.0 + STRING_TRAVERSAL } else { 2.0 }
}

fn list_call(factor: f64, size: SizeEstimate) -> CallEstimate {
    CallEstimate::sized(size.cost(factor).add(CostEstimate::fixed(1 + LIST_CREATE)), size)
}

fn self_compare(factor: f64, size: SizeEstimate) -> CallEstimate {
    list_call(factor, size.multiply(size))
}
