//! Figures, and Markdown tables of them.

use std::fmt::Write as _;
use std::time::Duration;

use coracle_benches::measure::Samples;

/// The figures of one load.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    operations: u64,
    per_second: f64,
    bytes_per_second: f64,
    p50: Duration,
    p99: Duration,
    /// CPU time of the server per operation; unknown if its processes are.
    server_cpu: Option<Duration>,
    client_cpu: Duration,
    /// Share of the machine's CPU time used by programs other than server and client.
    others: Option<f64>,
}

impl Measured {
    pub(crate) fn new(operations: u64, bytes: u64, elapsed: Duration, samples: &mut Samples) -> Self {
        let seconds = elapsed.as_secs_f64();
        let is_empty = samples.is_empty();
        let mut percentile = |percent| if is_empty { Duration::ZERO } else { samples.percentile(percent) };
        Self {
            operations,
            per_second: operations as f64 / seconds,
            bytes_per_second: bytes as f64 / seconds,
            p50: percentile(50.0),
            p99: percentile(99.0),
            server_cpu: None,
            client_cpu: Duration::ZERO,
            others: None,
        }
    }

    /// Adds the CPU time of all operations, and that of other programs.
    pub(crate) fn with_cpu(
        mut self,
        server: Option<Duration>,
        client: Duration,
        others: Option<f64>,
    ) -> Self {
        let each = |total: Duration| total.div_f64(self.operations.max(1) as f64);
        (self.server_cpu, self.client_cpu) = (server.map(each), each(client));
        self.others = others;
        self
    }

    /// Throughput relative to that of `other`.
    pub(crate) fn rate_ratio(&self, other: &Self) -> f64 {
        self.per_second / other.per_second
    }

    /// One line per load, printed as progress.
    pub(crate) fn summary(&self) -> String {
        let server = self.server_cpu.map(|cpu| format!(", server {} each", time(cpu))).unwrap_or_default();
        let others = self.others.map(|share| format!(", others {}", percent(share))).unwrap_or_default();
        format!(
            "{}/s, {:.1} MB/s, p50 {}, p99 {}{server}, client {} each{others}",
            number(self.per_second),
            self.bytes_per_second / 1e6,
            time(self.p50),
            time(self.p99),
            time(self.client_cpu)
        )
    }
}

