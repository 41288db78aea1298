//! How far long work has come, for someone who watches: a bar on stderr if that is a terminal,
//! otherwise nothing.

use coracle::storage::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar that is gone when it is dropped.
pub(crate) struct Bar(ProgressBar);

impl Bar {
    /// For work that is counted in bytes.
    pub(crate) fn of_bytes(what: &'static str) -> Self {
        Self::new(what, "{msg} {wide_bar} {bytes}/{total_bytes} {eta}")
    }

    /// For work that is counted in entries.
    pub(crate) fn of_entries(what: &'static str) -> Self {
        Self::new(what, "{msg} {wide_bar} {human_pos}/{human_len} {eta}")
    }

    fn new(what: &'static str, template: &str) -> Self {
        // Hides itself where there is no terminal.
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template(template).expect("a template of this file");
        Self(bar.with_style(style).with_message(what))
    }

    pub(crate) fn show(&self, progress: Progress) {
        if progress.total > 0 {
            self.0.set_length(progress.total);
        }
        self.0.set_position(progress.done);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
