//! Request and response bodies, and the size and time limits of requests.

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use coracle_base::OnDeepStack;
use coracle_base::deep_stack;
use http::{Request, header};
use http_body::{Body, Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, Limited};
use tokio::time::Instant;

use crate::flow::{Bodies, BodiesFull, Reservation};
use crate::status::Refusal;

/// The largest request body, as in kube-apiserver (`MaxRequestBodyBytes` in `pkg/server/config.go` of
/// k8s.io/apiserver): twice etcd's default request limit, so that an object that fits the store fits here in any
/// encoding. Larger bodies are rejected with 413.
pub const MAX_REQUEST_BODY_BYTES: usize = 3 * 1024 * 1024;

/// How long the body of a request may take to arrive, which is the request timeout of kube-apiserver. Then the request
/// is rejected with 504.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a client may pause while it sends a body: ten round trips of a bad connection. Then the request is
/// rejected with 504, so that a client that stops sending holds its bytes for a short time only.
const READ_STALL: Duration = Duration::from_secs(10);

/// The body of every response: complete in memory, or a stream of events.
pub type ResponseBody = UnsyncBoxBody<Bytes, Infallible>;

/// Marks a response, in its extensions, whose body lasts until one side ends it. The server ends these at its
/// shutdown and does not wait for clients that do not read them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LongRunning;

/// A response body that is complete in memory.
pub(crate) fn full(bytes: impl Into<Bytes>) -> ResponseBody {
    Full::new(bytes.into()).boxed_unsync()
}

/// Returns a body that is polled and dropped on the deep stack, because its frames are encoded from objects.
pub(crate) fn on_deep_stack(body: ResponseBody) -> ResponseBody {
    // A body of known size consists of bytes that are encoded already.
    if body.size_hint().exact().is_some() { body } else { DeepBody(OnDeepStack::new(body)).boxed_unsync() }
}

struct DeepBody(OnDeepStack<ResponseBody>);

impl Body for DeepBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let body = Pin::new(self.0.value_mut());
        deep_stack::run(|| body.poll_frame(cx))
    }

    fn is_end_stream(&self) -> bool {
        self.0.value().is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.value().size_hint()
    }
}

/// Returns true if `Content-Length` exceeds the limit. Bodies without it are cut off while they are read.
pub(crate) fn announces_too_much<B>(request: &Request<B>) -> bool {
    let announced = request.headers().get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    let bytes = announced.and_then(|text| text.parse::<u64>().ok());
    bytes.is_some_and(|bytes| bytes > MAX_REQUEST_BODY_BYTES as u64)
}

/// A request body in memory.
#[derive(Default)]
pub(crate) struct RequestBody {
    pub(crate) bytes: Bytes,
    /// Its share of the memory for bodies; none if the body was in memory before.
    pub(crate) reservation: Option<Reservation>,
}

impl RequestBody {
    /// Returns the bytes, and the seat once it is granted. The body may be dropped from memory in favour of others
    /// until then, and is counted until the last of its bytes is dropped: requests with seats may still wait for the
    /// memory to decode it.
    pub(crate) async fn admitted<T>(
        self,
        seat: impl Future<Output = Result<T, Refusal>>,
    ) -> Result<(Bytes, T), Refusal> {
        let seat = match &self.reservation {
            Some(reservation) => reservation.while_held(seat).await??,
            None => seat.await?,
        };
        let bytes = match self.reservation {
            Some(reservation) => Bytes::from_owner(AdmittedBody::new(self.bytes, reservation)),
            None => self.bytes,
        };
        Ok((bytes, seat))
    }
}

/// The body of a request with a seat, counted as long as it is in memory.
struct AdmittedBody {
    bytes: Bytes,
    _reservation: Reservation,
}

impl AdmittedBody {
    fn new(bytes: Bytes, reservation: Reservation) -> Self {
        reservation.keep();
        Self { bytes, _reservation: reservation }
    }
}

