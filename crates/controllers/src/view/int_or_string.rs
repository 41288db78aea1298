//! Amounts that are a number or a part of some whole.

use serde::{Deserialize, Serialize};

/// `IntOrString` of the API, where text means a percentage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum IntOrString {
    Int(i32),
    String(Box<str>),
}

/// What a part that is no whole number becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rounding {
    Up,
    Down,
}

impl IntOrString {
    /// The number, or so many percent of `total`; none if it is neither, which validation has refused.
    pub(crate) fn scaled(&self, total: i32, rounding: Rounding) -> Option<i32> {
        match self {
            Self::Int(value) => Some(*value),
            Self::String(text) => {
                let percent: i64 = text.strip_suffix('%')?.parse().ok()?;
                let hundredfold = percent.checked_mul(i64::from(total))?;
                let rounded = match rounding {
                    Rounding::Up => hundredfold.checked_add(99)?.div_euclid(100),
                    Rounding::Down => hundredfold.div_euclid(100),
                };
                i32::try_from(rounded).ok()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn percentages_are_of_a_whole() {
        let scaled = |value: serde_json::Value, total, rounding| {
            serde_json::from_value::<IntOrString>(value).unwrap().scaled(total, rounding)
        };
        assert_eq!(scaled(json!(3), 10, Rounding::Up), Some(3));
        assert_eq!(scaled(json!("25%"), 10, Rounding::Up), Some(3));
        assert_eq!(scaled(json!("25%"), 10, Rounding::Down), Some(2));
        assert_eq!(scaled(json!("100%"), 7, Rounding::Down), Some(7));
        assert_eq!(scaled(json!("0%"), 7, Rounding::Up), Some(0));
        assert_eq!(scaled(json!("a quarter"), 7, Rounding::Up), None);
    }
}
