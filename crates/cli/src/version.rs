//! The version of this program.

/// The version, with the commit if the build script found one: `0.1.0 (8170c08f1c2d)`.
pub(crate) const TEXT: &str = env!("CORACLE_VERSION");
