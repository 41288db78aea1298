//! Tests of the exposition format.

use super::*;

#[test]
fn text_is_sorted_and_omits_families_without_series() {
    let metrics = Metrics::default();
    let pods = metrics.counters("pods_total", "Pods.", ["mode", "result"]);
    metrics.counters("nothing_total", "Nothing.", ["a"]);
    metrics.gauge("age", "An age.").set(0.25);
    pods.with(["b", "x"]).inc();
    pods.with(["a", "y"]).add(2);
    pods.with(["a", "x"]).inc();
    let expected = "# HELP age An age.\n# TYPE age gauge\nage 0.25\n\
        # HELP pods_total Pods.\n# TYPE pods_total counter\n\
        pods_total{mode=\"a\",result=\"x\"} 1\npods_total{mode=\"a\",result=\"y\"} 2\npods_total{mode=\"b\",result=\"x\"} 1\n";
    assert_eq!(metrics.text(), expected);
}

#[test]
fn counter_declared_twice_is_shared() {
    let metrics = Metrics::default();
    metrics.counter("a_total", "A.").inc();
    metrics.counter("a_total", "A.").inc();
    assert_eq!(metrics.text(), "# HELP a_total A.\n# TYPE a_total counter\na_total 2\n");
}

#[test]
#[should_panic = "a is declared twice"]
fn name_declared_with_another_type_panics() {
    let metrics = Metrics::default();
    metrics.counter("a", "A.");
    metrics.gauge("a", "A.");
}

#[test]
#[should_panic = "a is declared twice"]
fn name_declared_with_other_buckets_panics() {
    let metrics = Metrics::default();
    metrics.histogram("a", "A.", Buckets::default());
    metrics.histogram("a", "A.", Buckets::new(&[1.0]));
}

#[test]
fn text_of_several_registries_is_merged() {
    let components = [Metrics::default(), Metrics::default()];
    for (metrics, depth) in components.iter().zip([1.0, 2.0]) {
        let name = format!("{depth}");
        metrics.collected("depth", Type::Gauge, "Depth.", move |samples| {
            samples.add_value(&[("name", &name)], depth);
        });
    }
    let expected = "# HELP depth Depth.\n# TYPE depth gauge\ndepth{name=\"1\"} 1\ndepth{name=\"2\"} 2\n";
    assert_eq!(Metrics::text_of(&components), expected);
}

#[test]
fn forgotten_series_is_not_written() {
    let metrics = Metrics::default();
    let sizes = metrics.gauges("size", "Size.", ["zone"]);
    sizes.with(["a"]).set(1.0);
    sizes.forget(["a"]);
    sizes.forget(["unknown"]);
    assert_eq!(metrics.text(), "");
}

#[test]
fn series_beyond_the_limit_are_dropped() {
    let metrics = Metrics::default();
    let counters = metrics.counters("a_total", "A.", ["name"]);
    for number in 0..=MAX_SERIES {
        counters.with([&number.to_string()]).inc();
    }
    assert_eq!(metrics.text().lines().count(), 2 + MAX_SERIES);
}

#[test]
fn series_without_labels_is_there_from_the_start() {
    let metrics = Metrics::default();
    let counted = metrics.counters("a_total", "a", []);
    metrics.counters("b_total", "b", ["label"]);
    assert_eq!(metrics.text(), "# HELP a_total a\n# TYPE a_total counter\na_total 0\n");
    counted.with([]).inc();
    assert!(metrics.text().ends_with("\na_total 1\n"), "{}", metrics.text());
}
