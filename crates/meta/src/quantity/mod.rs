//! Resource quantities, such as `500m`, `1.5Gi` or `12e6`.
//!
//! A quantity is an exact decimal number and the suffix format in which it was written. It has 38
//! significant digits and a resolution of one billionth; smaller amounts are rounded up to it when
//! parsed, as in Kubernetes.
//!
//! Two deviations from Kubernetes, both beyond any real quantity: more than 38 digits are rejected,
//! and numbers from 10²¹ on keep their value when formatted with an SI suffix.

mod format;
mod parse;

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

pub use parse::ParseQuantityError;

/// The suffix format of a quantity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Format {
    /// Decimal SI suffixes: `12M`.
    #[default]
    DecimalSi,
    /// Binary suffixes, powers of 1024: `12Mi`.
    BinarySi,
    /// Decimal exponents: `12e6`.
    DecimalExponent,
}

/// A power of ten, as unit for rounding and conversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Scale(pub i32);

impl Scale {
    /// One billionth, the finest resolution.
    pub const NANO: Self = Self(-9);
    /// One millionth.
    pub const MICRO: Self = Self(-6);
    /// One thousandth.
    pub const MILLI: Self = Self(-3);
    /// One.
    pub const ONE: Self = Self(0);
    /// One thousand.
    pub const KILO: Self = Self(3);
    /// One million.
    pub const MEGA: Self = Self(6);
}

/// A resource quantity.
///
/// Quantities compare by value, regardless of format.
#[derive(Clone, Debug, Default)]
pub struct Quantity {
    /// The number is `mantissa × 10^exponent`. The mantissa is not divisible by ten, so that equal
    /// numbers have equal representations.
    mantissa: i128,
    exponent: i32,
    format: Format,
    /// The original text, where apimachinery preserves it instead of the canonical form.
    text: Option<Box<str>>,
}

impl Quantity {
    /// Creates a quantity of `value` units.
    pub fn new(value: i64, format: Format) -> Self {
        Self::from_parts(value.into(), 0, format)
    }

    /// Creates a quantity of `value` thousandths.
    pub fn from_milli(value: i64, format: Format) -> Self {
        Self::from_scaled(value, Scale::MILLI, format)
    }

    /// Creates a quantity of `value` times a power of ten.
    pub fn from_scaled(value: i64, scale: Scale, format: Format) -> Self {
        Self::from_parts(value.into(), scale.0, format)
    }

    /// Creates `mantissa × 10^exponent`.
    fn from_parts(mut mantissa: i128, mut exponent: i32, format: Format) -> Self {
        if mantissa == 0 {
            return Self { format, ..Self::default() };
        }
        while mantissa % 10 == 0 && exponent < i32::MAX {
            mantissa /= 10;
            exponent += 1;
        }
        Self { mantissa, exponent, format, text: None }
    }

    /// Parses a field of an object, which may be a string or a plain number.
    ///
    /// # Errors
    /// If it is neither, or malformed.
    pub fn from_json(value: &Value) -> Result<Self, ParseQuantityError> {
        match value {
            Value::String(text) => text.trim().parse(),
            Value::Number(number) => number.to_string().parse(),
            Value::Null => Ok(Self::default()),
            _ => Err(ParseQuantityError::Format),
        }
    }

    /// Returns the suffix format.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Returns the same number in another suffix format.
    #[must_use]
    pub fn with_format(self, format: Format) -> Self {
        Self { format, text: None, ..self }
    }

    /// Returns true if the quantity is zero.
    pub fn is_zero(&self) -> bool {
        self.mantissa == 0
    }

    /// Returns -1 for negative quantities, 1 for positive ones, 0 for zero.
    pub fn sign(&self) -> i32 {
        if self.mantissa < 0 { -1 } else { i32::from(self.mantissa > 0) }
    }

    /// Returns the value in units, rounded away from zero and saturated to `i64`.
    pub fn value(&self) -> i64 {
        self.scaled_value(Scale::ONE)
    }

    /// Returns the value in thousandths, rounded away from zero and saturated to `i64`.
    pub fn milli_value(&self) -> i64 {
        self.scaled_value(Scale::MILLI)
    }

    /// Returns the value in a power of ten, rounded away from zero and saturated to `i64`.
    pub fn scaled_value(&self, scale: Scale) -> i64 {
        let limit = if self.mantissa < 0 { i64::MIN } else { i64::MAX };
        self.checked_scaled_value(scale).unwrap_or(limit)
    }

