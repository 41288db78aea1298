//! Opening a store after its process was killed: duration and memory.

use std::path::Path;

use coracle_benches::measure::report;

use crate::child;

const OPENINGS: usize = 3;

pub(crate) fn run(dir: &Path) {
    let dir = dir.join("open");
    child::fill_and_kill(&dir);
    let mut best: Option<child::Opened> = None;
    for _ in 0..OPENINGS {
        let opened = child::open(&dir);
        if best.as_ref().is_none_or(|best| opened.millis < best.millis) {
            best = Some(opened);
        }
    }
    let opened = best.expect("it was opened");
    let figure = format!("{} ms (best of {OPENINGS})", opened.millis);
    report("open after kill -9, 100 000 × 2 KiB", &figure, "under 1 000 ms", opened.millis < 1000);
    let allowed = opened.live_bytes * 14 / 10 + (16 << 20);
    let figure = format!(
        "{} MiB resident, {:.2} × live + 16 MiB",
        opened.resident_bytes >> 20,
        opened.resident_bytes.saturating_sub(16 << 20) as f64 / opened.live_bytes as f64
    );
    report("  memory then", &figure, "at most 1.4 × live + 16 MiB", opened.resident_bytes <= allowed);
}
