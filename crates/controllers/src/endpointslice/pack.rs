//! Packs endpoints into slices: with as few writes as possible, and then as few slices as possible.

use std::sync::Arc;

use coracle_runtime::informer::Labels;

use super::backends::{EndpointKey, EndpointSet, Group};
use super::slices::Draft;
use crate::view::{AddressType, Endpoint, EndpointSlice};

/// Maximum number of endpoints per slice (`--max-endpoints-per-slice` in Kubernetes).
pub(super) const MAX_ENDPOINTS: usize = 100;

/// The slices of one group after packing.
#[derive(Debug, Default)]
pub(super) struct Packed {
    /// Unchanged slices.
    pub(super) kept: Vec<Draft>,
    /// Existing slices that change.
    pub(super) changed: Vec<Draft>,
    pub(super) created: Vec<Draft>,
    /// Slices without endpoints.
    pub(super) emptied: Vec<Arc<EndpointSlice>>,
}

/// Fields that all slices of a service share.
#[derive(Clone, Copy)]
pub(super) struct Form<'a> {
    pub(super) labels: &'a Labels,
    pub(super) address_type: AddressType,
}

impl Form<'_> {
    pub(super) fn draft(&self, existing: Option<Arc<EndpointSlice>>) -> Draft {
        let annotations = existing.as_ref().map(|slice| slice.metadata.annotations.clone());
        Draft {
            existing,
            labels: self.labels.clone(),
            annotations: annotations.unwrap_or_default(),
            address_type: self.address_type,
            ..Draft::default()
        }
    }
}

/// Packs the endpoints of a group into existing and new slices.
pub(super) fn pack(form: Form<'_>, existing: Vec<Arc<EndpointSlice>>, group: Group) -> Packed {
    let (mut packed, mut wanted) = (Packed::default(), group.endpoints);
    for slice in existing {
        revise(form, slice, &mut wanted, &mut packed);
    }
    // Slices that are written anyway are filled first, fuller ones before others.
    packed.changed.sort_by_key(|draft| std::cmp::Reverse(draft.endpoints.len()));
    for draft in &mut packed.changed {
        fill(draft, &mut wanted);
    }
    while !wanted.is_empty() {
        match closest_fit(&packed.kept, wanted.len()) {
            Some(index) => {
                let mut draft = packed.kept.remove(index);
                fill(&mut draft, &mut wanted);
                packed.changed.push(draft);
            }
            None => {
                let mut draft = form.draft(None);
                draft.ports.clone_from(&group.ports);
                fill(&mut draft, &mut wanted);
                packed.created.push(draft);
            }
        }
    }
    packed
}

/// Removes unwanted endpoints from a slice, and those that it keeps from `wanted`.
fn revise(form: Form<'_>, slice: Arc<EndpointSlice>, wanted: &mut EndpointSet, packed: &mut Packed) {
    let mut differs = *form.labels != slice.metadata.labels;
    let mut endpoints = Vec::with_capacity(slice.endpoints.len());
    for endpoint in &slice.endpoints {
        match wanted.remove(&EndpointKey::of(endpoint)) {
            Some(same) if equal_except_hints(&same, endpoint) => endpoints.push(endpoint.clone()),
            Some(same) => {
                differs = true;
                endpoints.push(same);
            }
            None => {}
        }
    }
    let removed = endpoints.len() != slice.endpoints.len();
    if removed && endpoints.is_empty() {
        return packed.emptied.push(slice);
    }
    let ports = slice.ports.to_vec();
    let draft = Draft { endpoints, ports, ..form.draft(Some(slice)) };
    if removed || differs { packed.changed.push(draft) } else { packed.kept.push(draft) }
}

/// True if two endpoints with the same key are equal except for hints.
pub(crate) fn equal_except_hints(one: &Endpoint, other: &Endpoint) -> bool {
    one.conditions == other.conditions
        && one.node_name == other.node_name
        && one.zone == other.zone
        && one.target_ref == other.target_ref
}

fn fill(draft: &mut Draft, wanted: &mut EndpointSet) {
    while draft.endpoints.len() < MAX_ENDPOINTS
        && let Some((_, endpoint)) = wanted.pop_first()
    {
        draft.endpoints.push(endpoint);
    }
}

