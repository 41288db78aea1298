//! Metrics of the steps of a request: authentication, authorization, admission, bodies, watches and health checks.
//!
//! Names, labels and buckets are those of kube-apiserver. A series with labels appears with its first event.

use std::time::Duration;

use coracle_base::metrics::{Buckets, Counters, Gauges, Histograms, Metrics};

use super::labels::Labels;
use super::requests::SLI_LIMITS;

/// kube-apiserver's buckets of remaining lifetimes, in seconds: half an hour to a year.
const CERTIFICATE_LIFETIMES: [f64; 14] = [
    0.0,
    1_800.0,
    3_600.0,
    7_200.0,
    21_600.0,
    43_200.0,
    86_400.0,
    172_800.0,
    345_600.0,
    604_800.0,
    2_592_000.0,
    7_776_000.0,
    15_552_000.0,
    31_104_000.0,
];

/// Each metric is created by its first event, so there are a few hundred series at most.
pub(crate) struct ServerMetrics {
    registry: Metrics,
    authentication_attempts: Counters<1>,
    authentication_duration: Histograms<1>,
    authenticated_users: Counters<1>,
    authorization_attempts: Counters<1>,
    authorization_duration: Histograms<1>,
    filter_duration: Histograms<1>,
    valid_tokens: Counters<0>,
    body_sizes: Histograms<3>,
    deprecated: Gauges<5>,
    health: Gauges<2>,
    health_checks: Counters<3>,
    initial_events: Counters<2>,
    terminated_watchers: Counters<2>,
    watch_list_duration: Histograms<4>,
    event_sizes: Histograms<3>,
    self_requests: Counters<4>,
    aborts: Counters<6>,
    field_validation: Histograms<1>,
    impersonations: Counters<2>,
    impersonation_duration: Histograms<2>,
    impersonation_checks: Counters<2>,
    impersonation_check_duration: Histograms<2>,
    certificate_expiration: Histograms<0>,
    legacy_tokens: Counters<0>,
    manual_tokens: Counters<0>,
    automatic_tokens: Counters<0>,
    invalid_automatic_tokens: Counters<0>,
    stale_tokens: Counters<0>,
    handshake_errors: Counters<0>,
    issued_requests: Counters<1>,
    honored_requests: Counters<1>,
}

/// The result of a step, as a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StepResult {
    Success,
    Failure,
    Error,
}

/// The use of a service account token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenUse {
    /// A bound token that its client should have replaced.
    Stale,
    /// The token of a secret that a client created.
    Manual,
    /// The token of a secret that its service account refers to.
    Automatic,
    /// The token of a secret that is marked as invalid. The token is rejected.
    Invalid,
}

