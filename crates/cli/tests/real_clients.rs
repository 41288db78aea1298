//! Client libraries other people wrote, against the real binary. Needs a Python that has them
//! in `CORACLE_TEST_PYTHON`; `cargo xtask test --real-clients` makes one.

#[path = "support/dir.rs"]
mod dir;
#[path = "support/program.rs"]
mod program;
#[path = "support/server.rs"]
mod server;

use dir::TestDir;
use program::output;
use server::Server;
use tokio::process::Command;

const READYZ: &str = "
import sys
from kubernetes import config

api = config.new_client_from_config(sys.argv[1])
response = api.rest_client.request('GET', api.configuration.host + '/readyz')
print(response.status, response.read().decode())
";

/// The Python to use.
#[expect(clippy::disallowed_methods, reason = "how the runner tells a suite what it found")]
fn python() -> Command {
    Command::new(
        std::env::var_os("CORACLE_TEST_PYTHON").expect("CORACLE_TEST_PYTHON is the path of a Python"),
    )
}

#[tokio::test]
async fn the_python_client_reads_the_health_checks() {
    let dir = TestDir::new();
    let server = Server::start(&dir, &[]).await;
    let ran = output(python().args(["-c", READYZ]).arg(&server.kubeconfig)).await;
    assert!(ran.status.success(), "{ran:?}");
    assert_eq!(ran.stdout, b"200 ok\n");
    server.stop().await;
}
