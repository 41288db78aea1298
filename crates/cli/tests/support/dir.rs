//! Temporary directories of tests, kept if the test fails.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

pub(crate) struct TestDir(Option<TempDir>);

impl TestDir {
    pub(crate) fn new() -> Self {
        let name = std::thread::current().name().unwrap_or("test").replace("::", "-");
        let dir = TempDir::with_prefix(format!("coracle-{name}-")).expect("a temporary directory");
        Self(Some(dir))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.as_ref().expect("kept until drop").path()
    }

    /// Data directory of the test's cluster.
    pub(crate) fn data(&self) -> PathBuf {
        self.path().join("data")
    }
}

impl Drop for TestDir {
    #[expect(clippy::print_stdout, reason = "shown with the output of the test that failed")]
    fn drop(&mut self) {
        if let Some(dir) = self.0.take().filter(|_| std::thread::panicking()) {
            println!("the test's directory is {}", dir.keep().display());
        }
    }
}