impl Default for ServerMetrics {
    fn default() -> Self {
        let registry = Metrics::default();
        let latency = || Buckets::exponential(0.001, 2.0, 15);
        Self {
            authentication_attempts: registry.counters(
                "authentication_attempts",
                "Authenticated attempts, by result.",
                ["result"],
            ),
            authentication_duration: registry.histograms(
                "authentication_duration_seconds",
                "Duration of authentication, by result.",
                latency(),
                ["result"],
            ),
            authenticated_users: registry.counters(
                "authenticated_user_requests",
                "Authenticated requests, by user; most names are shortened to a class.",
                ["username"],
            ),
            authorization_attempts: registry.counters(
                "authorization_attempts_total",
                "Authorization attempts, by result.",
                ["result"],
            ),
            authorization_duration: registry.histograms(
                "authorization_duration_seconds",
                "Duration of authorization, by result.",
                latency(),
                ["result"],
            ),
            filter_duration: registry.histograms(
                "apiserver_request_filter_duration_seconds",
                "Duration of the steps before a request is carried out, by step.",
                Buckets::new(&[
                    0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 5.0, 10.0, 15.0, 30.0,
                ]),
                ["filter"],
            ),
            valid_tokens: registry.counters(
                "serviceaccount_valid_tokens_total",
                "Requests with a valid token of a service account.",
                [],
            ),
            body_sizes: registry.histograms(
                "apiserver_request_body_size_bytes",
                "Sizes of request bodies, by resource and verb.",
                Buckets::linear(50_000.0, 100_000.0, 31),
                ["group", "resource", "verb"],
            ),
            deprecated: registry.gauges(
                "apiserver_requested_deprecated_apis",
                "Deprecated APIs that were requested.",
                ["group", "removed_release", "resource", "subresource", "version"],
            ),
            health: registry.gauges(
                "kubernetes_healthcheck",
                "The last result of a health check: 1 if it passed.",
                ["name", "type"],
            ),
            health_checks: registry.counters(
                "kubernetes_healthchecks_total",
                "Results of health checks.",
                ["name", "status", "type"],
            ),
            initial_events: registry.counters(
                "apiserver_init_events_total",
                "Events of the state that watches begin with, by resource.",
                ["group", "resource"],
            ),
            terminated_watchers: registry.counters(
                "apiserver_terminated_watchers_total",
                "Watches ended because their client did not read, by resource.",
                ["group", "resource"],
            ),
            watch_list_duration: registry.histograms(
                "apiserver_watch_list_duration_seconds",
                "Duration of the initial events of watches that begin with the state.",
                Buckets::new(&[
                    0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 45.0,
                    60.0,
                ]),
                ["group", "resource", "scope", "version"],
            ),
            event_sizes: registry.histograms(
                "apiserver_watch_events_sizes",
                "Sizes of events sent to watchers, by resource.",
                Buckets::exponential(1024.0, 2.0, 8),
                ["group", "resource", "version"],
            ),
            self_requests: registry.counters(
                "apiserver_selfrequest_total",
                "Requests from within the process, by verb and resource.",
                ["group", "resource", "subresource", "verb"],
            ),
            aborts: registry.counters(
                "apiserver_request_aborts_total",
                "Requests that ended without a response because their client went away.",
                ["group", "resource", "scope", "subresource", "verb", "version"],
            ),
            field_validation: registry.histograms(
                "field_validation_request_duration_seconds",
                "Duration of requests with a body, by how their fields are validated.",
                Buckets::new(&SLI_LIMITS),
                ["field_validation"],
            ),
            impersonations: registry.counters(
                "apiserver_impersonation_attempts_total",
                "Attempts to impersonate, by decision and by the mode that allowed it.",
                ["decision", "mode"],
            ),
            impersonation_duration: registry.histograms(
                "apiserver_impersonation_attempts_duration_seconds",
                "Duration of attempts to impersonate, by decision and by the mode that allowed it.",
                latency(),
                ["decision", "mode"],
            ),
            impersonation_checks: registry.counters(
                "apiserver_impersonation_authorization_attempts_total",
                "Permissions checked for impersonation, by decision and mode.",
                ["decision", "mode"],
            ),
            impersonation_check_duration: registry.histograms(
                "apiserver_impersonation_authorization_attempts_duration_seconds",
                "Duration of checking a permission for impersonation, by decision and mode.",
                latency(),
                ["decision", "mode"],
            ),
            certificate_expiration: registry.histograms(
                "apiserver_client_certificate_expiration_seconds",
                "Remaining lifetime of the certificates that requests are authenticated by.",
                Buckets::new(&CERTIFICATE_LIFETIMES),
                [],
            ),
            legacy_tokens: registry.counters(
                "serviceaccount_legacy_tokens_total",
                "Requests with a valid token of a secret.",
                [],
            ),
            manual_tokens: registry.counters(
                "serviceaccount_legacy_manual_token_uses_total",
                "Requests with a valid token of a secret that was created by a client.",
                [],
            ),
            automatic_tokens: registry.counters(
                "serviceaccount_legacy_auto_token_uses_total",
                "Requests with a valid token of a secret that its service account refers to.",
                [],
            ),
            invalid_automatic_tokens: registry.counters(
                "serviceaccount_invalid_legacy_auto_token_uses_total",
                "Requests with a token of a secret that its service account refers to and that is marked as invalid.",
                [],
            ),
            stale_tokens: registry.counters(
                "serviceaccount_stale_tokens_total",
                "Requests with a bound token that its client should have replaced.",
                [],
            ),
            handshake_errors: registry.counters(
                "apiserver_tls_handshake_errors_total",
                "Connections whose TLS handshake failed.",
                [],
            ),
            issued_requests: registry.counters(
                "apiserver_certificates_registry_csr_requested_duration_total",
                "Certificates issued for requests that ask for a duration, by signer.",
                ["signerName"],
            ),
            honored_requests: registry.counters(
                "apiserver_certificates_registry_csr_honored_duration_total",
                "Certificates issued with the duration that was asked for, by signer.",
                ["signerName"],
            ),
            registry,
        }
    }
}

