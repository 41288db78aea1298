//! Who has a seat, who waits for one, and whose turn is next.
//!
//! All of it is under one lock that is held for a few instructions, and for no longer than it takes to
//! seat those for whom there is room.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::sync::oneshot;

use super::FlowLimits;

/// Users of whom nothing is under way are remembered as long as there are no more than these, or than
/// there are others: who asks once asks again.
const IDLE_USERS: usize = 1024;

/// There is no room, not even to wait.
#[derive(Debug)]
pub(super) struct Full;

/// Where a request may go.
pub(super) enum Place {
    Seat(Seat),
    Queue(Waiting),
}

/// All seats.
pub(super) struct Seats {
    per_user: usize,
    waiting_per_user: usize,
    waiting: usize,
    state: Mutex<State>,
}

struct State {
    free: usize,
    waiting: usize,
    /// Those who have anything, or had: a seat, somebody waiting, something that lasts, or a turn.
    users: HashMap<Arc<str>, User>,
    /// When there are so many, those who have nothing are forgotten.
    forget_at: usize,
    /// Users with requests that only wait for a free seat, in the order of their turns.
    turns: VecDeque<Arc<str>>,
    /// Tells apart those who wait.
    next_ticket: u64,
}

struct User {
    /// The same words as the key.
    name: Arc<str>,
    seated: usize,
    queue: VecDeque<(u64, oneshot::Sender<()>)>,
    has_turn: bool,
}

impl User {
    fn new(name: Arc<str>) -> Self {
        Self { name, seated: 0, queue: VecDeque::new(), has_turn: false }
    }

    fn is_idle(&self) -> bool {
        self.seated == 0 && self.queue.is_empty() && !self.has_turn
    }
}

impl Seats {
    pub(super) fn new(limits: &FlowLimits) -> Self {
        let state = State {
            free: limits.requests,
            waiting: 0,
            users: HashMap::new(),
            forget_at: IDLE_USERS,
            turns: VecDeque::new(),
            next_ticket: 0,
        };
        Self {
            per_user: limits.requests_per_user,
            waiting_per_user: limits.waiting_per_user,
            waiting: limits.waiting,
            state: Mutex::new(state),
        }
    }

    /// A seat, or a place in the queue.
    pub(super) fn take(self: &Arc<Self>, name: &str) -> Result<Place, Full> {
        let mut state = self.lock();
        state.meet(name);
        let State { free, waiting, users, turns, next_ticket, .. } = &mut *state;
        let Some(user) = users.get_mut(name) else { return Err(Full) };
        let may_sit = user.queue.is_empty() && user.seated < self.per_user;
        if may_sit && *free > 0 {
            *free -= 1;
            user.seated += 1;
            return Ok(Place::Seat(Seat { seats: self.clone(), user: user.name.clone() }));
        }
        if user.queue.len() >= self.waiting_per_user || *waiting >= self.waiting {
            return Err(Full);
        }
        let (sender, called) = oneshot::channel();
        let ticket = *next_ticket;
        *next_ticket += 1;
        *waiting += 1;
        user.queue.push_back((ticket, sender));
        if user.seated < self.per_user && !user.has_turn {
            user.has_turn = true;
            turns.push_back(user.name.clone());
        }
        let user = user.name.clone();
        Ok(Place::Queue(Waiting { seats: self.clone(), user, ticket, called, is_over: false }))
    }

    /// A seat is free again.
    fn stand_up(&self, name: &Arc<str>) {
        let mut state = self.lock();
        state.free += 1;
        self.after(&mut state, name, |user| user.seated -= 1);
        self.seat_next(&mut state);
    }

    /// Changes what is known of a user, who may have a turn then.
    fn after(&self, state: &mut State, name: &Arc<str>, change: impl FnOnce(&mut User)) {
        let Some(user) = state.users.get_mut(name) else { return };
        change(user);
        if !user.queue.is_empty() && user.seated < self.per_user && !user.has_turn {
            user.has_turn = true;
            state.turns.push_back(name.clone());
        }
    }

