//! Number, duration, size and concurrency of requests.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::hash::{BuildHasher, RandomState};
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use coracle_base::metrics::{Buckets, Histogram, Text};
use coracle_registry::catalog;
use http::{Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use tokio::time::Instant;

use super::Metrics;
use super::labels::{Labels, field_validation};
use crate::body::{Held, ResponseBody};
use crate::request_info::RequestInfo;

/// kube-apiserver's buckets of request durations, in seconds.
const LIMITS: [f64; 21] = [
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0,
    20.0, 30.0,
];

/// kube-apiserver's buckets of durations without waiting, in seconds.
pub(super) const SLI_LIMITS: [f64; 21] = [
    0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0,
    45.0, 60.0,
];

/// Number of series. All resources with all verbs and the usual codes are a few thousand; further series are not
/// counted, so that clients cannot fill the memory.
const MAX_SERIES: usize = 8192;

/// The metrics of requests.
pub(super) struct Requests {
    series: RwLock<HashMap<u64, Arc<Series>, RandomState>>,
    hasher: RandomState,
    buckets: Buckets,
    sli_buckets: Buckets,
    size_buckets: Buckets,
    reading: AtomicI64,
    changing: AtomicI64,
}

impl Default for Requests {
    fn default() -> Self {
        Self {
            series: RwLock::default(),
            hasher: RandomState::new(),
            buckets: Buckets::new(&LIMITS),
            sli_buckets: Buckets::new(&SLI_LIMITS),
            // kube-apiserver's buckets: from a kilobyte to a gigabyte.
            size_buckets: Buckets::exponential(1000.0, 10.0, 7),
            reading: AtomicI64::new(0),
            changing: AtomicI64::new(0),
        }
    }
}

/// The requests with the same labels.
struct Series {
    verb: &'static str,
    group: Box<str>,
    version: Box<str>,
    resource: Box<str>,
    subresource: Box<str>,
    scope: &'static str,
    dry_run: &'static str,
    code: u16,
    count: AtomicU64,
    running: AtomicI64,
    /// Requests, included in `count`, that were rejected because there was no seat.
    terminated: AtomicU64,
    took: Histogram,
    /// Durations without waiting for a seat.
    sli: Histogram,
    /// Sizes of responses to GET and LIST.
    sizes: Histogram,
}

impl Series {
    fn new(labels: &Labels<'_>, code: u16, requests: &Requests) -> Self {
        Self {
            verb: labels.verb,
            group: labels.group.into(),
            version: labels.version.into(),
            resource: labels.resource.into(),
            subresource: labels.subresource.into(),
            scope: labels.scope,
            dry_run: labels.dry_run,
            code,
            count: AtomicU64::new(0),
            running: AtomicI64::new(0),
            terminated: AtomicU64::new(0),
            took: Histogram::with_buckets(&requests.buckets),
            sli: Histogram::with_buckets(&requests.sli_buckets),
            sizes: Histogram::with_buckets(&requests.size_buckets),
        }
    }

    fn labels(&self) -> [(&'static str, &str); 7] {
        [
            ("dry_run", self.dry_run),
            ("group", &self.group),
            ("resource", &self.resource),
            ("scope", self.scope),
            ("subresource", &self.subresource),
            ("verb", self.verb),
            ("version", &self.version),
        ]
    }
}

impl Requests {
    fn series(&self, labels: &Labels<'_>, code: u16) -> Option<Arc<Series>> {
        let id = self.hasher.hash_one((labels, code));
        if let Some(series) = self.series.read().unwrap_or_else(PoisonError::into_inner).get(&id) {
            return Some(series.clone());
        }
        let mut all = self.series.write().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MAX_SERIES {
            return None;
        }
        Some(all.entry(id).or_insert_with(|| Arc::new(Series::new(labels, code, self))).clone())
    }

    fn inflight(&self, info: &RequestInfo) -> &AtomicI64 {
        if info.is_read_only() { &self.reading } else { &self.changing }
    }

    pub(super) fn write(&self, text: &mut Text) {
        let mut all: Vec<Arc<Series>> =
            self.series.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        all.sort_by(|a, b| (a.labels(), a.code).cmp(&(b.labels(), b.code)));
        let load = |number: &AtomicU64| number.load(Ordering::Relaxed);
        let counted = |series: &&Arc<Series>| load(&series.count) > 0;

        text.family("apiserver_request_total", "counter", "Requests answered, by what they were about.");
        for series in all.iter().filter(counted) {
            let code = series.code.to_string();
            let mut labels = vec![("code", &*code)];
            labels.extend(series.labels());
            text.sample("apiserver_request_total", &labels, load(&series.count));
        }
        self.write_durations(text, &all);
        write_terminations(text, &all);
        text.family("apiserver_longrunning_requests", "gauge", "Watches that are open.");
        for series in all.iter().filter(|series| series.verb == "WATCH") {
            let running = series.running.load(Ordering::Relaxed);
            text.sample("apiserver_longrunning_requests", &without_dry_run(series), running);
        }
        text.family("apiserver_current_inflight_requests", "gauge", "Requests being answered.");
        for (kind, number) in [("mutating", &self.changing), ("readOnly", &self.reading)] {
            let running = number.load(Ordering::Relaxed);
            text.sample("apiserver_current_inflight_requests", &[("request_kind", kind)], running);
        }
    }

    /// Writes the durations of requests, whatever their code.
    fn write_durations(&self, text: &mut Text, all: &[Arc<Series>]) {
        const NAME: &str = "apiserver_request_duration_seconds";
        text.family(NAME, "histogram", "How long requests took, without watches.");
        for alike in all.chunk_by(|a, b| a.labels() == b.labels()).filter(|alike| alike[0].verb != "WATCH") {
            let took: Vec<&Histogram> = alike.iter().map(|series| &series.took).collect();
            Histogram::tell_together(&took, NAME, &alike[0].labels(), text);
        }
        const SLI: &str = "apiserver_request_sli_duration_seconds";
        text.family(
            SLI,
            "histogram",
            "How long requests took, without watches and without waiting for a seat.",
        );
        let by_labels = by_labels(all);
        for alike in by_labels.iter().filter(|alike| alike[0].verb != "WATCH") {
            let sli: Vec<&Histogram> = alike.iter().map(|series| &series.sli).collect();
            Histogram::tell_together(&sli, SLI, &without_dry_run(alike[0]), text);
        }
        const SIZES: &str = "apiserver_response_sizes";
        text.family(SIZES, "histogram", "Sizes of responses to reading requests.");
        for alike in by_labels.iter().filter(|alike| matches!(alike[0].verb, "GET" | "LIST")) {
            let sizes: Vec<&Histogram> = alike.iter().map(|series| &series.sizes).collect();
            Histogram::tell_together(&sizes, SIZES, &without_dry_run(alike[0]), text);
        }
    }
}

/// Groups the series that differ in the code or the dry run only.
fn by_labels(all: &[Arc<Series>]) -> Vec<Vec<&Series>> {
    let mut found: BTreeMap<_, Vec<&Series>> = BTreeMap::new();
    for series in all {
        found.entry(without_dry_run(series)).or_default().push(series);
    }
    found.into_values().collect()
}

fn without_dry_run(series: &Series) -> Vec<(&'static str, &str)> {
    series.labels().into_iter().filter(|(name, _)| *name != "dry_run").collect()
}

fn write_terminations(text: &mut Text, all: &[Arc<Series>]) {
    const NAME: &str = "apiserver_request_terminations_total";
    let terminated = |series: &Series| series.terminated.load(Ordering::Relaxed);
    if all.iter().all(|series| terminated(series) == 0) {
        return;
    }
    text.family(NAME, "counter", "Requests rejected because the server had no seat for them.");
    for series in all.iter().filter(|series| terminated(series) > 0 && series.dry_run.is_empty()) {
        let code = series.code.to_string();
        let mut labels = vec![("code", &*code)];
        labels.extend(without_dry_run(series));
        text.sample(NAME, &labels, terminated(series));
    }
}

/// A running request. If it is dropped before it ended, the client aborted it.
pub(crate) struct Running {
    metrics: Arc<Metrics>,
    info: Arc<RequestInfo>,
    /// True if the request came over a connection, and not from within the process.
    is_remote: bool,
    is_ended: bool,
    began: Instant,
}

impl Running {
    pub(super) fn begin(metrics: Arc<Metrics>, info: Arc<RequestInfo>, is_remote: bool) -> Self {
        metrics.requests.inflight(&info).fetch_add(1, Ordering::Relaxed);
        Self { metrics, info, is_remote, is_ended: false, began: Instant::now() }
    }

    /// Records the response. A watch that began is counted when it ends.
    pub(crate) fn end(
        mut self,
        response: Response<ResponseBody>,
        waited: Duration,
        is_terminated: bool,
    ) -> Response<ResponseBody> {
        self.is_ended = true;
        let labels = Labels::of(&self.info);
        // Paths that are not served share their labels, so that clients cannot create series.
        let known = labels.resource.is_empty()
            || is_served(response.status())
            || catalog::find(labels.group, labels.version, labels.resource).is_some();
        let labels = if known { labels } else { labels.without_resource() };
        if !self.is_remote {
            self.metrics.server.note_self_request(&labels);
        }
        if let Some(validation) = field_validation(&self.info) {
            self.metrics.server.note_field_validation(validation, self.began.elapsed());
        }
        let code = response.status().as_u16();
        let Some(series) = self.metrics.requests.series(&labels, code) else { return response };
        if self.info.is_watch() && is_served(response.status()) {
            series.running.fetch_add(1, Ordering::Relaxed);
            return response.map(|body| Held::new(body, Watching(series)).boxed_unsync());
        }
        series.count.fetch_add(1, Ordering::Relaxed);
        series.terminated.fetch_add(u64::from(is_terminated), Ordering::Relaxed);
        let took = self.began.elapsed();
        series.took.observe_duration(took);
        series.sli.observe_duration(took.saturating_sub(waited));
        if !matches!(series.verb, "GET" | "LIST") {
            return response;
        }
        match response.body().size_hint().exact() {
            Some(bytes) => {
                observe_size(&series, bytes);
                response
            }
            None => response.map(|body| CountedBody { body, bytes: 0, series }.boxed_unsync()),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "responses are smaller than 2^52 bytes")]
fn observe_size(series: &Series, bytes: u64) {
    series.sizes.observe(bytes as f64);
}

/// The body of a streamed response, whose size is known at its end.
struct CountedBody {
    body: ResponseBody,
    bytes: u64,
    series: Arc<Series>,
}

impl Body for CountedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let frame = std::task::ready!(Pin::new(&mut self.body).poll_frame(cx));
        if let Some(Ok(frame)) = &frame {
            self.bytes += frame.data_ref().map_or(0, Bytes::len) as u64;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for CountedBody {
    fn drop(&mut self) {
        observe_size(&self.series, self.bytes);
    }
}

/// Returns true if a request was executed; a watch over a WebSocket is answered with 101.
fn is_served(status: StatusCode) -> bool {
    status.is_success() || status == StatusCode::SWITCHING_PROTOCOLS
}

impl Drop for Running {
    fn drop(&mut self) {
        self.metrics.requests.inflight(&self.info).fetch_sub(1, Ordering::Relaxed);
        if !self.is_ended {
            let labels = Labels::of(&self.info);
            let is_known = catalog::find(labels.group, labels.version, labels.resource).is_some();
            let labels = if is_known { labels } else { labels.without_resource() };
            self.metrics.server.note_abort(&labels);
        }
    }
}

/// A running watch, counted while it lasts.
struct Watching(Arc<Series>);

impl Drop for Watching {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
        self.0.count.fetch_add(1, Ordering::Relaxed);
    }
}
