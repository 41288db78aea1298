//! How endpoints are spread over slices: with as few writes as possible, and then as few slices.

use std::sync::Arc;

use coracle_runtime::informer::Labels;

use super::backends::{EndpointKey, EndpointSet, Group};
use super::slices::Draft;
use crate::view::{AddressType, Endpoint, EndpointSlice};

/// The most endpoints of one slice (`--max-endpoints-per-slice` of upstream).
pub(super) const MAX_ENDPOINTS: usize = 100;

/// What becomes of the slices of one group.
#[derive(Debug, Default)]
pub(super) struct Packed {
    /// Those that stay as they are.
    pub(super) kept: Vec<Draft>,
    /// Those that are there and change.
    pub(super) changed: Vec<Draft>,
    pub(super) created: Vec<Draft>,
    /// Those that hold nothing any more.
    pub(super) emptied: Vec<Arc<EndpointSlice>>,
}

/// What all slices of a service have in common.
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

/// Spreads the endpoints of a group over the slices that are there, and over new ones.
pub(super) fn pack(form: Form<'_>, existing: Vec<Arc<EndpointSlice>>, group: Group) -> Packed {
    let (mut packed, mut wanted) = (Packed::default(), group.endpoints);
    for slice in existing {
        revise(form, slice, &mut wanted, &mut packed);
    }
    // What is written anyway is filled first, the fullest before others.
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

/// Takes out of a slice what is not wanted, and out of what is wanted what the slice has.
fn revise(form: Form<'_>, slice: Arc<EndpointSlice>, wanted: &mut EndpointSet, packed: &mut Packed) {
    let mut differs = *form.labels != slice.metadata.labels;
    let mut endpoints = Vec::with_capacity(slice.endpoints.len());
    for endpoint in &slice.endpoints {
        match wanted.remove(&EndpointKey::of(endpoint)) {
            Some(same) if says_the_same(&same, endpoint) => endpoints.push(endpoint.clone()),
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

/// Whether two endpoints of the same key are the same, but for hints.
pub(crate) fn says_the_same(one: &Endpoint, other: &Endpoint) -> bool {
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

/// Which of the slices has room for `count` more, and is the fullest then.
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

    /// Kept, changed and created slices by how many endpoints they have, and how many are deleted.
    fn shape(packed: &Packed) -> (Vec<usize>, Vec<usize>, Vec<usize>, usize) {
        (sizes(&packed.kept), sizes(&packed.changed), sizes(&packed.created), packed.emptied.len())
    }

    #[test]
    fn new_slices_are_full_but_for_the_last() {
        assert_eq!(shape(&packed(vec![], group(0..250))), (vec![], vec![], vec![100, 100, 50], 0));
    }

    #[test]
    fn nothing_is_written_if_nothing_changed() {
        let existing = vec![slice("a", 0..60), slice("b", 60..90)];
        assert_eq!(shape(&packed(existing, group(0..90))), (vec![60, 30], vec![], vec![], 0));
    }

    #[test]
    fn what_comes_goes_into_a_slice_that_changes_anyway() {
        let existing = vec![slice("a", 0..60), slice("b", 60..100)];
        // One goes from the first; eleven come.
        assert_eq!(shape(&packed(existing, group(1..111))), (vec![40], vec![70], vec![], 0));
    }

    #[test]
    fn what_comes_alone_goes_where_it_fits_best() {
        let existing = vec![slice("a", 0..60), slice("b", 60..150), slice("c", 150..235)];
        let packed = packed(existing, group(0..247));
        assert_eq!(shape(&packed), (vec![60, 90], vec![97], vec![], 0));
        assert_eq!(packed.changed[0].existing.as_ref().unwrap().metadata.name(), "c");
    }

    #[test]
    fn more_than_any_slice_has_room_for_make_a_new_one() {
        let existing = vec![slice("a", 0..60), slice("b", 60..120)];
        assert_eq!(shape(&packed(existing, group(0..170))), (vec![60, 60], vec![], vec![50], 0));
    }

    #[test]
    fn what_is_empty_goes() {
        let existing = vec![slice("a", 0..60), slice("b", 60..120)];
        assert_eq!(shape(&packed(existing, group(60..120))), (vec![60], vec![], vec![], 1));
    }

    #[test]
    fn an_endpoint_that_says_something_else_is_replaced_where_it_is() {
        let mut group = group(0..3);
        let other = endpoint(1, false);
        group.endpoints.insert(EndpointKey::of(&other), other);
        let packed = packed(vec![slice("a", 0..3)], group);
        assert_eq!(shape(&packed), (vec![], vec![3], vec![], 0));
        assert_eq!(packed.changed[0].endpoints[1].conditions.ready, Some(false));
    }

    #[test]
    fn labels_of_the_service_are_labels_of_its_slices() {
        let labels = Labels::from_iter([("a", "b")]);
        let form = Form { labels: &labels, address_type: AddressType::IPv4 };
        let packed = pack(form, vec![slice("a", 0..3)], group(0..3));
        assert_eq!(shape(&packed), (vec![], vec![3], vec![], 0));
        assert_eq!(packed.changed[0].labels, labels);
    }

    #[test]
    fn hints_are_no_difference() {
        let mut hinted = EndpointSlice::default();
        let hints = json!({"forZones": [{"name": "a"}]});
        let with = Endpoint { hints: serde_json::from_value(hints).unwrap(), ..endpoint(0, true) };
        hinted.endpoints = Box::new([with.clone()]);
        let packed = packed(vec![Arc::new(hinted)], group(0..1));
        assert_eq!(packed.kept[0].endpoints, [with]);
    }
}
