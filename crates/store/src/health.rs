//! Write health: whether a store accepts writes, and otherwise the reason.
//!
//! The engine records the failure when it rejects a write, and clears it when writes work again. Each change is
//! logged once with its cause: a server that rejects every write for an hour logs one line, not one per request.

use std::sync::Arc;

use arc_swap::ArcSwapOption;

use crate::error::{Error, Result, chain};

/// The reason why writes are rejected, if they are. Reading it costs one atomic load.
#[derive(Default)]
pub(crate) struct WriteHealth {
    failure: ArcSwapOption<Error>,
}

impl WriteHealth {
    /// Returns the recorded failure as an error.
    pub(crate) fn check(&self) -> Result<()> {
        match &*self.failure.load() {
            Some(failure) => Err(Error::clone(failure)),
            None => Ok(()),
        }
    }

    /// Returns true if writes are rejected for lack of space, which needs no restart.
    pub(crate) fn is_disk_full(&self) -> bool {
        matches!(self.failure.load().as_deref(), Some(Error::DiskFull { .. }))
    }

    /// Records a failure. A poisoned store stays poisoned after later failures.
    pub(crate) fn fail(&self, error: &Error) {
        let before = self.failure.load();
        let same_kind = before
            .as_deref()
            .is_some_and(|before| std::mem::discriminant(before) == std::mem::discriminant(error));
        if same_kind || matches!(before.as_deref(), Some(Error::Poisoned { .. })) {
            return;
        }
        self.failure.store(Some(Arc::new(error.clone())));
        tracing::error!(error = chain(error), "the store refuses writes");
    }

    /// Records that writes work again. A poisoned store stays poisoned.
    pub(crate) fn clear(&self) {
        if self.failure.load().as_deref().is_none_or(|failure| matches!(failure, Error::Poisoned { .. })) {
            return;
        }
        self.failure.store(None);
        tracing::info!("the store accepts writes again");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> Error {
        Error::DiskFull { source: Arc::new(std::io::ErrorKind::StorageFull.into()) }
    }

    #[test]
    fn poisoned_health_is_not_cleared() {
        let health = WriteHealth::default();
        assert!(health.check().is_ok() && !health.is_disk_full());
        health.fail(&full());
        assert!(matches!(health.check(), Err(Error::DiskFull { .. })) && health.is_disk_full());
        health.clear();
        assert!(health.check().is_ok());
        health.fail(&full());
        health.fail(&Error::Poisoned { reason: "cannot sync the log: I/O error".into() });
        health.fail(&full());
        health.clear();
        assert!(matches!(health.check(), Err(Error::Poisoned { .. })));
    }
}
