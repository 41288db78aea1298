//! The process itself, as Linux tells it. Elsewhere nothing is told of it.

use std::fs;

use coracle_base::metrics::Text;

/// In which the kernel counts time for programs, on every architecture.
const TICKS_PER_SECOND: f64 = 100.0;

/// Tells what the kernel knows.
pub(super) fn tell(text: &mut Text) {
    if let Some((cpu_s, started_s)) = times() {
        text.family("process_cpu_seconds_total", "counter", "Time spent on processors, in seconds.");
        text.sample("process_cpu_seconds_total", &[], cpu_s);
        text.family("process_start_time_seconds", "gauge", "When the process began, in seconds since 1970.");
        text.sample("process_start_time_seconds", &[], started_s);
    }
    if let Some(bytes) = resident_bytes() {
        text.family("process_resident_memory_bytes", "gauge", "Memory in use, in bytes.");
        text.sample("process_resident_memory_bytes", &[], bytes);
    }
}

/// Processor time, and when the process began.
fn times() -> Option<(f64, f64)> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The name in parentheses may itself have blanks and parentheses.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |index: usize| fields.get(index)?.parse::<f64>().ok();
    let boot = fs::read_to_string("/proc/stat").ok()?;
    let boot_s: f64 = boot.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    Some(((ticks(11)? + ticks(12)?) / TICKS_PER_SECOND, boot_s + ticks(19)? / TICKS_PER_SECOND))
}

fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}
