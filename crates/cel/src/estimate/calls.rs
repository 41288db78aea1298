//! Cost estimates of calls to standard functions.

use crate::ast::ExprId;

use super::coster::{Argument, CallEstimate, Coster};
use super::{CostEstimate, SizeEstimate};

pub(super) const STRING_TRAVERSAL: f64 = 0.1;
pub(super) const PATTERN_LENGTH: f64 = 0.25;

/// A call with an overload and its arguments.
pub(super) struct CallSite<'c> {
    pub(super) function: &'c str,
    pub(super) overload: &'c str,
    pub(super) target: Option<&'c Argument>,
    pub(super) args: &'c [Argument],
}

impl Coster<'_> {
    pub(super) fn call(
        &mut self,
        id: ExprId,
        function: &str,
        target: Option<ExprId>,
        args: &[ExprId],
    ) -> CostEstimate {
        if let ("dyn", [arg]) = (function, args) {
            let cost = self.cost(*arg);
            self.copy_sizes(id, *arg);
            return CostEstimate::fixed(1).add(cost);
        }
        let mut costs = Vec::with_capacity(args.len());
        let mut arguments = Vec::with_capacity(args.len());
        for arg in args {
            costs.push(self.cost(*arg));
            arguments.push(self.argument(*arg));
        }
        let typed = self.typed;
        let overloads = typed.overloads(id);
        if overloads.is_empty() {
            return CostEstimate::default();
        }
        let mut sum = CostEstimate::default();
        let mut receiver = None;
        if let Some(target) = target {
            sum = self.cost(target);
            receiver = Some(self.argument(target));
        }
        // The union over all candidate overloads.
        let mut total = CostEstimate { min: u64::MAX, max: 0 };
        let mut result: Option<SizeEstimate> = None;
        for overload in overloads {
            let call =
                CallSite { function, overload: overload.id, target: receiver.as_ref(), args: &arguments };
            let one = self.overload(id, &call, &costs);
            total = total.union(one.cost);
            result = match (result, one.result) {
                (Some(so_far), Some(more)) => Some(so_far.union(more)),
                (so_far, more) => so_far.or(more),
            };
            if let ("index_list" | "index_map", Some(container)) = (overload.id, args.first()) {
                result = self.entry(*container).map(|entry| entry.value);
                let mut path = self.path(*container);
                path.push(if overload.id == "index_list" { "@items" } else { "@values" }.into());
                self.set_path(id, path);
            }
            if result.is_none() {
                result = self.size(id);
            }
        }
        self.set_size(id, result);
        sum.add(total)
    }

    fn overload(&mut self, id: ExprId, call: &CallSite<'_>, costs: &[CostEstimate]) -> CallEstimate {
        let arguments = costs.iter().fold(CostEstimate::default(), |sum, cost| sum.add(*cost));
        let estimate = self.list_function(call).or_else(|| self.kubernetes_function(call));
        let estimate = estimate.or_else(|| self.standard_function(id, call));
        if let Some(CallEstimate { cost, result }) = estimate {
            return CallEstimate { cost: cost.add(arguments), result };
        }
        match (call.overload, costs, call.args) {
            ("logical_or" | "logical_and", [left, right], _) => {
                CallEstimate::cost(CostEstimate { min: left.min, max: left.add(*right).max })
            }
            ("conditional", [condition, truthy, falsy], [_, one, other]) => {
                self.unite_entries(id, one.id, other.id);
                let size = known_size(one).union(known_size(other));
                CallEstimate::sized(condition.add(truthy.union(*falsy)), size)
            }
            _ => CallEstimate::cost(CostEstimate::fixed(1).add(arguments)),
        }
    }

    fn standard_function(&mut self, id: ExprId, call: &CallSite<'_>) -> Option<CallEstimate> {
        let read = |size: SizeEstimate| size.cost(STRING_TRAVERSAL);
        Some(match (call.overload, call.target, call.args) {
            ("string_format", Some(target), _) => CallEstimate::cost(read(known_size(target))),
            ("string_to_bytes", _, [text]) => {
                let size = known_size(text);
                // A character takes up to four bytes. cel-go lets this product wrap around.
                CallEstimate::sized(read(size), SizeEstimate { min: size.min, max: size.max.wrapping_mul(4) })
            }
            ("bytes_to_string", _, [bytes]) => {
                let size = known_size(bytes);
                CallEstimate::sized(read(size), SizeEstimate { min: size.min / 4, max: size.max })
            }
            ("strings_quote", _, [text]) => {
                let size = known_size(text);
                let max = size.max.wrapping_mul(2).wrapping_add(2);
                CallEstimate::sized(read(size), SizeEstimate { min: size.min.wrapping_add(2), max })
            }
            ("starts_with_string" | "ends_with_string", _, [part]) => {
                CallEstimate::cost(read(known_size(part)))
            }
            ("in_list", _, [_, list]) => CallEstimate::cost(known_size(list).cost(1.0)),
            ("matches_string", Some(text), [pattern]) => {
                CallEstimate::cost(pattern_cost(known_size(text), known_size(pattern)))
            }
            ("contains_string", Some(text), [part]) => {
                CallEstimate::cost(read(known_size(text)).multiply(read(known_size(part))))
            }
            ("add_string" | "add_bytes" | "add_list", _, [left, right]) => {
                let size = known_size(left).add(known_size(right));
                self.unite_entries(id, left.id, right.id);
                let cost = if call.overload == "add_list" { CostEstimate::fixed(1) } else { read(size) };
                CallEstimate::sized(cost, size)
            }
            (
                "less_string"
                | "greater_string"
                | "less_equals_string"
                | "greater_equals_string"
                | "less_bytes"
                | "greater_bytes"
                | "less_equals_bytes"
                | "greater_equals_bytes"
                | "equals"
                | "not_equals",
                _,
                [left, right],
            ) => {
                let max = known_size(left).max.min(known_size(right).max);
                let size = SizeEstimate { min: u64::from(max > 0), max };
                CallEstimate::cost(read(size))
            }
            _ => return None,
        })
    }
}

/// Returns the size of an argument, if the expression itself determines it.
pub(super) fn known_size(argument: &Argument) -> SizeEstimate {
    argument.size.unwrap_or(SizeEstimate::UNKNOWN)
}

/// Estimates a regular expression match. The text counts as one longer, so that an empty one does
/// not make matching free.
pub(super) fn pattern_cost(text: SizeEstimate, pattern: SizeEstimate) -> CostEstimate {
    let read = text.add(SizeEstimate::fixed(1)).cost(STRING_TRAVERSAL);
    read.multiply(pattern.cost(PATTERN_LENGTH))
}
