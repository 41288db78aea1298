//! The text of a health response, in kube-apiserver's format.

use std::fmt::Write;

use super::Probe;

/// Visibility of the reasons of failures in a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reasons {
    /// Included, for the server's operator.
    Shown,
    /// Withheld from all other clients.
    Withheld,
}

/// The outcome of all checks of a probe.
#[derive(Debug)]
pub(crate) struct Report {
    probe: Probe,
    reasons: Reasons,
    lines: String,
    names: Vec<String>,
    /// The checks that ran, and whether they passed.
    outcomes: Vec<(String, bool)>,
    failed: bool,
}

impl Report {
    pub(super) fn new(probe: Probe, reasons: Reasons) -> Self {
        Self { probe, reasons, lines: String::new(), names: Vec::new(), outcomes: Vec::new(), failed: false }
    }

    /// Records the outcome of a check, with the reason if it failed.
    pub(super) fn checked(&mut self, name: &str, failure: Option<String>) {
        self.outcomes.push((name.to_owned(), failure.is_none()));
        match failure {
            None => self.line(format_args!("[+]{name} ok")),
            Some(reason) => {
                self.failed = true;
                let reason = if self.reasons == Reasons::Shown { &reason } else { "reason withheld" };
                self.line(format_args!("[-]{name} failed: {reason}"));
            }
        }
        self.names.push(name.to_owned());
    }

    pub(super) fn excluded(&mut self, name: &str) {
        self.line(format_args!("[+]{name} excluded: ok"));
        self.names.push(name.to_owned());
    }

    /// Lists exclusions that match no check, so that a misspelt one is noticed.
    pub(super) fn note_unmatched(&mut self, excluded: &[&str]) {
        let unknown = excluded.iter().filter(|name| !self.names.iter().any(|known| known == **name));
        let quoted: Vec<String> = unknown.map(|name| format!("{name:?}")).collect();
        if !quoted.is_empty() {
            let names = quoted.join(",");
            self.line(format_args!("warn: some health checks cannot be excluded: no matches for {names}"));
        }
    }

    pub(crate) fn outcomes(&self) -> &[(String, bool)] {
        &self.outcomes
    }

    pub(crate) fn is_healthy(&self) -> bool {
        !self.failed
    }

    /// The body of the response. A failure always lists the checks.
    pub(crate) fn text(mut self, verbose: bool) -> String {
        let name = self.probe.name();
        match (self.failed, verbose) {
            (true, _) => self.line(format_args!("{name} check failed")),
            (false, true) => self.line(format_args!("{name} check passed")),
            (false, false) => return "ok".to_owned(),
        }
        self.lines
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        writeln!(self.lines, "{line}").expect("a string takes everything");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(outcomes: &[(&str, bool)]) -> Report {
        let mut report = Report::new(Probe::Live, Reasons::Withheld);
        let failure = |passed: bool| (!passed).then(|| "no space left".to_owned());
        outcomes.iter().for_each(|(name, passed)| report.checked(name, failure(*passed)));
        report
    }

    #[test]
    fn report_for_the_operator_shows_reasons() {
        let mut report = Report::new(Probe::Ready, Reasons::Shown);
        report.checked("store", Some("no space left".to_owned()));
        assert_eq!(report.text(false), "[-]store failed: no space left\nreadyz check failed\n");
    }

    #[test]
    fn success_is_ok_and_lists_the_checks_if_verbose() {
        assert_eq!(report(&[("ping", true)]).text(false), "ok");
        let text = report(&[("ping", true), ("store", true)]).text(true);
        assert_eq!(text, "[+]ping ok\n[+]store ok\nlivez check passed\n");
    }

    #[test]
    fn failure_always_lists_the_checks() {
        let outcomes = [("ping", true), ("store", false)];
        for verbose in [false, true] {
            let report = report(&outcomes);
            assert!(!report.is_healthy());
            let expected = "[+]ping ok\n[-]store failed: reason withheld\nlivez check failed\n";
            assert_eq!(report.text(verbose), expected);
        }
    }

    #[test]
    fn exclusions_and_unknown_ones_are_listed() {
        let mut report = report(&[("ping", true)]);
        report.excluded("store");
        report.note_unmatched(&["store", "stroe"]);
        let expected = "[+]ping ok\n[+]store excluded: ok\n\
            warn: some health checks cannot be excluded: no matches for \"stroe\"\nlivez check passed\n";
        assert_eq!(report.text(true), expected);
    }
}
