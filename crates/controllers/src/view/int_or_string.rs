//! Numbers or percentages.

use serde::{Deserialize, Serialize};

/// `IntOrString` of the API, where text is a percentage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum IntOrString {
    Int(i32),
    String(Box<str>),
}

/// Rounding of fractions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rounding {
    Up,
    Down,
}

impl IntOrString {
    /// The number, or the percentage of `total`; `None` for other text, which validation rejects.
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
    fn percentages_scale_and_round() {
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
