//! A limit on how much a small body can become.

use super::DecodeError;

/// What reading one body may spend. Items of two or three bytes, repeated, would otherwise make
/// some gigabytes of trees out of the three mebibytes that a body may have. No object that
/// passes validation comes near.
const UNITS: usize = 1_000_000;
/// What an object of a type costs; its empty fields may be written too.
const STRUCT_UNITS: usize = 10;

/// What is left to spend.
pub(super) struct Budget(usize);

impl Default for Budget {
    fn default() -> Self {
        Self(UNITS)
    }
}

impl Budget {
    /// Pays for a value.
    pub(super) fn value(&mut self) -> Result<(), DecodeError> {
        self.spend(1)
    }

    /// Pays for an object of a type.
    pub(super) fn structure(&mut self) -> Result<(), DecodeError> {
        self.spend(STRUCT_UNITS)
    }

    fn spend(&mut self, units: usize) -> Result<(), DecodeError> {
        self.0 = self.0.checked_sub(units).ok_or(DecodeError::TooMuch)?;
        Ok(())
    }
}
