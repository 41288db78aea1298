//! Queue order and backoff, with explicit times.

use std::time::Duration;

use super::*;

const SECOND: Duration = Duration::from_secs(1);
const START: Timestamp = Timestamp::from_millis(1_000_000);

fn queue() -> Queue {
    let backoff = Backoff { initial: SECOND, max: 10 * SECOND, parked_at_most: 300 * SECOND };
    Queue::new(backoff, Arc::new(PrioritySort), crate::fixture::metrics())
}

fn pod(name: &str, priority: i32) -> Arc<Pod> {
    let mut pod = Pod { priority, ..Pod::default() };
    pod.metadata.name = name.into();
    pod.metadata.uid = name.into();
    Arc::new(pod)
}

fn plugin(index: usize) -> PluginSet {
    [index].into_iter().collect()
}

/// All pods that can be popped now.
fn popped(queue: &mut Queue, now: Timestamp) -> Vec<String> {
    std::iter::from_fn(|| queue.pop(now)).map(|popped| popped.pod.metadata.name.to_string()).collect()
}

#[test]
fn pods_are_popped_by_priority_then_by_waiting_time() {
    let mut queue = queue();
    queue.add(pod("late", 0), 0, None, START + SECOND);
    queue.add(pod("first", 0), 0, None, START);
    queue.add(pod("second", 0), 0, None, START);
    queue.add(pod("important", 9), 0, None, START + 2 * SECOND);
    queue.add(pod("gated", 99), 0, Some(1), START);
    assert_eq!(popped(&mut queue, START + 3 * SECOND), ["important", "first", "second", "late"]);
    assert!(queue.is_in_flight("late") && queue.is_gated("gated"));
    queue.wake_one("gated", "Event", Hint::AfterBackoff, None, START + 3 * SECOND);
    assert_eq!(popped(&mut queue, START + 3 * SECOND), ["gated"]);
}

#[test]
fn rejected_pod_is_parked_until_an_event_helps() {
    let mut queue = queue();
    for (name, index) in [("a", 1), ("b", 2)] {
        queue.add(pod(name, 0), 0, None, START);
        queue.pop(START).unwrap();
        queue.refused(name, plugin(index), PluginSet::default(), START);
    }
    assert!(queue.pop(START + 60 * SECOND).is_none());
    assert_eq!(queue.refusal_of("b").unwrap().plugins, plugin(2));
    let wants = |refusal: Refusal| refusal.plugins.meets(plugin(2));
    queue.wake("Event", START + 60 * SECOND, wants, |_, _| Hint::Skip, |_, _| None);
    assert!(!queue.is_ready());
    queue.wake("Event", START + 60 * SECOND, wants, |_, _| Hint::AfterBackoff, |_, _| None);
    assert_eq!(popped(&mut queue, START + 60 * SECOND), ["b"]);
    assert_eq!(queue.waiting(), 1);
}

#[test]
fn pod_in_backoff_is_popped_after_active_pods() {
    let mut queue = queue();
    queue.add(pod("retried", 5), 0, None, START);
    queue.pop(START).unwrap();
    queue.refused("retried", plugin(1), PluginSet::default(), START);
    queue.wake_one("retried", "Event", Hint::AfterBackoff, None, START + SECOND / 2);
    queue.add(pod("new", 0), 0, None, START + SECOND / 2);
    assert_eq!(popped(&mut queue, START + SECOND / 2), ["new", "retried"], "no pod was active");
    queue.refused("retried", plugin(1), PluginSet::default(), START + SECOND);
    queue.wake_one("retried", "Event", Hint::AfterBackoff, None, START + SECOND);
    queue.add(pod("newer", 0), 0, None, START + SECOND);
    // The second backoff is two seconds, plus the rest of the second in which it ends.
    let over = START + 4 * SECOND;
    assert_eq!(popped(&mut queue, over), ["retried", "newer"]);
}