impl ServerMetrics {
    pub(crate) fn handshake_errors(&self) -> Counters<0> {
        self.handshake_errors.clone()
    }

    /// Records that a certificate was issued for a request with a duration.
    pub(crate) fn note_issued(&self, signer: &str, is_honored: bool) {
        // Names of other signers are chosen by users.
        let signer = if signer.starts_with("kubernetes.io/") { signer } else { "other" };
        self.issued_requests.with([signer]).inc();
        if is_honored {
            self.honored_requests.with([signer]).inc();
        }
    }

    /// The registry, for components that declare metrics of their own.
    pub(crate) fn registry(&self) -> &Metrics {
        &self.registry
    }

    pub(super) fn text(&self) -> String {
        self.registry.text()
    }

    pub(crate) fn note_authentication(&self, took: Duration, result: StepResult) {
        let label = match result {
            StepResult::Success => "success",
            StepResult::Failure => "failure",
            StepResult::Error => "error",
        };
        self.authentication_attempts.with([label]).inc();
        self.authentication_duration.with([label]).observe_duration(took);
        self.note_filter("authentication", took);
    }

    /// Counts a request of an authenticated user. `is_bound_token` is true if a service account token was used.
    pub(crate) fn note_user(&self, name: &str, is_bound_token: bool) {
        self.authenticated_users.with([class_of(name)]).inc();
        if is_bound_token {
            self.valid_tokens.with([]).inc();
        }
    }

    pub(crate) fn note_token(&self, token: TokenUse) {
        let counter = match token {
            TokenUse::Stale => &self.stale_tokens,
            TokenUse::Manual => &self.manual_tokens,
            TokenUse::Automatic => &self.automatic_tokens,
            TokenUse::Invalid => &self.invalid_automatic_tokens,
        };
        counter.with([]).inc();
        if matches!(token, TokenUse::Manual | TokenUse::Automatic) {
            self.legacy_tokens.with([]).inc();
        }
    }

    /// Records the remaining lifetime of a certificate that authenticated a request.
    pub(crate) fn note_certificate(&self, remaining: Duration) {
        self.certificate_expiration.with([]).observe_duration(remaining);
    }

    /// Records an attempt to impersonate, with the mode that allowed it.
    pub(crate) fn note_impersonation(&self, mode: Option<&str>, took: Duration) {
        let labels = [decision(mode.is_some()), mode.unwrap_or_default()];
        self.impersonations.with(labels).inc();
        self.impersonation_duration.with(labels).observe_duration(took);
    }

    /// Records the check of one permission for impersonation.
    pub(crate) fn note_impersonation_check(&self, mode: &str, is_allowed: bool, took: Duration) {
        self.impersonation_checks.with([decision(is_allowed), mode]).inc();
        self.impersonation_check_duration.with([decision(is_allowed), mode]).observe_duration(took);
    }