    /// Returns the value in a power of ten, rounded away from zero; `None` if it overflows `i64`.
    pub fn checked_scaled_value(&self, scale: Scale) -> Option<i64> {
        let shift = i64::from(self.exponent) - i64::from(scale.0);
        let (scaled, _) = shift_decimal(self.mantissa, shift)?;
        i64::try_from(scaled).ok()
    }

    /// Rounds away from zero to a power of ten. Returns true if the value was exact.
    pub fn round_up(&mut self, scale: Scale) -> bool {
        if self.exponent >= scale.0 {
            return true;
        }
        let shift = i64::from(self.exponent) - i64::from(scale.0);
        // A right shift cannot overflow.
        let (mantissa, exact) = shift_decimal(self.mantissa, shift).unwrap_or((self.mantissa, true));
        *self = Self::from_parts(mantissa, scale.0, self.format);
        exact
    }

    /// Returns the sum in this quantity's format, or in the other's if this is zero. `None` if it
    /// has too many digits.
    #[must_use]
    pub fn checked_add(&self, other: &Self) -> Option<Self> {
        let format = if self.is_zero() { other.format } else { self.format };
        let exponent = match (self.is_zero(), other.is_zero()) {
            (_, true) => self.exponent,
            (true, false) => other.exponent,
            (false, false) => self.exponent.min(other.exponent),
        };
        let sum = self.mantissa_at(exponent)?.checked_add(other.mantissa_at(exponent)?)?;
        Some(Self::from_parts(sum, exponent, format))
    }

    /// Returns the difference; see [`Quantity::checked_add`].
    #[must_use]
    pub fn checked_sub(&self, other: &Self) -> Option<Self> {
        self.checked_add(&Self { mantissa: other.mantissa.checked_neg()?, text: None, ..*other })
    }

    /// Returns the product; `None` if it has too many digits.
    #[must_use]
    pub fn checked_mul(&self, factor: i64) -> Option<Self> {
        let product = self.mantissa.checked_mul(factor.into())?;
        Some(Self::from_parts(product, self.exponent, self.format))
    }

    /// Returns the mantissa at a lower exponent.
    fn mantissa_at(&self, exponent: i32) -> Option<i128> {
        if self.is_zero() {
            return Some(0);
        }
        let (mantissa, _) = shift_decimal(self.mantissa, i64::from(self.exponent) - i64::from(exponent))?;
        Some(mantissa)
    }

    /// Returns the order of magnitude: the power of ten above the first digit.
    fn magnitude(&self) -> i64 {
        i64::from(self.mantissa.unsigned_abs().checked_ilog10().unwrap_or(0)) + i64::from(self.exponent)
    }
}

/// Returns `number × 10^shift`, rounded away from zero, and true if the result is exact. `None` on
/// overflow.
fn shift_decimal(number: i128, shift: i64) -> Option<(i128, bool)> {
    let power = u32::try_from(shift.unsigned_abs()).ok().and_then(|digits| 10_i128.checked_pow(digits));
    if shift >= 0 {
        return Some((if number == 0 { 0 } else { number.checked_mul(power?)? }, true));
    }
    // Division by a power that overflows rounds to one.
    let (quotient, exact) = power.map_or((0, number == 0), |power| (number / power, number % power == 0));
    Some((if exact { quotient } else { quotient + number.signum() }, exact))
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_sign = self.sign().cmp(&other.sign());
        if by_sign.is_ne() || self.is_zero() {
            return by_sign;
        }
        // Numbers of the same magnitude differ in length by no more than 38 digits, and the one
        // that overflows at the common exponent is the larger.
        let by_size = self.magnitude().cmp(&other.magnitude()).then_with(|| {
            let exponent = self.exponent.min(other.exponent);
            match (self.mantissa_at(exponent), other.mantissa_at(exponent)) {
                (Some(a), Some(b)) => a.unsigned_abs().cmp(&b.unsigned_abs()),
                (None, _) => Ordering::Greater,
                (_, None) => Ordering::Less,
            }
        });
        if self.mantissa < 0 { by_size.reverse() } else { by_size }
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        (self.mantissa, self.exponent) == (other.mantissa, other.exponent)
    }
}

impl Eq for Quantity {}

impl Hash for Quantity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.mantissa, self.exponent).hash(state);
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Self::from_json(&value).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests;
