//! Helpers that several test modules use.

/// Runs a test that recurses as deep as values may be nested, on a stack as large as that of requests.
pub(crate) fn on_large_stack(test: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(256 << 20).spawn(test).expect("a thread");
    thread.join().expect("the test passes");
}