#[test]
fn failed_pod_is_not_popped_before_its_backoff_ends() {
    let mut queue = queue();
    queue.add(pod("a", 0), 0, None, START);
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
fn parked_pod_is_retried_after_the_maximum_time() {
    let mut queue = queue();
    queue.add(pod("a", 0), 0, None, START);
    queue.pop(START).unwrap();
    queue.refused("a", PluginSet::default(), PluginSet::default(), START);
    assert_eq!(queue.deadline(), Some(START + 300 * SECOND));
    assert!(queue.pop(START + 299 * SECOND).is_none());
    assert_eq!(popped(&mut queue, START + 300 * SECOND), ["a"]);
}

#[test]
fn removed_pod_is_in_no_part_of_the_queue() {
    let mut queue = queue();
    for (name, put) in [
        ("active", (|_, _| {}) as fn(&mut Queue, &str)),
        ("parked", |queue, name| {
            queue.pop(START).unwrap();
            queue.refused(name, plugin(1), PluginSet::default(), START);
        }),
        ("backing-off", |queue, name| {
            queue.pop(START).unwrap();
            queue.retry(name, plugin(1), PluginSet::default(), START);
        }),
        ("failed", |queue, name| {
            queue.pop(START).unwrap();
            queue.failed(name, START);
        }),
    ] {
        queue.add(pod(name, 0), 0, None, START);
        put(&mut queue, name);
        assert!(queue.get(name).is_some());
        assert!(queue.remove(name).is_some());
        assert!(queue.is_empty() && !queue.is_ready() && queue.waiting() == 0, "{name}");
        assert_eq!(queue.deadline(), None);
    }
}

#[test]
fn gated_pod_is_checked_again_after_an_event() {
    let mut queue = queue();
    queue.add(pod("a", 0), 0, Some(2), START);
    let wants = |refusal: Refusal| refusal.plugins.meets(plugin(2));
    let helps = |_: &Pod, _: Refusal| Hint::AfterBackoff;
    queue.wake("Event", START, wants, helps, |_, _| Some(3));
    assert!(queue.is_gated("a"));
    queue.wake("Event", START, |refusal| refusal.plugins.meets(plugin(3)), helps, |_, _| None);
    assert_eq!(popped(&mut queue, START), ["a"]);
}

#[test]
fn pending_pod_skips_its_backoff() {
    let mut queue = queue();
    for name in ["retried", "pending"] {
        queue.add(pod(name, 0), 0, None, START);
        queue.pop(START).unwrap();
        queue.refused(name, plugin(1), plugin(1), START);
    }
    queue.wake_one("retried", "Event", Hint::AfterBackoff, None, START);
    queue.wake_one("pending", "Event", Hint::Immediately, None, START);
    assert_eq!(popped(&mut queue, START), ["pending", "retried"]);
}

#[test]
fn force_activates_any_waiting_pod() {
    let mut queue = queue();
    for (name, put) in [
        (
            "parked",
            (|queue, name| queue.refused(name, plugin(1), PluginSet::default(), START))
                as fn(&mut Queue, &str),
        ),
        ("failed", |queue, name| queue.failed(name, START)),
    ] {
        queue.add(pod(name, 0), 0, None, START);
        queue.pop(START).unwrap();
        put(&mut queue, name);
        queue.force(name, Some(4), START);
        assert!(queue.is_gated(name));
        queue.force(name, None, START);
        assert_eq!(popped(&mut queue, START), [name]);
    }
}

#[test]
fn queue_sort_determines_the_order_of_pods() {
    struct ByName;
    impl QueueSort for ByName {
        fn name(&self) -> &'static str {
            "ByName"
        }

        fn key(&self, queued: &crate::framework::QueuedPod<'_>) -> crate::framework::QueueKey {
            let rank = -i64::from(queued.pod.name().as_bytes()[0]);
            crate::framework::QueueKey { rank, since: START, group: 0 }
        }
    }
    let backoff = Backoff { initial: SECOND, max: SECOND, parked_at_most: SECOND };
    let mut queue = Queue::new(backoff, Arc::new(ByName), crate::fixture::metrics());
    for (name, priority) in [("c", 9), ("a", 0), ("b", 5)] {
        queue.add(pod(name, priority), 0, None, START);
    }
    assert_eq!(popped(&mut queue, START), ["a", "b", "c"]);
}