    pub(crate) fn note_authorization(&self, took: Duration, result: StepResult) {
        let label = match result {
            StepResult::Success => "allowed",
            StepResult::Failure => "denied",
            StepResult::Error => "error",
        };
        self.authorization_attempts.with([label]).inc();
        self.authorization_duration.with([label]).observe_duration(took);
        self.note_filter("authorization", took);
    }

    /// Counts a request from within the process.
    pub(super) fn note_self_request(&self, labels: &Labels<'_>) {
        let Labels { group, resource, subresource, verb, .. } = labels;
        self.self_requests.with([group, resource, subresource, verb]).inc();
    }

    /// Counts a request that was dropped before it had a response.
    pub(super) fn note_abort(&self, labels: &Labels<'_>) {
        let Labels { group, resource, scope, subresource, verb, version, .. } = labels;
        self.aborts.with([group, resource, scope, subresource, verb, version]).inc();
    }

    pub(super) fn note_field_validation(&self, validation: &str, took: Duration) {
        self.field_validation.with([validation]).observe_duration(took);
    }

    pub(crate) fn note_filter(&self, filter: &str, took: Duration) {
        self.filter_duration.with([filter]).observe_duration(took);
    }

    #[expect(clippy::cast_precision_loss, reason = "bodies are smaller than 2^52 bytes")]
    pub(crate) fn note_body(&self, group: &str, resource: &str, verb: &str, bytes: usize) {
        self.body_sizes.with([group, resource, verb]).observe(bytes as f64);
    }

    /// Records a request for a deprecated resource. No served resource has a removal release, so that label is empty.
    pub(crate) fn note_deprecated(&self, group: &str, version: &str, resource: &str, subresource: &str) {
        self.deprecated.with([group, "", resource, subresource, version]).set(1.0);
    }

    pub(crate) fn note_health(&self, probe: &str, check: &str, passed: bool) {
        self.health.with([check, probe]).set(f64::from(u8::from(passed)));
        self.health_checks.with([check, if passed { "success" } else { "error" }, probe]).inc();
    }

    pub(crate) fn note_initial_events(&self, group: &str, resource: &str, count: u64) {
        self.initial_events.with([group, resource]).add(count);
    }

    pub(crate) fn note_terminated_watcher(&self, group: &str, resource: &str) {
        self.terminated_watchers.with([group, resource]).inc();
    }

    pub(crate) fn note_watch_list(&self, [group, resource, scope, version]: [&str; 4], took: Duration) {
        self.watch_list_duration.with([group, resource, scope, version]).observe_duration(took);
    }

    #[expect(clippy::cast_precision_loss, reason = "events are smaller than 2^52 bytes")]
    pub(crate) fn note_event(&self, group: &str, resource: &str, version: &str, bytes: usize) {
        self.event_sizes.with([group, resource, version]).observe(bytes as f64);
    }
}

fn decision(is_allowed: bool) -> &'static str {
    if is_allowed { "allowed" } else { "denied" }
}

/// The label of a user as in kube-apiserver (`compressUsername`), so that names do not fill the memory.
fn class_of(name: &str) -> &str {
    match name {
        "admin" | "client" | "kube_proxy" | "kubelet" | "system:serviceaccount:kube-system:default" => name,
        name if name.contains('@') => "email_id",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_with_labels_are_not_reported_before_their_first_event() {
        let text = ServerMetrics::default().text();
        let is_labelled = |line: &&str| line.contains('{') && !line.contains("_bucket{le=");
        assert_eq!(text.lines().find(is_labelled), None);
        assert!(text.contains("\napiserver_tls_handshake_errors_total 0\n"), "{text}");
    }

    #[test]
    fn users_are_labelled_by_class() {
        for (name, expected) in
            [("admin", "admin"), ("jane@example.com", "email_id"), ("system:node:n", "other")]
        {
            assert_eq!(class_of(name), expected);
        }
    }
}
