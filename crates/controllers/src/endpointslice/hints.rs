//! Topology hints for services with a traffic distribution.

use super::pack::Packed;
use super::slices::Draft;
use crate::view::{Endpoint, EndpointHints, Named, Service};

/// Traffic distribution of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Preference {
    /// No preference.
    Anywhere,
    SameZone,
    SameNode,
}

impl Preference {
    pub(super) fn of(service: &Service) -> Self {
        match service.spec.traffic_distribution.as_deref() {
            Some("PreferClose" | "PreferSameZone") => Self::SameZone,
            Some("PreferSameNode") => Self::SameNode,
            _ => Self::Anywhere,
        }
    }

    /// Hints of an endpoint. Unready endpoints have none.
    fn hints(self, endpoint: &Endpoint) -> Option<EndpointHints> {
        if self == Self::Anywhere || endpoint.conditions.ready != Some(true) {
            return None;
        }
        let named =
            |name: Option<&Box<str>>| name.map(|name| Named { name: name.clone() }).into_iter().collect();
        let for_nodes = endpoint.node_name.as_ref().filter(|_| self == Self::SameNode);
        let hints = EndpointHints { for_zones: named(endpoint.zone.as_ref()), for_nodes: named(for_nodes) };
        (hints != EndpointHints::default()).then_some(hints)
    }
}

/// Sets the hints of all endpoints. Slices with wrong hints move from kept to changed.
pub(super) fn hint(preference: Preference, packed: &mut Packed) {
    let (kept, wrong) =
        std::mem::take(&mut packed.kept).into_iter().partition(|draft| is_right(preference, draft));
    packed.kept = kept;
    packed.changed.extend::<Vec<Draft>>(wrong);
    for draft in packed.changed.iter_mut().chain(&mut packed.created) {
        for endpoint in &mut draft.endpoints {
            endpoint.hints = preference.hints(endpoint).map(Box::new);
        }
    }
}

/// True if no hints have to be written. Hints of unready endpoints do not matter.
fn is_right(preference: Preference, draft: &Draft) -> bool {
    draft.endpoints.iter().all(|endpoint| {
        let matters = preference == Preference::Anywhere || endpoint.conditions.ready == Some(true);
        !matters || endpoint.hints.as_deref() == preference.hints(endpoint).as_ref()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn endpoint(ready: bool, hints: &Value) -> Value {
        let mut endpoint =
            json!({"addresses": ["10.0.0.1"], "conditions": {"ready": ready}, "nodeName": "n1", "zone": "a"});
        if !hints.is_null() {
            endpoint["hints"] = hints.clone();
        }
        endpoint
    }

    /// The hints of a slice with one endpoint; `None` if it is not written.
    fn hinted(preference: Preference, ready: bool, hints: &Value) -> Option<Value> {
        let endpoints = vec![serde_json::from_value(endpoint(ready, hints)).unwrap()];
        let mut packed = Packed { kept: vec![Draft { endpoints, ..Draft::default() }], ..Packed::default() };
        hint(preference, &mut packed);
        let changed = packed.changed.first()?;
        let endpoint = serde_json::to_value(&changed.endpoints[0]).unwrap();
        Some(endpoint.get("hints").cloned().unwrap_or_default())
    }

    #[test]
    fn hints_contain_zone_and_node() {
        let (zone, both) = (
            json!({"forZones": [{"name": "a"}]}),
            json!({"forZones": [{"name": "a"}], "forNodes": [{"name": "n1"}]}),
        );
        let cases = [
            (Preference::Anywhere, true, json!(null), None),
            (Preference::Anywhere, true, zone.clone(), Some(json!(null))),
            (Preference::SameZone, true, json!(null), Some(zone.clone())),
            (Preference::SameZone, true, zone.clone(), None),
            (Preference::SameZone, true, both.clone(), Some(zone.clone())),
            (Preference::SameZone, false, json!(null), None),
            (Preference::SameNode, true, zone, Some(both.clone())),
            (Preference::SameNode, true, both, None),
        ];
        for (preference, ready, hints, expected) in cases {
            assert_eq!(hinted(preference, ready, &hints), expected, "{preference:?} {ready} {hints}");
        }
    }

    #[test]
    fn traffic_distribution_sets_the_preference() {
        let of = |text: Value| {
            let service = json!({"spec": {"trafficDistribution": text}});
            Preference::of(&serde_json::from_value(service).unwrap())
        };
        assert_eq!(of(json!(null)), Preference::Anywhere);
        assert_eq!(of(json!("PreferClose")), Preference::SameZone);
        assert_eq!(of(json!("PreferSameZone")), Preference::SameZone);
        assert_eq!(of(json!("PreferSameNode")), Preference::SameNode);
    }
}