/// The slice that is fullest after adding `count` endpoints.
fn closest_fit(kept: &[Draft], count: usize) -> Option<usize> {
    if count >= MAX_ENDPOINTS {
        return None;
    }
    let room = |draft: &Draft| MAX_ENDPOINTS.checked_sub(draft.endpoints.len() + count);
    let fitting = kept.iter().enumerate().filter_map(|(index, draft)| Some((room(draft)?, index)));
    fitting.min().map(|(_, index)| index)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn endpoint(index: usize, ready: bool) -> Endpoint {
        serde_json::from_value(json!({
            "addresses": [format!("10.0.{}.{}", index / 256, index % 256)], "conditions": {"ready": ready},
            "targetRef": {"kind": "Pod", "namespace": "n", "name": format!("p{index}")},
        }))
        .unwrap()
    }

    fn group(indexes: impl IntoIterator<Item = usize>) -> Group {
        let endpoints = indexes.into_iter().map(|index| endpoint(index, true));
        let endpoints = endpoints.map(|endpoint| (EndpointKey::of(&endpoint), endpoint)).collect();
        Group { endpoints, ..Group::default() }
    }

    fn slice(name: &str, endpoints: impl IntoIterator<Item = usize>) -> Arc<EndpointSlice> {
        let mut slice = EndpointSlice::default();
        slice.metadata.plain.name = name.into();
        slice.endpoints = endpoints.into_iter().map(|index| endpoint(index, true)).collect();
        Arc::new(slice)
    }

    fn packed(existing: Vec<Arc<EndpointSlice>>, group: Group) -> Packed {
        pack(Form { labels: &Labels::default(), address_type: AddressType::IPv4 }, existing, group)
    }

    fn sizes(drafts: &[Draft]) -> Vec<usize> {
        drafts.iter().map(|draft| draft.endpoints.len()).collect()
    }

    /// Numbers of endpoints of kept, changed and created slices, and the number of deleted ones.
    fn shape(packed: &Packed) -> (Vec<usize>, Vec<usize>, Vec<usize>, usize) {
        (sizes(&packed.kept), sizes(&packed.changed), sizes(&packed.created), packed.emptied.len())
    }

    #[test]
    fn new_slices_are_full_except_the_last() {
        assert_eq!(shape(&packed(vec![], group(0..250))), (vec![], vec![], vec![100, 100, 50], 0));
    }

    #[test]
    fn unchanged_endpoints_are_not_written() {
        let existing = vec![slice("a", 0..60), slice("b", 60..90)];
        assert_eq!(shape(&packed(existing, group(0..90))), (vec![60, 30], vec![], vec![], 0));
    }

    #[test]
    fn new_endpoints_go_into_changed_slices_first() {
        let existing = vec![slice("a", 0..60), slice("b", 60..100)];
        // One endpoint leaves the first slice; eleven are added.
        assert_eq!(shape(&packed(existing, group(1..111))), (vec![40], vec![70], vec![], 0));
    }

    #[test]
    fn new_endpoints_go_into_the_best_fitting_slice() {
        let existing = vec![slice("a", 0..60), slice("b", 60..150), slice("c", 150..235)];
        let packed = packed(existing, group(0..247));
        assert_eq!(shape(&packed), (vec![60, 90], vec![97], vec![], 0));
        assert_eq!(packed.changed[0].existing.as_ref().unwrap().metadata.name(), "c");
    }

    #[test]
    fn endpoints_without_room_create_a_slice() {
        let existing = vec![slice("a", 0..60), slice("b", 60..120)];
        assert_eq!(shape(&packed(existing, group(0..170))), (vec![60, 60], vec![], vec![50], 0));
    }

    #[test]
    fn empty_slice_is_deleted() {
        let existing = vec![slice("a", 0..60), slice("b", 60..120)];
        assert_eq!(shape(&packed(existing, group(60..120))), (vec![60], vec![], vec![], 1));
    }

    #[test]
    fn changed_endpoint_is_replaced_in_place() {
        let mut group = group(0..3);
        let other = endpoint(1, false);
        group.endpoints.insert(EndpointKey::of(&other), other);
        let packed = packed(vec![slice("a", 0..3)], group);
        assert_eq!(shape(&packed), (vec![], vec![3], vec![], 0));
        assert_eq!(packed.changed[0].endpoints[1].conditions.ready, Some(false));
    }

    #[test]
    fn service_labels_are_copied_to_slices() {
        let labels = Labels::from_iter([("a", "b")]);
        let form = Form { labels: &labels, address_type: AddressType::IPv4 };
        let packed = pack(form, vec![slice("a", 0..3)], group(0..3));
        assert_eq!(shape(&packed), (vec![], vec![3], vec![], 0));
        assert_eq!(packed.changed[0].labels, labels);
    }

    #[test]
    fn hints_do_not_count_as_difference() {
        let mut hinted = EndpointSlice::default();
        let hints = json!({"forZones": [{"name": "a"}]});
        let with = Endpoint { hints: serde_json::from_value(hints).unwrap(), ..endpoint(0, true) };
        hinted.endpoints = Box::new([with.clone()]);
        let packed = packed(vec![Arc::new(hinted)], group(0..1));
        assert_eq!(packed.kept[0].endpoints, [with]);
    }
}
