//! A client whose requests and watches are subject to random faults.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use coracle::kube::Client;
use coracle::kube::client::Body;
use coracle_apiserver::{ApiServer, CredentialScope, PeerIdentity};
use coracle_base::Rng;
use futures_util::{FutureExt, StreamExt, stream};
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, BodyStream, Full, StreamBody};
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tower::{Service, ServiceExt};

use crate::users::{self, Users};

/// Maximum number of requests, far more than any run needs. Further requests fail; otherwise a run that
/// loops without waiting would never end.
pub(crate) const MAX_REQUESTS: u64 = 20_000;

type Error = Box<dyn std::error::Error + Send + Sync>;
type Answer = Response<UnsyncBoxBody<Bytes, Error>>;

/// Random faults, and the trace of requests.
pub(crate) struct Faults {
    rng: Mutex<Rng>,
    are_enabled: AtomicBool,
    trace: Mutex<Trace>,
}

/// A digest of all requests of a run.
struct Trace {
    began: Instant,
    digest: DefaultHasher,
    requests: u64,
    is_printed: bool,
}

/// A fault of one request.
#[derive(Debug)]
enum Fault {
    /// The server responds with an internal error.
    ServerError,
    /// Another client changes the object first.
    Conflict,
    /// The request does not reach the server.
    RequestLost,
    /// The request is carried out, but its response is lost.
    ResponseLost,
    /// The request is delayed.
    Delayed(Duration),
    /// A stream ends after this many frames, in the middle of the last one.
    Cut(u64),
    /// A stream breaks off after some time.
    Broken(Duration),
    /// Each frame of a stream is delayed.
    DelayedFrames(Duration),
}

impl Faults {
    pub(crate) fn new(rng: Rng, trace: bool) -> Arc<Self> {
        let began = Instant::now();
        let trace = Trace { began, digest: DefaultHasher::new(), requests: 0, is_printed: trace };
        Arc::new(Self { rng: Mutex::new(rng), are_enabled: AtomicBool::new(true), trace: Mutex::new(trace) })
    }

    /// Switches all faults off.
    pub(crate) fn disable(&self) {
        self.are_enabled.store(false, Ordering::Relaxed);
    }

    fn are_too_many(&self) -> bool {
        self.trace.lock().unwrap().requests >= MAX_REQUESTS
    }

    /// The digest and the number of all requests so far.
    pub(crate) fn digest(&self) -> (u64, u64) {
        let trace = self.trace.lock().unwrap();
        (trace.digest.finish(), trace.requests)
    }

    /// A client of one component.
    pub(crate) fn client(
        self: &Arc<Self>,
        server: &ApiServer,
        user: &str,
        program: &'static str,
        connection: &Connection,
    ) -> Client {
        let transport = Transport {
            server: server.clone(),
            peer: users::identity(user),
            program: HeaderValue::from_static(program),
            faults: Arc::clone(self),
            connection: connection.clone(),
        };
        Client::new(transport, "default")
    }

    fn next(&self, request: &Request<Body>) -> Option<Fault> {
        if !self.are_enabled.load(Ordering::Relaxed) {
            return None;
        }
        let mut rng = self.rng.lock().unwrap();
        let writes = *request.method() != Method::GET;
        // An object that is being created cannot be changed by others first.
        let changes = writes && *request.method() != Method::POST;
        match rng.below(200) {
            0..5 => Some(Fault::ServerError),
            5..8 => Some(Fault::RequestLost),
            8..12 => Some(Fault::Delayed(Duration::from_millis(rng.below(3000)))),
            12..20 if changes => Some(Fault::Conflict),
            20..24 if writes => Some(Fault::ResponseLost),
            24..40 if is_watch(request) => Some(Fault::Cut(1 + rng.below(20))),
            40..54 if is_watch(request) => Some(Fault::Broken(Duration::from_millis(rng.below(30_000)))),
            54..80 if is_watch(request) => {
                Some(Fault::DelayedFrames(Duration::from_millis(1 + rng.below(400))))
            }
            _ => None,
        }
    }

    fn record(&self, line: &str) {
        let mut trace = self.trace.lock().unwrap();
        let at = trace.began.elapsed().as_millis();
        trace.requests += 1;
        (at, line).hash(&mut trace.digest);
        if trace.is_printed {
            eprintln!("{at:>8} {line}");
        }
    }
}

#[derive(Clone)]
struct Transport {
    server: ApiServer,
    peer: PeerIdentity,
    program: HeaderValue,
    faults: Arc<Faults>,
    connection: Connection,
}

/// The connection between a component and the server. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Connection(Arc<Mutex<CancellationToken>>);

impl Connection {
    /// Breaks off open streams, and fails further requests.
    pub(crate) fn cut(&self) {
        self.now().cancel();
    }