/// All figures of one server.
pub(crate) struct Report {
    pub(crate) server: String,
    pub(crate) loads: Vec<(&'static str, Measured)>,
    /// Memory, and startup times.
    pub(crate) states: Vec<(&'static str, State)>,
}

/// A figure that is not a throughput.
#[derive(Clone)]
pub(crate) enum State {
    /// Bytes per process.
    Memory(Vec<u64>),
    Time(Duration),
    /// Ratio of two throughputs of the same server.
    Ratio(f64),
}

impl State {
    fn value(&self) -> f64 {
        match self {
            State::Memory(bytes) => bytes.iter().sum::<u64>() as f64,
            State::Time(time) => time.as_secs_f64(),
            State::Ratio(ratio) => *ratio,
        }
    }

    pub(crate) fn text(&self) -> String {
        let mib = |bytes: u64| format!("{:.1}", bytes as f64 / f64::from(1 << 20));
        match self {
            State::Memory(bytes) if bytes.len() < 2 => format!("{} MiB", mib(bytes.iter().sum())),
            State::Memory(bytes) => {
                let parts: Vec<_> = bytes.iter().map(|bytes| mib(*bytes)).collect();
                format!("{} MiB ({})", mib(bytes.iter().sum()), parts.join(" + "))
            }
            State::Time(duration) => time(*duration),
            State::Ratio(ratio) => format!("{ratio:.2} ×"),
        }
    }
}

impl Report {
    pub(crate) fn new(server: &str) -> Self {
        Self { server: server.to_owned(), loads: Vec::new(), states: Vec::new() }
    }

    pub(crate) fn load(&self, what: &str) -> Option<&Measured> {
        self.loads.iter().find(|(known, _)| *known == what).map(|(_, measured)| measured)
    }
}

/// Markdown tables with the servers side by side, and the ratio of the first to each other one.
pub(crate) fn tables(reports: &[Report]) -> String {
    let mut text = String::new();
    let Some(first) = reports.first() else { return text };
    if !first.loads.is_empty() {
        let cells =
            |report: &Report, at: usize| load_cell(report.loads.get(at).map(|(_, measured)| measured));
        let ratio = |report: &Report, at: usize| load_ratio(first, report, at);
        table(&mut text, "Load", reports, first.loads.iter().map(|(what, _)| *what), cells, ratio);
        for report in reports {
            text.push_str(&disturbance(report));
        }
    }
    if !first.states.is_empty() {
        text.push('\n');
        let cells = |report: &Report, at: usize| {
            report.states.get(at).map_or_else(|| "–".to_owned(), |(_, state)| state.text())
        };
        let ratio = |report: &Report, at: usize| match (first.states.get(at), report.states.get(at)) {
            (Some((_, State::Ratio(_))), _) => "–".to_owned(),
            (Some((_, own)), Some((_, other))) => format!("1/{:.1}", other.value() / own.value()),
            _ => "–".to_owned(),
        };
        table(&mut text, "State", reports, first.states.iter().map(|(what, _)| *what), cells, ratio);
    }
    text
}

fn table(
    text: &mut String,
    title: &str,
    reports: &[Report],
    rows: impl Iterator<Item = &'static str>,
    cell: impl Fn(&Report, usize) -> String,
    ratio: impl Fn(&Report, usize) -> String,
) {
    let mut line = |cells: Vec<String>| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    };
    let others = &reports[1..];
    let names = reports.iter().map(|report| report.server.clone());
    let header: Vec<_> = std::iter::once(title.to_owned())
        .chain(names)
        .chain(others.iter().map(|_| "Ratio".to_owned()))
        .collect();
    let rule = vec!["---".to_owned(); header.len()];
    line(header);
    line(rule);
    for (at, what) in rows.enumerate() {
        let mut cells = vec![what.to_owned()];
        cells.extend(reports.iter().map(|report| cell(report, at)));
        cells.extend(others.iter().map(|other| ratio(other, at)));
        line(cells);
    }
}

fn load_cell(measured: Option<&Measured>) -> String {
    let Some(measured) = measured else { return "–".to_owned() };
    let cpu = measured.server_cpu.map(|cpu| format!("; {} CPU", time(cpu))).unwrap_or_default();
    format!("{}/s, {}/{}{cpu}", number(measured.per_second), time(measured.p50), time(measured.p99))
}

/// Ratio of throughput, and inverse ratio of CPU time.
fn load_ratio(first: &Report, other: &Report, at: usize) -> String {
    let (Some((_, own)), Some((_, other))) = (first.loads.get(at), other.loads.get(at)) else {
        return "–".to_owned();
    };
    let cpu = match (own.server_cpu, other.server_cpu) {
        (Some(own), Some(other)) if !own.is_zero() => {
            format!("; CPU 1/{:.1}", other.as_secs_f64() / own.as_secs_f64())
        }
        _ => String::new(),
    };
    format!("{:.1} ×{cpu}", own.per_second / other.per_second)
}

/// CPU time that other programs used during the loads of a server, which limits the validity of its figures.
fn disturbance(report: &Report) -> String {
    let shares = report.loads.iter().filter_map(|(_, measured)| measured.others);
    let Some((least, most)) = shares.fold(None, |range: Option<(f64, f64)>, share| {
        Some(range.map_or((share, share), |(least, most)| (least.min(share), most.max(share))))
    }) else {
        return String::new();
    };
    let server = &report.server;
    format!(
        "\n{server}: other programs used {} to {} of the machine meanwhile.\n",
        percent(least),
        percent(most)
    )
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// With a space as thousands separator.
fn number(value: f64) -> String {
    if value < 100.0 {
        return format!("{value:.1}");
    }
    let digits = format!("{value:.0}");
    let head = digits.len() % 3;
    let groups = digits.as_bytes()[head..].chunks(3).map(String::from_utf8_lossy);
    let mut parts: Vec<_> = std::iter::once(digits[..head].into())
        .filter(|part: &std::borrow::Cow<'_, str>| !part.is_empty())
        .collect();
    parts.extend(groups);
    parts.join(" ")
}

/// In a unit that leaves one to three digits before the decimal point.
fn time(duration: Duration) -> String {
    let micros = duration.as_secs_f64() * 1e6;
    match micros {
        ..10.0 => format!("{micros:.1} µs"),
        ..1000.0 => format!("{micros:.0} µs"),
        ..1e5 => format!("{:.1} ms", micros / 1e3),
        ..1e6 => format!("{:.0} ms", micros / 1e3),
        _ => format!("{:.2} s", micros / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(server: &str, seconds: u64) -> Report {
        let mut samples = Samples::default();
        samples.push(Duration::from_micros(250));
        let measured = Measured::new(30_000, 0, Duration::from_secs(seconds), &mut samples).with_cpu(
            Some(Duration::from_secs(seconds)),
            Duration::from_secs(1),
            Some(0.25),
        );
        let states = vec![
            ("Memory", State::Memory(vec![seconds << 19; 2])),
            ("Start", State::Time(Duration::from_millis(12))),
        ];
        Report { server: server.to_owned(), loads: vec![("GET", measured)], states }
    }

    #[test]
    fn numbers_are_grouped_and_times_scaled() {
        assert_eq!(
            [1.25, 999.6, 1234.0, 123_456.0, 1_234_567.0].map(number),
            ["1.2", "1 000", "1 234", "123 456", "1 234 567"]
        );
        let times = [5, 250, 12_345, 123_456, 2_500_000].map(|micros| time(Duration::from_micros(micros)));
        assert_eq!(times, ["5.0 µs", "250 µs", "12.3 ms", "123 ms", "2.50 s"]);
    }

    #[test]
    fn comparison_has_ratios() {
        let text = tables(&[report("one", 1), report("two", 10)]);
        assert!(text.contains("| Load | one | two | Ratio |"), "{text}");
        assert!(text.contains("| GET | 30 000/s, 250 µs/250 µs; 33 µs CPU | 3 000/s, "), "{text}");
        assert!(text.contains("| 10.0 ×; CPU 1/10.0 |"), "{text}");
        assert!(text.contains("two: other programs used 25 % to 25 %"), "{text}");
        assert!(text.contains("| Memory | 1.0 MiB (0.5 + 0.5) | 10.0 MiB (5.0 + 5.0) | 1/10.0 |"), "{text}");
    }

    #[test]
    fn single_server_has_no_ratios() {
        let text = tables(&[report("one", 1)]);
        assert!(text.contains("| Load | one |\n"), "{text}");
    }
}
