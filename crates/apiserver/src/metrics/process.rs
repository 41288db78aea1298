//! Metrics of the process, from Linux' `/proc`. On other systems there are none.

use std::fs;

use coracle_base::metrics::Text;

/// The unit of processor times in `/proc`, on every architecture.
const TICKS_PER_SECOND: f64 = 100.0;

/// Writes the metrics.
pub(super) fn write_metrics(text: &mut Text) {
    if let Some((cpu_s, started_s)) = times() {
        text.family("process_cpu_seconds_total", "counter", "Time spent on processors, in seconds.");
        text.sample("process_cpu_seconds_total", &[], cpu_s);
        text.family("process_start_time_seconds", "gauge", "When the process began, in seconds since 1970.");
        text.sample("process_start_time_seconds", &[], started_s);
    }
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let network = fs::read_to_string("/proc/self/net/netstat").unwrap_or_default();
    let open_files = fs::read_dir("/proc/self/fd").ok().map(|files| files.count() as f64);
    for (name, kind, help, value) in [
        (
            "process_resident_memory_bytes",
            "gauge",
            "Resident memory, in bytes.",
            memory_bytes(&status, "VmRSS:"),
        ),
        (
            "process_virtual_memory_bytes",
            "gauge",
            "Virtual memory, in bytes.",
            memory_bytes(&status, "VmSize:"),
        ),
        (
            "process_virtual_memory_max_bytes",
            "gauge",
            "Limit of virtual memory, in bytes.",
            limit(&limits, "Max address space"),
        ),
        ("process_open_fds", "gauge", "Open file descriptors.", open_files),
        ("process_max_fds", "gauge", "Limit of open file descriptors.", limit(&limits, "Max open files")),
        (
            "process_network_receive_bytes_total",
            "counter",
            "Bytes received in the network namespace of the process.",
            octets(&network, "InOctets"),
        ),
        (
            "process_network_transmit_bytes_total",
            "counter",
            "Bytes sent in the network namespace of the process.",
            octets(&network, "OutOctets"),
        ),
    ] {
        if let Some(value) = value {
            text.family(name, kind, help);
            text.sample(name, &[], value);
        }
    }
}

/// Processor time, and the start time of the process.
fn times() -> Option<(f64, f64)> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The process name in parentheses may itself have blanks and parentheses.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |index: usize| fields.get(index)?.parse::<f64>().ok();
    let boot = fs::read_to_string("/proc/stat").ok()?;
    let boot_s: f64 = boot.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    Some(((ticks(11)? + ticks(12)?) / TICKS_PER_SECOND, boot_s + ticks(19)? / TICKS_PER_SECOND))
}

/// Parses a line of `/proc/self/status`, in bytes.
fn memory_bytes(status: &str, name: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: f64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024.0)
}

/// Parses a soft limit. An unlimited one is the largest 64-bit number, as in kube-apiserver.
fn limit(limits: &str, name: &str) -> Option<f64> {
    let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(u64::MAX as f64),
        number => number.parse().ok(),
    }
}

/// Parses a number of the line `IpExt`, whose names are in the line before.
fn octets(netstat: &str, name: &str) -> Option<f64> {
    let mut lines = netstat.lines().filter_map(|line| line.strip_prefix("IpExt:"));
    let place = lines.next()?.split_whitespace().position(|found| found == name)?;
    lines.next()?.split_whitespace().nth(place)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_kernel_are_parsed() {
        let status = "Name:\tx\nVmSize:\t    2048 kB\nVmRSS:\t 1 kB\n";
        assert_eq!(memory_bytes(status, "VmSize:"), Some(2_097_152.0));
        let limits = "Limit                     Soft Limit           Hard Limit           Units\n\
                      Max open files            1024                 524288               files\n\
                      Max address space         unlimited            unlimited            bytes\n";
        assert_eq!(limit(limits, "Max open files"), Some(1024.0));
        assert_eq!(limit(limits, "Max address space"), Some(18_446_744_073_709_551_615.0));
        let netstat = "TcpExt: A B\nTcpExt: 1 2\nIpExt: X InOctets OutOctets\nIpExt: 0 7 8\n";
        assert_eq!((octets(netstat, "InOctets"), octets(netstat, "OutOctets")), (Some(7.0), Some(8.0)));
        assert_eq!((octets("", "InOctets"), limit("", "Max open files")), (None, None));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_is_reported() {
        let mut text = Text::default();
        write_metrics(&mut text);
        let text = text.into_string();
        for name in
            ["open_fds", "max_fds", "virtual_memory_bytes", "resident_memory_bytes", "cpu_seconds_total"]
        {
            assert!(text.contains(&format!("\nprocess_{name} ")), "{name}: {text}");
        }
    }
}
