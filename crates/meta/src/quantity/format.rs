//! Formatting of quantities in canonical form: no fraction, and the largest suffix that leaves an
//! integer.

use std::fmt;

use super::{Format, Quantity, shift_decimal};

const DECIMAL_SUFFIXES: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
const BINARY_SUFFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// The exponents of the first and the last of [`DECIMAL_SUFFIXES`].
const DECIMAL_RANGE: (i32, i32) = (-9, 18);

/// Maximum number of zeros appended because there is no larger suffix than `E`; beyond that an
/// exponent is written.
const MAX_ZEROS: i32 = 63;

impl Quantity {
    /// Returns the canonical form, even if the original text was preserved.
    pub fn canonical(&self) -> String {
        if self.is_zero() {
            return "0".to_owned();
        }
        match self.format {
            Format::BinarySi => self.binary().unwrap_or_else(|| self.decimal()),
            Format::DecimalSi => self.decimal(),
            Format::DecimalExponent => self.exponential(),
        }
    }

    /// Formats with a binary suffix; `None` for a number that has a fraction or is less than the
    /// smallest of these suffixes.
    fn binary(&self) -> Option<String> {
        if self.exponent < 0 {
            return None;
        }
        let (mut number, _) = shift_decimal(self.mantissa, self.exponent.into())?;
        if number.unsigned_abs() < 1024 {
            return None;
        }
        let mut power = 0;
        while number % 1024 == 0 && power + 1 < BINARY_SUFFIXES.len() {
            number /= 1024;
            power += 1;
        }
        Some(format!("{number}{}", BINARY_SUFFIXES[power]))
    }

    fn decimal(&self) -> String {
        let exponent = self.thousands().min(DECIMAL_RANGE.1);
        if self.exponent - exponent > MAX_ZEROS || exponent < DECIMAL_RANGE.0 {
            return self.exponential();
        }
        let suffix = usize::try_from((exponent - DECIMAL_RANGE.0) / 3).unwrap_or(0);
        format!("{}{}", self.digits_at(exponent), DECIMAL_SUFFIXES[suffix])
    }

    fn exponential(&self) -> String {
        let exponent = self.thousands();
        let digits = self.digits_at(exponent);
        if exponent == 0 { digits } else { format!("{digits}e{exponent}") }
    }

    /// Returns the largest multiple of three that does not exceed the exponent.
    fn thousands(&self) -> i32 {
        self.exponent - self.exponent.rem_euclid(3)
    }

    /// Returns the digits at a lower exponent, which may be too long for a number.
    fn digits_at(&self, exponent: i32) -> String {
        let zeros = usize::try_from(self.exponent - exponent).unwrap_or(0);
        format!("{}{:0<zeros$}", self.mantissa, "")
    }
}

impl fmt::Display for Quantity {
    /// Formats in canonical form, except where apimachinery preserves the original text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.text {
            Some(text) => f.write_str(text),
            None => f.write_str(&self.canonical()),
        }
    }
}
