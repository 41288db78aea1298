//! Fairness: how many requests are carried out at once, and whose turn is next.
//!
//! Requests have seats. Everybody gets one as long as some are free and not too many are their own; then
//! their requests wait behind each other, in a queue of their own, and users take turns. So whoever asks
//! for too much waits for themselves and not others for them. This is the heart of upstream's priority
//! and fairness with one level and one queue for each user; its levels and schemas are not looked at.
//!
//! Watches have a seat until they begin, and are then counted apart, as are other requests that last.

mod bodies;
mod seats;
mod unread;
mod users;

use std::sync::Arc;
use std::time::Duration;

use coracle_registry::{Cluster, Identity};
use http::Response;
use http_body::Body;
use http_body_util::BodyExt;

use crate::authorization::is_master;
use crate::body::{Held, ResponseBody};
use crate::status::Refusal;
pub(crate) use bodies::{Bodies, BodiesFull, Reservation};
pub(crate) use seats::Seat;
use seats::{Full, Place, Seats};
pub(crate) use unread::{Charge, Unread, Verdict};
use users::{User, Users};

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
    bodies: Arc<Bodies>,
    users: Arc<Users>,
    wait: Duration,
    long_running_per_user: usize,
}

/// Whom a request counts for: the authenticated user, whomever it impersonates.
pub(crate) struct FlowClient {
    /// Cluster and name: users of two clusters may have the same name.
    key: Arc<str>,
    user: Arc<User>,
    /// None within the process.
    unread: Option<Arc<Unread>>,
}

impl FlowClient {
    pub(crate) fn key(&self) -> &Arc<str> {
        &self.key
    }

    /// Whether the request came over a connection.
    pub(crate) fn is_remote(&self) -> bool {
        self.unread.is_some()
    }
}

impl Default for FlowControl {
    fn default() -> Self {
        Self::new(&FlowLimits::default())
    }
}

impl FlowControl {
    pub(crate) fn new(limits: &FlowLimits) -> Self {
        Self {
            seats: Arc::new(Seats::new(limits)),
            bodies: Arc::default(),
            users: Arc::default(),
            wait: limits.wait,
            long_running_per_user: limits.long_running_per_user,
        }
    }

    /// What counts the bytes of request bodies.
    pub(crate) fn bodies(&self) -> &Arc<Bodies> {
        &self.bodies
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

    /// Whom a request counts for. A user that has left too much of its responses unread is rejected.
    pub(crate) fn client(
        &self,
        cluster: &Cluster,
        caller: &Identity,
        unread: Option<Arc<Unread>>,
        lasts: bool,
    ) -> Result<FlowClient, Refusal> {
        let key: Arc<str> = format!("{}/{}", cluster.id(), caller.name).into();
        let user = self.users.get(&key);
        if let Some(unread) = &unread {
            if user.is_saturated() {
                return Err(Refusal::too_many_requests());
            }
            unread.belongs_to(user.clone(), lasts);
        }
        Ok(FlowClient { key, user, unread })
    }

    /// The response. Its seat is free now, or when the last of the response has gone if that is still being made.
    /// A response that lasts as long as its client likes is counted apart, without a seat.
    pub(crate) fn leave(
        &self,
        seat: Option<Seat>,
        client: FlowClient,
        lasts: bool,
        response: Response<ResponseBody>,
    ) -> Result<Response<ResponseBody>, Refusal> {
        if response.body().size_hint().exact().is_some() {
            return Ok(response);
        }
        match seat {
            None => Ok(response),
            Some(_) if lasts => {
                let running = client.user.begin_long_running(self.long_running_per_user).ok_or(Full)?;
                Ok(response.map(|body| Held::new(body, running).boxed_unsync()))
            }
            Some(seat) => match client.unread {
                Some(unread) => {
                    unread.hold_seat(seat);
                    Ok(response)
                }
                None => Ok(response.map(|body| Held::new(body, seat).boxed_unsync())),
            },
        }
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

    fn client(control: &FlowControl, name: &str, lasts: bool) -> FlowClient {
        let registry = coracle_registry::Registry::in_memory();
        control.client(&registry.cluster("test").unwrap(), &user(name), None, lasts).ok().unwrap()
    }

    #[tokio::test]
    async fn response_keeps_its_seat_until_it_has_gone_but_a_watch_does_not() {
        let (control, somebody) = (control(), user("a"));
        let seat = control.enter(&somebody).await.expect("no refusal");
        let list = control.leave(seat, client(&control, "a", false), false, endless()).expect("no refusal");
        assert!(matches!(control.seats.take("a"), Ok(Place::Queue(_))));
        drop(list);
        let seat = control.enter(&somebody).await.expect("no refusal");
        let watch = control.leave(seat, client(&control, "a", true), true, endless()).expect("no refusal");
        let seat = control.enter(&somebody).await.expect("no refusal");
        assert!(control.leave(seat, client(&control, "a", true), true, endless()).is_err(), "one watch");
        drop(watch);
        let seat = control.enter(&somebody).await.expect("no refusal");
        assert!(control.leave(seat, client(&control, "a", true), true, endless()).is_ok());
    }
}
