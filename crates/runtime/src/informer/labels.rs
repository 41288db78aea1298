//! Labels and annotations in a compact representation.

use std::fmt;

use coracle_meta::selector::labels;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Pairs ordered by key. A map would take ten times the memory for the two or three labels that most objects have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Labels(Box<[(Box<str>, Box<str>)]>);

impl Labels {
    /// Returns the value of a label.
    pub fn get(&self, key: &str) -> Option<&str> {
        let found = self.0.binary_search_by(|(known, _)| (**known).cmp(key)).ok()?;
        Some(&self.0[found].1)
    }

    /// True if there is a label with this key.
    pub fn contains_key(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// Iterates over all pairs in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (&**key, &**value))
    }

    /// Number of pairs.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if there are no pairs.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl labels::Labels for Labels {
    fn get(&self, key: &str) -> Option<&str> {
        self.get(key)
    }
}

impl<K: Into<Box<str>>, W: Into<Box<str>>> FromIterator<(K, W)> for Labels {
    fn from_iter<I: IntoIterator<Item = (K, W)>>(pairs: I) -> Self {
        let mut pairs: Vec<(Box<str>, Box<str>)> =
            pairs.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        pairs.sort_by(|(one, _), (other, _)| one.cmp(other));
        // The last of several equal keys wins, as in a map.
        pairs.reverse();
        pairs.dedup_by(|(one, _), (other, _)| one == other);
        pairs.reverse();
        Self(pairs.into())
    }
}

impl Serialize for Labels {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;

        impl<'de> Visitor<'de> for Pairs {
            type Value = Labels;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of text")
            }

            fn visit_unit<E>(self) -> Result<Labels, E> {
                Ok(Labels::default())
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Labels, M::Error> {
                let mut pairs: Vec<(Box<str>, Box<str>)> = Vec::with_capacity(map.size_hint().unwrap_or(0));
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(pairs.into_iter().collect())
            }
        }

        // `deserialize_any`, because `null` is accepted as an empty map.
        deserializer.deserialize_any(Pairs)
    }
}

#[cfg(test)]
mod tests {
    use coracle_meta::selector::labels::Selector;
    use serde_json::json;

    use super::*;

    #[test]
    fn labels_are_sorted_and_match_selectors() {
        let labels: Labels = serde_json::from_value(json!({"b": "2", "a": "1", "c": ""})).unwrap();
        assert_eq!((labels.get("a"), labels.get("c"), labels.get("d")), (Some("1"), Some(""), None));
        assert_eq!(serde_json::to_string(&labels).unwrap(), r#"{"a":"1","b":"2","c":""}"#);
        let selector: Selector = "a=1,b in (2,3),!d".parse().unwrap();
        assert!(selector.matches(&labels) && !selector.matches(&Labels::default()));
        assert!(serde_json::from_value::<Labels>(json!(null)).unwrap().is_empty());
        assert_eq!(Labels::from_iter([("a", "1"), ("a", "2")]).get("a"), Some("2"));
    }
}
