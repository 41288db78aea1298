//! Fairness: how many requests are carried out at once, and whose turn is next.
//!
//! Requests have seats. Everybody gets one as long as some are free and not too many are their own; then
//! their requests wait behind each other, in a queue of their own, and users take turns. So whoever asks
//! for too much waits for themselves and not others for them. This is the heart of upstream's priority
//! and fairness with one level and one queue for each user; its levels and schemas are not looked at.
//!
//! Watches have a seat until they begin, and are then counted apart, as are other requests that last.

mod seats;

use std::sync::Arc;
use std::time::Duration;

use coracle_registry::Identity;
use http::Response;
use http_body::Body;
use http_body_util::BodyExt;

use crate::authorization::is_master;
use crate::body::{Held, ResponseBody};
use crate::status::Refusal;
pub(crate) use seats::Seat;
use seats::{Full, Place, Seats};

/// How many requests are carried out at once, and how many wait.
#[derive(Clone, Copy, Debug)]
pub struct FlowLimits {
    /// Requests that are carried out at once, of all users that are not exempt. Further ones wait.
    pub requests: usize,
    /// Of these, those of one user. Further ones wait.
    pub requests_per_user: usize,
    /// Requests of one user that wait. Further ones are refused with 429.
    pub waiting_per_user: usize,
    /// Requests of all users that wait. Further ones are refused with 429.
    pub waiting: usize,
    /// How long a request waits. Then it is refused with 429.
    pub wait: Duration,
    /// Watches and other requests of one user that last. Further ones are refused with 429.
    pub long_running_per_user: usize,
}

impl Default for FlowLimits {
    fn default() -> Self {
        Self {
            // Upstream's `--max-requests-inflight` and `--max-mutating-requests-inflight` together.
            requests: 600,
            // A third, so that two who ask for too much leave something to others; and enough that writes
            // of one user share their syncs.
            requests_per_user: 200,
            // Clients with more than a thousand requests under way should be told to slow down.
            waiting_per_user: 1000,
            // A few KiB each while they wait: their bodies have not been read.
            waiting: 16_384,
            // A quarter of the time a request may take, as in upstream.
            wait: Duration::from_secs(15),
            // A controller watches some hundred things at most. A watch costs some KiB.
            long_running_per_user: 10_000,
        }
    }
}

/// Gives requests their seats. Cheap to clone.
#[derive(Clone)]
pub(crate) struct FlowControl {
    seats: Arc<Seats>,
    wait: Duration,
}

impl Default for FlowControl {
    fn default() -> Self {
        Self::new(&FlowLimits::default())
    }
}

impl FlowControl {
    pub(crate) fn new(limits: &FlowLimits) -> Self {
        Self { seats: Arc::new(Seats::new(limits)), wait: limits.wait }
    }

    /// A seat for a request of somebody, maybe after a while; none for those who need none.
    pub(crate) async fn enter(&self, identity: &Identity) -> Result<Option<Seat>, Refusal> {
        // Administrators wait for nobody: upstream's flow schema `exempt`.
        if is_master(identity) {
            return Ok(None);
        }
        match self.seats.take(&identity.name)? {
            Place::Seat(seat) => Ok(Some(seat)),
            Place::Queue(waiting) => {
                let seat = tokio::time::timeout(self.wait, waiting).await.map_err(|_late| Full)?;
                Ok(Some(seat))
            }
        }
    }

    /// An answer to somebody. Its seat is free now, or when the last of the answer has gone if that is
    /// still being made. What lasts as long as somebody listens is counted apart, without a seat.
    pub(crate) fn leave(
        &self,
        seat: Option<Seat>,
        identity: &Identity,
        lasts: bool,
        response: Response<ResponseBody>,
    ) -> Result<Response<ResponseBody>, Refusal> {
        let Some(seat) = seat else { return Ok(response) };
        if response.body().size_hint().exact().is_some() {
            return Ok(response);
        }
        if !lasts {
            return Ok(response.map(|body| Held::new(body, seat).boxed_unsync()));
        }
        let lasting = self.seats.last(&identity.name)?;
        Ok(response.map(|body| Held::new(body, lasting).boxed_unsync()))
    }
}

impl From<Full> for Refusal {
    fn from(_: Full) -> Self {
        Self::too_many_requests()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use bytes::Bytes;
    use http_body::Frame;
    use http_body_util::StreamBody;

    use super::*;

    fn control() -> FlowControl {
        FlowControl::new(&FlowLimits {
            requests: 2,
            requests_per_user: 1,
            waiting_per_user: 1,
            long_running_per_user: 1,
            ..FlowLimits::default()
        })
    }

    fn user(name: &str) -> Identity {
        Identity { name: name.to_owned(), ..Identity::default() }
    }

    /// An answer whose end is not known beforehand.
    fn endless() -> Response<ResponseBody> {
        let never = futures_util::stream::pending::<Result<Frame<Bytes>, Infallible>>();
        Response::new(StreamBody::new(never).boxed_unsync())
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_too_long_is_refused() {
        let (control, somebody) = (control(), user("a"));
        let _seat = control.enter(&somebody).await.ok().flatten().expect("a seat");
        let began = tokio::time::Instant::now();
        let refusal = control.enter(&somebody).await.err().expect("a refusal");
        assert_eq!(began.elapsed(), FlowLimits::default().wait);
        let response = refusal.into_response(None);
        assert_eq!(response.status(), 429);
        assert_eq!(response.headers()["retry-after"], "1");
    }

    #[tokio::test]
    async fn administrators_wait_for_nobody() {
        let control = control();
        let masters = Identity { groups: vec!["system:masters".to_owned()], ..user("a") };
        for _ in 0..10 {
            assert!(control.enter(&masters).await.is_ok_and(|seat| seat.is_none()));
        }
    }

    #[tokio::test]
    async fn an_answer_keeps_its_seat_until_it_has_gone_but_a_watch_does_not() {
        let (control, somebody) = (control(), user("a"));
        let seat = control.enter(&somebody).await.expect("no refusal");
        let list = control.leave(seat, &somebody, false, endless()).expect("no refusal");
        assert!(matches!(control.seats.take("a"), Ok(Place::Queue(_))));
        drop(list);
        let seat = control.enter(&somebody).await.expect("no refusal");
        let watch = control.leave(seat, &somebody, true, endless()).expect("no refusal");
        let seat = control.enter(&somebody).await.expect("no refusal");
        assert!(control.leave(seat, &somebody, true, endless()).is_err(), "it may have one watch");
        drop(watch);
        let seat = control.enter(&somebody).await.expect("no refusal");
        assert!(control.leave(seat, &somebody, true, endless()).is_ok());
    }
}
