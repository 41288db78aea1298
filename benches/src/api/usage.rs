//! CPU time and memory of processes, read from /proc.

use std::time::Duration;

use anyhow::{Context, Result};

/// The processes of a server.
#[derive(Clone, Default)]
pub(crate) struct Processes(pub(crate) Vec<u32>);

impl Processes {
    /// Total CPU time so far.
    pub(crate) fn cpu(&self) -> Result<Duration> {
        self.0.iter().map(|pid| cpu(&pid.to_string())).sum()
    }

    /// Resident memory of each process, in bytes.
    pub(crate) fn resident_bytes(&self) -> Result<Vec<u64>> {
        self.0.iter().map(|pid| resident_bytes(*pid)).collect()
    }

    /// Resets the peak of resident memory for [`Processes::peak_bytes`].
    pub(crate) fn reset_peak(&self) -> Result<()> {
        // The value 5 resets the high-water mark, see proc(5).
        let reset = |pid: &u32| std::fs::write(format!("/proc/{pid}/clear_refs"), "5");
        Ok(self.0.iter().try_for_each(reset)?)
    }

    /// Sum of the processes' peaks of resident memory.
    pub(crate) fn peak_bytes(&self) -> Result<u64> {
        self.0.iter().map(|pid| status_bytes(*pid, "VmHWM:")).sum()
    }
}

/// CPU time of this process so far.
pub(crate) fn own_cpu() -> Result<Duration> {
    cpu("self")
}

/// CPU time of the whole machine: used by all programs, and available.
#[derive(Clone, Copy)]
pub(crate) struct Machine {
    pub(crate) busy: Duration,
    pub(crate) total: Duration,
}

impl Machine {
    /// The values since boot.
    pub(crate) fn now() -> Result<Self> {
        let stat = std::fs::read_to_string("/proc/stat")?;
        let (busy, total) = machine_ticks(&stat).context("CPU time of the machine")?;
        Ok(Self { busy: from_ticks(busy), total: from_ticks(total) })
    }
}

/// Busy and total ticks: the fourth and fifth number of the first line are idle time, and those after the eighth are
/// already included in others.
fn machine_ticks(stat: &str) -> Option<(u64, u64)> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let numbers: Vec<u64> = line.split_whitespace().take(8).map_while(|number| number.parse().ok()).collect();
    let total: u64 = numbers.iter().sum();
    Some((total - numbers.get(3)? - numbers.get(4)?, total))
}

fn from_ticks(ticks: u64) -> Duration {
    Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

fn cpu(process: &str) -> Result<Duration> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat"))
        .with_context(|| format!("process {process}"))?;
    let ticks = ticks(&text).with_context(|| format!("CPU time of {process}"))?;
    Ok(from_ticks(ticks))
}

/// User and system time. The program name, in parentheses, may contain any character.
fn ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

fn resident_bytes(pid: u32) -> Result<u64> {
    status_bytes(pid, "VmRSS:")
}

fn status_bytes(pid: u32, field: &str) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(field)).context("no resident size")?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_parsed_after_any_program_name() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194304 100 0 0 0 31 11 0 0 20 0 4 0 100 1000 50";
        assert_eq!(ticks(stat), Some(42));
        assert_eq!(ticks("7 (short) S 1"), None);
    }

    #[test]
    fn iowait_is_not_busy_time() {
        let stat = "cpu  10 1 5 100 20 2 3 4 10 0\ncpu0 1 2 3 4 5 6 7 8 9 0\n";
        assert_eq!(machine_ticks(stat), Some((25, 145)));
        assert_eq!(machine_ticks("cpu  1 2 3\n"), None);
    }

    #[test]
    fn running_process_has_resident_memory() {
        let own = Processes(vec![std::process::id()]);
        assert!(own.resident_bytes().unwrap()[0] > 0);
        own.cpu().unwrap();
    }
}
