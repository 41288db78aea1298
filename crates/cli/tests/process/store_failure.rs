//! A store that can no longer write its files: API responses, probes, log and exit code.
//!
//! The failure is a limit on file size, set while the server runs. Unlike a full or broken disk it needs no
//! privilege. `sh` makes the server ignore the signal that comes with it.
//! privilege. `sh` makes the server ignore the signal that comes with it.

use std::process::Stdio;

use crate::connection::{Connection, Protocol, Target};
use crate::dir::TestDir;
use crate::server::Server;
use coracle_base::Task;
use http::Method;
use http_body_util::BodyExt;
use rustix::process::{Resource, Rlimit, prlimit};
use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio::process::Command;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Starts a server that logs to a pipe, which the file size limit does not affect; returns the complete log.
async fn start(dir: &TestDir) -> (Server, Task<String>) {
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_coracle")]);
    command.args(["up", "--listen", "127.0.0.1:0", "--data-dir"]).arg(dir.data());
    command.stderr(Stdio::piped());
    let mut server = Server::run(dir, command).await;
    let mut log = server.child.stderr.take().expect("a pipe");
    let reading = Task::spawn("log", async move {
        let mut text = String::new();
        log.read_to_string(&mut text).await.expect("a log");
        text
    });
    (server, reading)
}

async fn text(connection: &mut Connection, path: &str) -> (u16, String) {
    let response = connection.send(Method::GET, path, None).await.expect("an answer");
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.expect("a body").to_bytes();
    (code, String::from_utf8(bytes.to_vec()).expect("text"))
}

#[tokio::test]
async fn store_that_cannot_write_is_reported_by_api_probes_log_and_exit_code() {
    let dir = TestDir::new();
    let (server, log) = start(&dir).await;
    let target = Target::new(&server.url, &dir.data()).expect("certificates");
    let mut connection = Connection::open(&target, Protocol::Http1).await.expect("a connection");
    let object = |name: &str| json!({"metadata": {"name": name}});
    let (code, _) =
        connection.json(Method::POST, CONFIG_MAPS, Some(&object("before"))).await.expect("an answer");
    assert_eq!(code, 201);
    assert_eq!(text(&mut connection, "/readyz").await.0, 200);

    let nothing = Rlimit { current: Some(0), maximum: Some(0) };
    prlimit(Some(server.pid()), Resource::Fsize, nothing).expect("a limit");
    let (code, status) =
        connection.json(Method::POST, CONFIG_MAPS, Some(&object("lost"))).await.expect("an answer");
    assert_eq!((code.as_u16(), &status["reason"]), (503, &json!("ServiceUnavailable")), "{status}");
    let message = status["message"].as_str().expect("a message");
    assert!(message.starts_with("the store refuses writes: "), "{message}");
    let data_dir = dir.data();
    assert!(!status.to_string().contains(data_dir.to_str().expect("a path")), "paths are for the operator");
    for probe in ["/readyz", "/livez"] {
        let (code, report) = text(&mut connection, probe).await;
        assert_eq!(code, 500, "{probe}: {report}");
        assert!(report.contains("[-]store failed: the store refuses writes"), "{probe}: {report}");
    }
    let (code, _) = text(&mut connection, &format!("{CONFIG_MAPS}/before")).await;
    assert_eq!(code, 200, "what is stored can still be read");

    drop(connection);
    assert_eq!(server.stop().await.code(), Some(1));
    let log = log.await.expect("a log");
    assert!(log.contains("File too large"), "the log has the error of the system: {log}");
    assert!(log.contains("error: the store failed"), "{log}");
}
