//! The core group.

pub mod config_map;
