//! A line of a watch, without fields that no rule reads.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value};

/// Half of most objects is in this field, and no rule reads it.
const LEFT_OUT: &str = "managedFields";

#[derive(Deserialize)]
pub(crate) struct Line {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    #[serde(deserialize_with = "lean")]
    pub(crate) object: Value,
}

pub(crate) fn read(line: &[u8]) -> serde_json::Result<Line> {
    serde_json::from_slice(line)
}

fn lean<'de, D: Deserializer<'de>>(from: D) -> Result<Value, D::Error> {
    Lean { within_metadata: false }.deserialize(from)
}

/// Deserializes an object without that field of its metadata.
#[derive(Clone, Copy)]
struct Lean {
    within_metadata: bool,
}

impl<'de> DeserializeSeed<'de> for Lean {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Lean {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = map.next_key::<String>()? {
            match (self.within_metadata, name.as_str()) {
                (false, "metadata") => {
                    let metadata = map.next_value_seed(Self { within_metadata: true })?;
                    object.insert(name, metadata);
                }
                (true, LEFT_OUT) => drop(map.next_value::<IgnoredAny>()?),
                _ => drop(object.insert(name, map.next_value()?)),
            }
        }
        Ok(Value::Object(object))
    }
}
