//! All built-in kinds in one slice.

use crate::kind::Kind;
use crate::kinds::core::config_map::ConfigMap;

/// All built-in kinds: a new one is one file and one line here.
pub static BUILT_IN: &[&dyn Kind] = &[&ConfigMap];

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::samples::{errors_on_create, errors_on_update};

    #[test]
    fn names_are_unique() {
        let mut seen = HashSet::new();
        for kind in BUILT_IN {
            let declaration = kind.declaration();
            for version in declaration.versions.iter() {
                assert!(
                    seen.insert(format!("{}/{version}", declaration.group_resource())),
                    "{declaration:?}"
                );
            }
        }
    }

    #[test]
    fn valid_samples_are_accepted_and_defaults_settle() {
        for kind in BUILT_IN {
            let samples = kind.samples();
            let name = kind.declaration().group_resource();
            assert!(!samples.valid.is_empty(), "{name} has no sample");
            for sample in &samples.valid {
                let errors = errors_on_create(*kind, sample);
                assert!(errors.is_empty(), "{name}: {errors:?} for {sample}");
                let mut once = sample.clone();
                kind.set_defaults(&mut once);
                let mut twice = once.clone();
                kind.set_defaults(&mut twice);
                assert_eq!(once, twice, "{name}: defaults of defaults");
                let cells = kind.cells(&once, 1_700_000_000);
                assert_eq!(cells.len(), kind.declaration().columns.len(), "{name}: a cell for each column");
            }
            for patch in &samples.updates {
                let errors = errors_on_update(*kind, &samples.valid[0], patch);
                assert!(errors.is_empty(), "{name}: {errors:?} for the update {patch}");
            }
        }
    }

    #[test]
    fn invalid_samples_are_refused_for_the_right_reason() {
        for kind in BUILT_IN {
            let samples = kind.samples();
            let name = kind.declaration().group_resource();
            for refused in &samples.invalid {
                let errors = errors_on_create(*kind, &refused.object);
                let found = errors
                    .iter()
                    .any(|error| error.field == refused.field && error.kind.reason() == refused.reason);
                assert!(found, "{name}: wanted {} at {:?}, got {errors:?}", refused.reason, refused.field);
            }
            for refused in &samples.invalid_updates {
                let errors = errors_on_update(*kind, &samples.valid[0], &refused.object);
                let found = errors
                    .iter()
                    .any(|error| error.field == refused.field && error.kind.reason() == refused.reason);
                assert!(found, "{name}: wanted {} at {:?}, got {errors:?}", refused.reason, refused.field);
            }
        }
    }
}
