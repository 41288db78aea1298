//! A PriorityLevelConfiguration, parsed.

use std::sync::Arc;

use coracle_registry::view;
use serde_json::Value;

use super::seat_limits::Shares;

/// The mandatory level whose requests are not limited. Validation allows the type `Exempt` for no other name.
pub(super) const EXEMPT: &str = "exempt";

/// The mandatory level, and FlowSchema, for requests that no other schema matches.
pub(super) const CATCH_ALL: &str = "catch-all";

#[derive(Debug)]
pub(super) struct PriorityLevel {
    pub(super) name: Arc<str>,
    pub(super) uid: Box<str>,
    pub(super) shares: Shares,
    pub(super) response: LimitResponse,
}

/// The response of a level without a free seat to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LimitResponse {
    /// The level has no limit.
    Exempt,
    Reject,
    Queue(Queuing),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Queuing {
    pub(super) queues: u64,
    /// Queues that a flow may use.
    pub(super) hand_size: usize,
    /// Requests that wait in one queue.
    pub(super) length_limit: usize,
}

impl PriorityLevel {
    /// Parses a stored object. None if its parts do not fit each other, as an object from an older server may.
    pub(super) fn parse(object: &Value) -> Option<Self> {
        let name = view::name(object);
        let is_exempt = view::text(object, &["spec", "type"]) == "Exempt";
        let part = if is_exempt { "exempt" } else { "limited" };
        let part = view::at(object, &["spec", part]);
        if is_exempt != (name == EXEMPT) || (part.is_none() && !is_exempt) {
            return None;
        }
        let part = part.unwrap_or(&Value::Null);
        let number =
            |field: &str| view::integer(part, &[field]).and_then(|number| u64::try_from(number).ok());
        let shares = Shares {
            nominal: number("nominalConcurrencyShares").unwrap_or(0),
            lendable_percent: number("lendablePercent").unwrap_or(0).min(100),
            borrowing_limit_percent: number("borrowingLimitPercent"),
        };
        let response = if is_exempt { LimitResponse::Exempt } else { limit_response(part)? };
        let uid = view::text(object, &["metadata", "uid"]).into();
        Some(Self { name: name.into(), uid, shares, response })
    }

    pub(super) fn is_exempt(&self) -> bool {
        self.response == LimitResponse::Exempt
    }
}

fn limit_response(limited: &Value) -> Option<LimitResponse> {
    let queuing = view::at(limited, &["limitResponse", "queuing"]);
    match (view::text(limited, &["limitResponse", "type"]), queuing) {
        ("Reject", None) => Some(LimitResponse::Reject),
        ("Queue", Some(queuing)) => {
            let number = |field: &str| {
                view::integer(queuing, &[field]).and_then(|n| u64::try_from(n).ok()).filter(|n| *n > 0)
            };
            let (queues, hand_size) = (number("queues")?, number("handSize")?);
            Some(LimitResponse::Queue(Queuing {
                queues,
                hand_size: usize::try_from(hand_size.min(queues)).ok()?,
                length_limit: usize::try_from(number("queueLengthLimit")?).ok()?,
            }))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn queuing_level_is_parsed() {
        let queuing = json!({"queues": 64, "handSize": 6, "queueLengthLimit": 50});
        let level = PriorityLevel::parse(&json!({
            "metadata": {"name": "l", "uid": "u"},
            "spec": {"type": "Limited", "limited": {
                "nominalConcurrencyShares": 30,
                "lendablePercent": 33,
                "borrowingLimitPercent": 0,
                "limitResponse": {"type": "Queue", "queuing": queuing},
            }},
        }))
        .unwrap();
        assert_eq!((&*level.name, &*level.uid), ("l", "u"));
        assert_eq!(
            level.shares,
            Shares { nominal: 30, lendable_percent: 33, borrowing_limit_percent: Some(0) }
        );
        assert_eq!(
            level.response,
            LimitResponse::Queue(Queuing { queues: 64, hand_size: 6, length_limit: 50 })
        );
    }

    #[test]
    fn level_whose_parts_do_not_fit_is_ignored() {
        let limited = json!({"nominalConcurrencyShares": 1, "limitResponse": {"type": "Reject"}});
        for (name, spec) in [
            ("exempt", json!({"type": "Limited", "limited": limited})),
            ("l", json!({"type": "Exempt", "exempt": {}})),
            ("l", json!({"type": "Limited"})),
            ("l", json!({"type": "Limited", "limited": {"limitResponse": {"type": "Queue"}}})),
            (
                "l",
                json!({"type": "Limited", "limited": {"limitResponse": {"type": "Reject", "queuing": {}}}}),
            ),
        ] {
            assert!(
                PriorityLevel::parse(&json!({"metadata": {"name": name}, "spec": spec})).is_none(),
                "{spec}"
            );
        }
        let exempt =
            PriorityLevel::parse(&json!({"metadata": {"name": "exempt"}, "spec": {"type": "Exempt"}}));
        assert!(exempt.is_some_and(|level| level.is_exempt()));
    }
}