    /// Gives free seats to those whose turn it is, one each.
    fn seat_next(&self, state: &mut State) {
        while state.free > 0
            && let Some(name) = state.turns.pop_front()
        {
            let Some(user) = state.users.get_mut(&name) else { continue };
            user.has_turn = false;
            // Whoever waited may have gone.
            let Some((_, sender)) = user.queue.pop_front() else { continue };
            user.seated += 1;
            state.free -= 1;
            state.waiting -= 1;
            // Whoever has gone away meanwhile gives the seat back when it sees that it is no longer in the queue.
            let _ = sender.send(());
            self.after(state, &name, |_| {});
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Makes sure that a user is known.
    fn meet(&mut self, name: &str) {
        if self.users.contains_key(name) {
            return;
        }
        if self.users.len() >= self.forget_at {
            self.users.retain(|_, user| !user.is_idle());
            self.forget_at = IDLE_USERS.max(2 * self.users.len());
        }
        let name: Arc<str> = name.into();
        self.users.insert(name.clone(), User::new(name));
    }
}

/// The seat of a request. Free again when it is dropped.
pub(crate) struct Seat {
    seats: Arc<Seats>,
    user: Arc<str>,
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.seats.stand_up(&self.user);
    }
}

/// A place in a queue. Gives it up when it is dropped.
pub(super) struct Waiting {
    seats: Arc<Seats>,
    user: Arc<str>,
    ticket: u64,
    called: oneshot::Receiver<()>,
    is_over: bool,
}

impl Future for Waiting {
    type Output = Seat;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Seat> {
        // The other end is dropped only after it was used, or by ourselves.
        Pin::new(&mut self.called).poll(cx).map(|_called| {
            self.is_over = true;
            Seat { seats: self.seats.clone(), user: self.user.clone() }
        })
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let mut state = self.seats.lock();
        let Some(user) = state.users.get_mut(&self.user) else { return };
        let place = user.queue.iter().position(|(ticket, _)| *ticket == self.ticket);
        match place.and_then(|place| user.queue.remove(place)) {
            Some(_) => {
                state.waiting -= 1;
                self.seats.after(&mut state, &self.user, |_| {});
            }
            // The seat came just now.
            None => {
                drop(state);
                self.seats.stand_up(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::Waker;

    use super::*;

    fn seats(requests: usize, per_user: usize, waiting_per_user: usize) -> Arc<Seats> {
        let limits = FlowLimits {
            requests,
            requests_per_user: per_user,
            waiting_per_user,
            waiting: 8,
            long_running_per_user: 2,
            ..FlowLimits::default()
        };
        Arc::new(Seats::new(&limits))
    }

    fn seated(seats: &Arc<Seats>, name: &str) -> Seat {
        match seats.take(name).unwrap() {
            Place::Seat(seat) => seat,
            Place::Queue(_) => panic!("{name} has to wait"),
        }
    }

    fn waiting(seats: &Arc<Seats>, name: &str) -> Waiting {
        match seats.take(name).unwrap() {
            Place::Queue(waiting) => waiting,
            Place::Seat(_) => panic!("{name} need not wait"),
        }
    }

    fn polled(waiting: &mut Waiting) -> Option<Seat> {
        match pin!(waiting).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(seat) => Some(seat),
            Poll::Pending => None,
        }
    }

    #[test]
    fn who_has_too_many_waits_and_others_do_not() {
        let seats = seats(3, 2, 2);
        let first = seated(&seats, "flood");
        let _second = seated(&seats, "flood");
        let mut third = waiting(&seats, "flood");
        let _fourth = waiting(&seats, "flood");
        assert!(seats.take("flood").is_err(), "the queue is full");
        let _other = seated(&seats, "other");
        assert!(polled(&mut third).is_none());
        drop(first);
        assert!(polled(&mut third).is_some());
    }

    #[test]
    fn users_take_turns() {
        let seats = seats(1, 1, 4);
        let mut seat = seated(&seats, "x");
        let mut queue: Vec<(&str, Waiting)> = Vec::new();
        for name in ["a", "a", "a", "b", "c", "b"] {
            queue.push((name, waiting(&seats, name)));
        }
        let mut order = Vec::new();
        while !queue.is_empty() {
            drop(seat);
            let called = queue
                .iter_mut()
                .enumerate()
                .find_map(|(place, (_, waiting))| polled(waiting).map(|seat| (place, seat)));
            let (place, next) = called.expect("somebody is called");
            seat = next;
            order.push(queue.remove(place).0);
        }
        assert_eq!(order, ["a", "b", "c", "a", "b", "a"]);
    }

    #[test]
    fn who_goes_away_holds_nothing() {
        let seats = seats(1, 1, 4);
        let seat = seated(&seats, "a");
        let (leaves, called, mut stays) = (waiting(&seats, "a"), waiting(&seats, "b"), waiting(&seats, "c"));
        drop(leaves);
        drop(seat);
        // It was called, and goes before it notices.
        drop(called);
        drop(polled(&mut stays).expect("the seat is passed on"));
        drop(stays);
        let state = seats.lock();
        assert_eq!((state.free, state.waiting, state.turns.len()), (1, 0, 0));
        assert!(state.users.values().all(User::is_idle));
    }

    #[test]
    fn all_queues_together_are_bounded() {
        let seats = seats(1, 1, 8);
        let _seat = seated(&seats, "a");
        let names: Vec<String> = (0..8).map(|number| number.to_string()).collect();
        let _waiting: Vec<Waiting> = names.iter().map(|name| waiting(&seats, name)).collect();
        assert!(seats.take("one more").is_err());
    }

    /// Whatever happens in whatever order, nothing is lost and nobody waits while there is room for them.
    #[test]
    fn seats_are_neither_lost_nor_made() {
        let mut rng = coracle_base::Rng::seeded(7);
        let limits = (3, 2);
        let seats = seats(limits.0, limits.1, 3);
        let mut taken: Vec<Seat> = Vec::new();
        let mut queued: Vec<Waiting> = Vec::new();
        for _ in 0..20_000 {
            match rng.below(4) {
                0 | 1 => match seats.take(["a", "b", "c", "d"][rng.below(4) as usize]) {
                    Ok(Place::Seat(seat)) => taken.push(seat),
                    Ok(Place::Queue(waiting)) => queued.push(waiting),
                    Err(Full) => {}
                },
                2 if !taken.is_empty() => drop(taken.swap_remove(rng.below(taken.len() as u64) as usize)),
                3 if !queued.is_empty() => drop(queued.swap_remove(rng.below(queued.len() as u64) as usize)),
                _ => {}
            }
            let mut index = 0;
            while index < queued.len() {
                match polled(&mut queued[index]) {
                    Some(seat) => {
                        drop(queued.swap_remove(index));
                        taken.push(seat);
                    }
                    None => index += 1,
                }
            }
            let state = seats.lock();
            assert_eq!(state.free + taken.len(), limits.0);
            assert_eq!(state.waiting, queued.len());
            let starved = |user: &User| !user.queue.is_empty() && user.seated < limits.1;
            assert!(state.free == 0 || !state.users.values().any(starved));
            assert!(state.users.values().all(|user| user.seated <= limits.1));
        }
    }
}
