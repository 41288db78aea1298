//! Limits on the number of pods during a rollout.

use crate::view::{Deployment, IntOrString, Rounding, StrategyType};

/// Surge and maximum unavailable pods, resolved from numbers or percentages.
fn fenceposts(deployment: &Deployment) -> (i32, i32) {
    let rolling = &deployment.spec.strategy.rolling_update;
    let scaled = |amount: Option<&IntOrString>, rounding| {
        amount.and_then(|amount| amount.scaled(deployment.replicas(), rounding)).unwrap_or_default()
    };
    let surge = scaled(rolling.max_surge.as_ref(), Rounding::Up);
    let unavailable = scaled(rolling.max_unavailable.as_ref(), Rounding::Down);
    // Both may round to zero, in which case no pod could ever be replaced.
    if surge == 0 && unavailable == 0 { (0, 1) } else { (surge, unavailable) }
}

pub(super) fn is_rolling(deployment: &Deployment) -> bool {
    deployment.spec.strategy.r#type == StrategyType::RollingUpdate
}

/// Number of pods allowed beyond the desired ones.
pub(super) fn max_surge(deployment: &Deployment) -> i32 {
    if is_rolling(deployment) { fenceposts(deployment).0 } else { 0 }
}

/// Number of desired pods that may be unavailable.
pub(super) fn max_unavailable(deployment: &Deployment) -> i32 {
    if is_rolling(deployment) { fenceposts(deployment).1.min(deployment.replicas()) } else { 0 }
}

/// Maximum number of pods.
pub(super) fn max_replicas(deployment: &Deployment) -> i32 {
    deployment.replicas().saturating_add(max_surge(deployment))
}

/// Minimum number of available pods.
pub(super) fn min_available(deployment: &Deployment) -> i32 {
    deployment.replicas() - max_unavailable(deployment)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn surge_and_unavailable_are_never_both_zero() {
        let of = |replicas: i32, surge: Value, unavailable: Value| {
            let rolling = json!({"maxSurge": surge, "maxUnavailable": unavailable});
            let spec = json!({"replicas": replicas, "strategy": {"rollingUpdate": rolling}});
            let deployment: Deployment = serde_json::from_value(json!({"spec": spec})).unwrap();
            (max_surge(&deployment), max_unavailable(&deployment))
        };
        assert_eq!(of(10, json!("25%"), json!("25%")), (3, 2));
        assert_eq!(of(1, json!("25%"), json!("25%")), (1, 0));
        assert_eq!(of(2, json!("0%"), json!("1%")), (0, 1));
        assert_eq!(of(2, json!(0), json!(5)), (0, 2));
        assert_eq!(of(0, json!(1), json!(1)), (1, 0));
        let recreate = json!({"spec": {"replicas": 3, "strategy": {"type": "Recreate"}}});
        let recreate: Deployment = serde_json::from_value(recreate).unwrap();
        assert_eq!((max_surge(&recreate), max_unavailable(&recreate)), (0, 0));
        assert_eq!((max_replicas(&recreate), min_available(&recreate)), (3, 3));
    }
}