    pub(crate) fn restore(&self) {
        let mut now = self.0.lock().unwrap();
        if now.is_cancelled() {
            *now = CancellationToken::new();
        }
    }

    /// Cancelled when the connection is cut.
    fn now(&self) -> CancellationToken {
        self.0.lock().unwrap().clone()
    }
}

impl Service<Request<Body>> for Transport {
    type Response = Answer;
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Result<Answer, Error>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        request.extensions_mut().insert(self.peer.clone());
        request.extensions_mut().insert(CredentialScope::AllClusters);
        request.headers_mut().entry(header::USER_AGENT).or_insert_with(|| self.program.clone());
        let (server, faults, cut) = (self.server.clone(), Arc::clone(&self.faults), self.connection.now());
        let is_cut = cut.is_cancelled() || faults.are_too_many();
        let fault = if is_cut { Some(Fault::RequestLost) } else { faults.next(&request) };
        async move {
            let request_line = format!("{} {} {fault:?}", request.method(), request.uri());
            let lasts = is_watch(&request);
            let answer = apply_fault(server, request, fault).await;
            let answer = if lasts { answer.map(|answer| until_cut(answer, cut)) } else { answer };
            let code = answer.as_ref().map_or(0, |answer| answer.status().as_u16());
            faults.record(&format!("{code:>3} {request_line}"));
            answer
        }
        .boxed()
    }
}

async fn apply_fault(
    server: ApiServer,
    request: Request<Body>,
    fault: Option<Fault>,
) -> Result<Answer, Error> {
    let carry_out = async |request| -> Result<Answer, Error> {
        let Ok(answer) = server.clone().oneshot(request).await;
        Ok(answer.map(|body| body.map_err(|never| match never {}).boxed_unsync()))
    };
    match fault {
        None => carry_out(request).await,
        Some(Fault::ServerError) => Ok(status(StatusCode::INTERNAL_SERVER_ERROR, "InternalError")),
        Some(Fault::Conflict) => {
            touch(&server, request.uri().path()).await;
            carry_out(request).await
        }
        Some(Fault::RequestLost) => Err("the connection was reset".into()),
        Some(Fault::ResponseLost) => {
            carry_out(request).await?;
            Err("the answer was lost".into())
        }
        Some(Fault::Delayed(delay)) => {
            tokio::time::sleep(delay).await;
            carry_out(request).await
        }
        Some(Fault::Cut(pieces)) => Ok(carry_out(request).await?.map(|body| {
            let last = pieces - 1;
            let pieces = BodyStream::new(body).zip(stream::iter(0..pieces));
            let frames = pieces
                .map(move |(frame, at)| frame.map(|frame| if at == last { half(frame) } else { frame }));
            StreamBody::new(frames).boxed_unsync()
        })),
        Some(Fault::Broken(after)) => Ok(carry_out(request).await?.map(|body| {
            let frames = BodyStream::new(body).take_until(tokio::time::sleep(after));
            StreamBody::new(frames.chain(stream::once(async { Err("the connection was reset".into()) })))
                .boxed_unsync()
        })),
        Some(Fault::DelayedFrames(delay)) => Ok(carry_out(request).await?.map(|body| {
            let frames = BodyStream::new(body).then(move |frame| async move {
                tokio::time::sleep(delay).await;
                frame
            });
            StreamBody::new(frames).boxed_unsync()
        })),
    }
}

/// The first half of a frame.
fn half(frame: Frame<Bytes>) -> Frame<Bytes> {
    frame.map_data(|data| data.slice(..data.len() / 2))
}

/// A response that breaks off with the connection.
fn until_cut(answer: Answer, cut: CancellationToken) -> Answer {
    answer.map(|body| StreamBody::new(BodyStream::new(body).take_until(cut.cancelled_owned())).boxed_unsync())
}

/// Changes an annotation of an object. It may be gone.
async fn touch(server: &ApiServer, path: &str) {
    let patch = json!({"metadata": {"annotations": {"simulation/touched": path}}});
    Users::new(server).patch(&object_of(path), &patch).await;
}

/// The path of an object, without its subresource.
fn object_of(path: &str) -> String {
    let segments: Vec<_> = path.split('/').collect();
    let version = if segments[1] == "api" { 2 } else { 3 };
    let is_namespaced = segments[version + 1] == "namespaces" && segments.len() > version + 4;
    let length = version + if is_namespaced { 5 } else { 3 };
    segments[..length.min(segments.len())].join("/")
}

fn is_watch(request: &Request<Body>) -> bool {
    request.uri().query().is_some_and(|query| query.contains("watch=true"))
}

fn status(code: StatusCode, reason: &str) -> Answer {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "by chance",
        "reason": reason, "code": code.as_u16(),
    });
    let body = Full::from(serde_json::to_vec(&status).unwrap()).map_err(|never| match never {});
    let mut answer = Response::new(body.boxed_unsync());
    *answer.status_mut() = code;
    answer
}