impl AsRef<[u8]> for AdmittedBody {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Reads a whole body within the limits of size and time. If `counted` is set, its bytes count for that user.
pub(crate) async fn read<B>(
    body: B,
    counted: Option<(&Arc<Bodies>, &Arc<str>)>,
) -> Result<RequestBody, Refusal>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    if body.is_end_stream() {
        return Ok(RequestBody { bytes: Bytes::new(), reservation: None });
    }
    let announced = usize::try_from(body.size_hint().exact().unwrap_or(0)).unwrap_or(usize::MAX);
    if announced > MAX_REQUEST_BODY_BYTES {
        return Err(Refusal::too_large());
    }
    let Some((bodies, user)) = counted else {
        let bytes = receive(body, &mut |_| Ok(())).await?;
        return Ok(RequestBody { bytes, reservation: None });
    };
    let reservation = bodies.reserve(user, announced)?;
    let mut beyond = announced;
    let mut count = |bytes: usize| {
        let known = beyond.min(bytes);
        beyond -= known;
        reservation.grow(bytes - known)
    };
    let bytes = reservation.while_held(receive(body, &mut count)).await??;
    Ok(RequestBody { bytes, reservation: Some(reservation) })
}

/// Receives a body and calls `count` with the size of each chunk.
async fn receive<B>(
    body: B,
    count: &mut (dyn FnMut(usize) -> Result<(), BodiesFull> + Send),
) -> Result<Bytes, Refusal>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut body = pin!(Limited::new(body, MAX_REQUEST_BODY_BYTES));
    let deadline = Instant::now() + READ_TIMEOUT;
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    loop {
        let limit = deadline.min(Instant::now() + READ_STALL);
        let frame =
            tokio::time::timeout_at(limit, body.frame()).await.map_err(|_late| Refusal::too_slow())?;
        let data = match frame {
            None => break,
            Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
            Some(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
                return Err(Refusal::too_large());
            }
            Some(Err(error)) => {
                return Err(Refusal::bad_request(format!("cannot read the request body: {error}")));
            }
        };
        count(data.len())?;
        // Most bodies arrive in one piece and are not copied.
        if first.is_empty() && rest.is_empty() {
            first = data;
        } else {
            if rest.is_empty() {
                rest.extend_from_slice(&std::mem::take(&mut first));
            }
            rest.extend_from_slice(&data);
        }
    }
    Ok(if rest.is_empty() { first } else { rest.freeze() })
}

impl From<BodiesFull> for Refusal {
    fn from(_: BodiesFull) -> Self {
        Self::too_many_requests()
    }
}

/// A body that owns a value until the body ends or is dropped.
pub(crate) struct Held<B, T> {
    body: B,
    _held: T,
}

impl<B, T> Held<B, T> {
    pub(crate) fn new(body: B, held: T) -> Self {
        Self { body, _held: held }
    }
}

impl<B: Body + Unpin, T: Unpin> Body for Held<B, T> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::StreamBody;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn body_that_stops_arriving_is_rejected() {
        let never = futures_util::stream::pending::<Result<Frame<Bytes>, Infallible>>();
        let began = Instant::now();
        let refusal = read(StreamBody::new(never), None).await.err().expect("a refusal");
        assert_eq!(began.elapsed(), READ_STALL);
        assert_eq!(refusal.into_response(None).status(), 504);
    }

    #[tokio::test(start_paused = true)]
    async fn body_that_trickles_is_rejected_at_the_deadline() {
        let trickle = futures_util::stream::unfold((), |()| async {
            tokio::time::sleep(READ_STALL / 2).await;
            Some((Ok::<_, Infallible>(Frame::data(Bytes::from_static(b"x"))), ()))
        });
        let began = Instant::now();
        let (bodies, user) = (Arc::<Bodies>::default(), Arc::from("user"));
        let refusal = read(StreamBody::new(trickle), Some((&bodies, &user))).await.err().expect("a refusal");
        assert_eq!(began.elapsed(), READ_TIMEOUT);
        assert_eq!(refusal.into_response(None).status(), 504);
    }

    #[tokio::test]
    async fn body_in_pieces_is_read_whole() {
        let pieces = ["a", "b", "c"].map(|piece| Ok::<_, Infallible>(Frame::data(Bytes::from(piece))));
        let body = StreamBody::new(futures_util::stream::iter(pieces));
        let (bodies, user) = (Arc::<Bodies>::default(), Arc::from("user"));
        let body = read(body, Some((&bodies, &user))).await.expect("a body");
        assert_eq!(body.bytes, "abc");
    }
}
