//! Amounts of resources, such as `500m`, `1.5Gi` or `12e6`.
//!
//! A quantity is an exact decimal number and the family of suffixes in which it was
//! written. It holds 38 significant digits, and nothing finer than a billionth; smaller
//! amounts are rounded up to it when read, as upstream does.
//!
//! Two things differ from upstream, both beyond any real amount: more digits than 38 are
//! refused, and numbers from 10²¹ on keep their value when printed with an SI suffix.

mod format;
mod parse;

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

pub use parse::ParseQuantityError;

/// The family of suffixes in which a quantity is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Format {
    /// Powers of ten as letters: `12M`.
    #[default]
    DecimalSi,
    /// Powers of 1024: `12Mi`.
    BinarySi,
    /// Powers of ten as numbers: `12e6`.
    DecimalExponent,
}

/// A power of ten to which an amount is rounded or in which it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Scale(pub i32);

impl Scale {
    /// A billionth, the finest there is.
    pub const NANO: Self = Self(-9);
    /// A millionth.
    pub const MICRO: Self = Self(-6);
    /// A thousandth.
    pub const MILLI: Self = Self(-3);
    /// One.
    pub const ONE: Self = Self(0);
    /// A thousand.
    pub const KILO: Self = Self(3);
    /// A million.
    pub const MEGA: Self = Self(6);
}

/// An amount of some resource.
///
/// Quantities compare as numbers, whatever their format.
#[derive(Clone, Debug, Default)]
pub struct Quantity {
    /// The number is `mantissa × 10^exponent`; no factor of ten remains in the mantissa,
    /// so that equal numbers have equal parts.
    mantissa: i128,
    exponent: i32,
    format: Format,
    /// What was read, where upstream keeps that instead of the canonical form.
    text: Option<Box<str>>,
}

impl Quantity {
    /// So many units.
    pub fn new(value: i64, format: Format) -> Self {
        Self::from_parts(value.into(), 0, format)
    }

    /// So many thousandths.
    pub fn from_milli(value: i64, format: Format) -> Self {
        Self::from_scaled(value, Scale::MILLI, format)
    }

    /// So many times this power of ten.
    pub fn from_scaled(value: i64, scale: Scale, format: Format) -> Self {
        Self::from_parts(value.into(), scale.0, format)
    }

    /// `mantissa × 10^exponent`.
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

    /// Reads a field of an object, which may also be a plain number.
    ///
    /// # Errors
    /// When it is neither, or malformed.
    pub fn from_json(value: &Value) -> Result<Self, ParseQuantityError> {
        match value {
            Value::String(text) => text.trim().parse(),
            Value::Number(number) => number.to_string().parse(),
            Value::Null => Ok(Self::default()),
            _ => Err(ParseQuantityError::Format),
        }
    }

    /// The family of suffixes in which it is written.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The same number in another family of suffixes.
    #[must_use]
    pub fn with_format(self, format: Format) -> Self {
        Self { format, text: None, ..self }
    }

    /// Whether it is nothing.
    pub fn is_zero(&self) -> bool {
        self.mantissa == 0
    }

    /// -1 below zero, 1 above it.
    pub fn sign(&self) -> i32 {
        if self.mantissa < 0 { -1 } else { i32::from(self.mantissa > 0) }
    }

    /// In whole units, rounded away from zero, and at most what an `i64` holds.
    pub fn value(&self) -> i64 {
        self.scaled_value(Scale::ONE)
    }

    /// In thousandths, rounded away from zero, and at most what an `i64` holds.
    pub fn milli_value(&self) -> i64 {
        self.scaled_value(Scale::MILLI)
    }

    /// Counted in a power of ten, rounded away from zero, and at most what an `i64` holds.
    pub fn scaled_value(&self, scale: Scale) -> i64 {
        let limit = if self.mantissa < 0 { i64::MIN } else { i64::MAX };
        self.checked_scaled_value(scale).unwrap_or(limit)
    }

    /// Counted in a power of ten and rounded away from zero, if an `i64` holds it.
    pub fn checked_scaled_value(&self, scale: Scale) -> Option<i64> {
        let shift = i64::from(self.exponent) - i64::from(scale.0);
        let (scaled, _) = shift_decimal(self.mantissa, shift)?;
        i64::try_from(scaled).ok()
    }

    /// Rounds away from zero to a power of ten; whether nothing was lost.
    pub fn round_up(&mut self, scale: Scale) -> bool {
        if self.exponent >= scale.0 {
            return true;
        }
        let shift = i64::from(self.exponent) - i64::from(scale.0);
        // Shifting to the right cannot overflow.
        let (mantissa, exact) = shift_decimal(self.mantissa, shift).unwrap_or((self.mantissa, true));
        *self = Self::from_parts(mantissa, scale.0, self.format);
        exact
    }

    /// The sum, in this format, or the other one's when this is zero. `None` when it has
    /// more digits than can be held.
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

    /// The difference; see [`Quantity::checked_add`].
    #[must_use]
    pub fn checked_sub(&self, other: &Self) -> Option<Self> {
        self.checked_add(&Self { mantissa: other.mantissa.checked_neg()?, text: None, ..*other })
    }

    /// A multiple. `None` when it has more digits than can be held.
    #[must_use]
    pub fn checked_mul(&self, factor: i64) -> Option<Self> {
        let product = self.mantissa.checked_mul(factor.into())?;
        Some(Self::from_parts(product, self.exponent, self.format))
    }

    /// The mantissa that belongs to a lower exponent.
    fn mantissa_at(&self, exponent: i32) -> Option<i128> {
        if self.is_zero() {
            return Some(0);
        }
        let (mantissa, _) = shift_decimal(self.mantissa, i64::from(self.exponent) - i64::from(exponent))?;
        Some(mantissa)
    }

    /// How large the number is: the power of ten above its first digit.
    fn magnitude(&self) -> i64 {
        i64::from(self.mantissa.unsigned_abs().checked_ilog10().unwrap_or(0)) + i64::from(self.exponent)
    }
}

/// `number × 10^shift`, rounded away from zero, and whether nothing was lost. `None` when
/// it overflows.
fn shift_decimal(number: i128, shift: i64) -> Option<(i128, bool)> {
    let power = u32::try_from(shift.unsigned_abs()).ok().and_then(|digits| 10_i128.checked_pow(digits));
    if shift >= 0 {
        return Some((if number == 0 { 0 } else { number.checked_mul(power?)? }, true));
    }
    // Whatever is divided by more than can be held rounds to one.
    let (quotient, exact) = power.map_or((0, number == 0), |power| (number / power, number % power == 0));
    Some((if exact { quotient } else { quotient + number.signum() }, exact))
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_sign = self.sign().cmp(&other.sign());
        if by_sign.is_ne() || self.is_zero() {
            return by_sign;
        }
        // Numbers of one magnitude differ in length by no more digits than can be held,
        // and the one that does not fit when brought to the same exponent is the larger.
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
