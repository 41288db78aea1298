//! Which volumes are found for whom.
