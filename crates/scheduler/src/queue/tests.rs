//! Who comes when, with times given by hand.

use std::time::Duration;

use super::*;

const SECOND: Duration = Duration::from_secs(1);
const START: Timestamp = Timestamp::from_millis(1_000_000);

fn queue() -> Queue {
    Queue::new(Backoff { initial: SECOND, max: 10 * SECOND, parked_at_most: 300 * SECOND })
}

fn pod(name: &str, priority: i32) -> Arc<Pod> {
    let mut pod = Pod { priority, ..Pod::default() };
    pod.metadata.name = name.into();
    pod.metadata.uid = name.into();
    Arc::new(pod)
}

fn plugin(place: usize) -> PluginSet {
    [place].into_iter().collect()
}

/// The pods that can be tried, one after the other.
fn popped(queue: &mut Queue, now: Timestamp) -> Vec<String> {
    std::iter::from_fn(|| queue.pop(now)).map(|popped| popped.pod.metadata.name.to_string()).collect()
}

#[test]
fn the_most_important_comes_first_and_then_who_waited_longest() {
    let mut queue = queue();
    queue.add(pod("late", 0), 0, false, START + SECOND);
    queue.add(pod("first", 0), 0, false, START);
    queue.add(pod("second", 0), 0, false, START);
    queue.add(pod("important", 9), 0, false, START + 2 * SECOND);
    queue.add(pod("gated", 99), 0, true, START);
    assert_eq!(popped(&mut queue, START + 3 * SECOND), ["important", "first", "second", "late"]);
    assert!(queue.is_in_flight("late") && queue.is_gated("gated"));
    queue.wake_one("gated", START + 3 * SECOND);
    assert_eq!(popped(&mut queue, START + 3 * SECOND), ["gated"]);
}

#[test]
fn a_refused_pod_waits_for_what_may_help_it() {
    let mut queue = queue();
    for (name, place) in [("a", 1), ("b", 2)] {
        queue.add(pod(name, 0), 0, false, START);
        queue.pop(START).unwrap();
        queue.refused(name, plugin(place), START);
    }
    assert!(queue.pop(START + 60 * SECOND).is_none());
    assert_eq!(queue.refusal_of("b").unwrap().plugins, plugin(2));
    let wants = |refusal: Refusal| refusal.plugins.meets(plugin(2));
    queue.wake(START + 60 * SECOND, wants, |_, _| false);
    assert!(!queue.is_ready());
    queue.wake(START + 60 * SECOND, wants, |_, _| true);
    assert_eq!(popped(&mut queue, START + 60 * SECOND), ["b"]);
    assert_eq!(queue.waiting(), 1);
}

#[test]
fn who_was_refused_often_comes_after_those_who_were_not() {
    let mut queue = queue();
    queue.add(pod("again", 5), 0, false, START);
    queue.pop(START).unwrap();
    queue.refused("again", plugin(1), START);
    queue.wake_one("again", START + SECOND / 2);
    queue.add(pod("new", 0), 0, false, START + SECOND / 2);
    assert_eq!(popped(&mut queue, START + SECOND / 2), ["new", "again"], "nothing else was to be done");
    queue.refused("again", plugin(1), START + SECOND);
    queue.wake_one("again", START + SECOND);
    queue.add(pod("newer", 0), 0, false, START + SECOND);
    // The second time it waits two seconds, and the one in which that ends.
    let over = START + 4 * SECOND;
    assert_eq!(popped(&mut queue, over), ["again", "newer"]);
}

#[test]
fn what_failed_is_not_tried_before_its_time() {
    let mut queue = queue();
    queue.add(pod("a", 0), 0, false, START);
    let mut now = START;
    for wait in [1, 2, 4, 8, 10, 10] {
        queue.pop(now).unwrap();
        queue.failed("a", now);
        assert_eq!(queue.deadline(), Some(now + wait * SECOND));
        assert!(queue.pop(now).is_none());
        now = now + wait * SECOND;
    }
    assert_eq!(popped(&mut queue, now), ["a"]);
}

#[test]
fn a_parked_pod_is_not_forgotten_for_ever() {
    let mut queue = queue();
    queue.add(pod("a", 0), 0, false, START);
    queue.pop(START).unwrap();
    queue.refused("a", PluginSet::default(), START);
    assert_eq!(queue.deadline(), Some(START + 300 * SECOND));
    assert!(queue.pop(START + 299 * SECOND).is_none());
    assert_eq!(popped(&mut queue, START + 300 * SECOND), ["a"]);
}

#[test]
fn a_pod_that_is_gone_is_nowhere() {
    let mut queue = queue();
    for (name, put) in [
        ("active", (|_, _| {}) as fn(&mut Queue, &str)),
        ("parked", |queue, name| {
            queue.pop(START).unwrap();
            queue.refused(name, plugin(1), START);
        }),
        ("backing-off", |queue, name| {
            queue.pop(START).unwrap();
            queue.retry(name, plugin(1), START);
        }),
        ("failed", |queue, name| {
            queue.pop(START).unwrap();
            queue.failed(name, START);
        }),
    ] {
        queue.add(pod(name, 0), 0, false, START);
        put(&mut queue, name);
        assert!(queue.get(name).is_some());
        assert!(queue.remove(name).is_some());
        assert!(queue.is_empty() && !queue.is_ready() && queue.waiting() == 0, "{name}");
        assert_eq!(queue.deadline(), None);
    }
}
