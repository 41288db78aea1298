//! The built-in kinds, one file each, in a directory for each group.

pub mod core;
