//! Progress bars on stderr; hidden if stderr is not a terminal.

use coracle::storage::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A progress bar, removed from the terminal when dropped.
pub(crate) struct Bar(ProgressBar);

impl Bar {
    /// Progress in bytes.
    pub(crate) fn of_bytes(what: &'static str) -> Self {
        Self::new(what, "{msg} {wide_bar} {bytes}/{total_bytes} {eta}")
    }

    /// Progress in entries.
    pub(crate) fn of_entries(what: &'static str) -> Self {
        Self::new(what, "{msg} {wide_bar} {human_pos}/{human_len} {eta}")
    }

    fn new(what: &'static str, template: &str) -> Self {
        // indicatif hides the bar if stderr is not a terminal.
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
