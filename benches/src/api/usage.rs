//! What processes use of the machine, as Linux tells it.

use std::time::Duration;

use anyhow::{Context, Result};

/// The processes a server consists of.
#[derive(Clone, Default)]
pub(crate) struct Processes(pub(crate) Vec<u32>);

impl Processes {
    /// Processor time they have used so far, together.
    pub(crate) fn cpu(&self) -> Result<Duration> {
        self.0.iter().map(|pid| cpu(&pid.to_string())).sum()
    }

    /// Resident memory of each, in bytes.
    pub(crate) fn resident_bytes(&self) -> Result<Vec<u64>> {
        self.0.iter().map(|pid| resident_bytes(*pid)).collect()
    }

    /// Forgets the peak of resident memory so far, for [`Processes::peak_bytes`].
    pub(crate) fn reset_peak(&self) -> Result<()> {
        // The value 5 resets the high-water mark, see proc(5).
        let reset = |pid: &u32| std::fs::write(format!("/proc/{pid}/clear_refs"), "5");
        Ok(self.0.iter().try_for_each(reset)?)
    }

    /// The most resident memory that they had, added up.
    pub(crate) fn peak_bytes(&self) -> Result<u64> {
        self.0.iter().map(|pid| status_bytes(*pid, "VmHWM:")).sum()
    }
}

/// Processor time this process has used so far.
pub(crate) fn own_cpu() -> Result<Duration> {
    cpu("self")
}

/// Processor time of the whole machine: what all programs together used, and what there was.
#[derive(Clone, Copy)]
pub(crate) struct Machine {
    pub(crate) busy: Duration,
    pub(crate) total: Duration,
}

impl Machine {
    /// Since it was started.
    pub(crate) fn now() -> Result<Self> {
        let stat = std::fs::read_to_string("/proc/stat")?;
        let (busy, total) = machine_ticks(&stat).context("processor time of the machine")?;
        Ok(Self { busy: from_ticks(busy), total: from_ticks(total) })
    }
}

/// Busy and all: the fourth and fifth number of the first line are idle, and what follows the eighth
/// has been counted already.
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
    let ticks = ticks(&text).with_context(|| format!("processor time of {process}"))?;
    Ok(from_ticks(ticks))
}

/// User and system time. The name of the program, in brackets, may hold anything.
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
    fn times_are_found_behind_any_name() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194304 100 0 0 0 31 11 0 0 20 0 4 0 100 1000 50";
        assert_eq!(ticks(stat), Some(42));
        assert_eq!(ticks("7 (short) S 1"), None);
    }

    #[test]
    fn waiting_is_not_being_busy() {
        let stat = "cpu  10 1 5 100 20 2 3 4 10 0\ncpu0 1 2 3 4 5 6 7 8 9 0\n";
        assert_eq!(machine_ticks(stat), Some((25, 145)));
        assert_eq!(machine_ticks("cpu  1 2 3\n"), None);
    }

    #[test]
    fn a_process_that_runs_uses_memory() {
        let own = Processes(vec![std::process::id()]);
        assert!(own.resident_bytes().unwrap()[0] > 0);
        own.cpu().unwrap();
    }
}
