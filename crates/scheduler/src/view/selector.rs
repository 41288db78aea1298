//! Parsing of label selectors.

use coracle_meta::selector::LabelSelector;
use coracle_meta::selector::labels::Selector;

/// Parses a label selector. An invalid one selects nothing, because selecting everything would not be
/// intended.
pub(crate) fn parsed(selector: &LabelSelector) -> Selector {
    selector.to_selector().unwrap_or_else(|_| Selector::nothing())
}

/// Like [`parsed`]; a missing selector selects nothing.
pub(crate) fn parsed_or_nothing(selector: Option<&LabelSelector>) -> Selector {
    selector.map_or_else(Selector::nothing, parsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_selector_selects_nothing() {
        let selector = serde_json::from_str::<LabelSelector>(
            r#"{"matchExpressions": [{"key": "a", "operator": "Like", "values": ["b"]}]}"#,
        );
        assert!(parsed(&selector.unwrap()).is_nothing());
        assert!(parsed_or_nothing(None).is_nothing());
        assert!(parsed(&LabelSelector::default()).is_everything());
    }
}
