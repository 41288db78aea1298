//! Static tokens: authentication with them, and where they must never appear.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "support/dir.rs"]
mod dir;
#[path = "support/https.rs"]
mod https;
#[path = "support/program.rs"]
mod program;
#[path = "support/server.rs"]
mod server;
#[path = "support/tls_config.rs"]
mod tls_config;

use std::fs;

use dir::TestDir;
use https::{Client, body};
use program::output;
use server::Server;
use tokio::process::Command;

/// Planted tokens: of an administrator, a user, a bootstrap token, and one that nobody owns.
const PLANTED: [&str; 4] =
    ["planted-admin-token", "planted-user-token", "abcdef.plantedbootstrap", "planted-token-of-nobody"];

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

fn code(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap()
}

/// A token file in a test's directory.
fn token_file(dir: &TestDir, text: &str) -> String {
    let path = dir.path().join("tokens.csv");
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[tokio::test]
async fn planted_tokens_are_not_in_log_responses_or_process_list() {
    let dir = TestDir::new();
    let file = format!("{},jane,1,system:masters\n{},joe,2,\"a,b\"\n", PLANTED[0], PLANTED[1]);
    let file = token_file(&dir, &file);
    let server = Server::start(&dir, &["--token-auth-file", &file]).await;
    let data = dir.data();
    let client = Client { trusts: &data, expects: "localhost", shows: None };

    let mut visible = String::new();
    for (token, expected) in PLANTED.into_iter().zip(["200", "403", "401", "401"]) {
        let answer = client.get_with(&server, "/api/v1/secrets", &bearer(token)).await.unwrap();
        assert_eq!(code(&answer), expected, "{token}");
        visible.push_str(&answer);
        for path in ["/readyz", "/nothing", "/api/v1/namespaces/default/pods?limit=many"] {
            visible.push_str(&client.get_with(&server, path, &bearer(token)).await.unwrap());
        }
    }
    visible.push_str(&body(client.get_with(&server, "/metrics", &bearer(PLANTED[0])).await));
    let process = format!("/proc/{}", server.child.id().unwrap());
    for name in ["cmdline", "environ", "comm"] {
        visible.push_str(&String::from_utf8_lossy(&fs::read(format!("{process}/{name}")).unwrap()));
    }
    assert!(server.stop().await.success());
    let log = fs::read_to_string(dir.path().join("server.log")).unwrap();
    assert!(log.contains("TRACE"), "everything is logged");
    for secret in PLANTED {
        assert!(!visible.contains(secret), "{secret} is visible");
        assert!(!log.contains(secret), "{secret} was logged");
    }
}

#[tokio::test]
async fn malformed_token_file_is_rejected_without_printing_it() {
    let dir = TestDir::new();
    let data = dir.data();
    for text in ["planted,jane\n", "planted\"x,jane,1\n", "a,b,c\n\"planted,jane,1\n"] {
        let file = token_file(&dir, text);
        let mut command = Command::new(env!("CARGO_BIN_EXE_coracle"));
        command.args(["up", "--listen", "127.0.0.1:0", "--store", "memory", "--data-dir"]).arg(&data);
        let ended = output(command.args(["--token-auth-file", &file]).env("CORACLE_LOG", "trace")).await;
        let message =
            format!("{}{}", String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
        assert!(
            !ended.status.success() && message.contains("is no token file") && message.contains("line "),
            "{message}"
        );
        assert!(!message.contains("planted"), "{message}");
    }
}

#[tokio::test]
async fn anonymous_requests_are_allowed_only_if_configured() {
    for (more, expected) in [(&[][..], "401"), (&["--anonymous-auth"][..], "200")] {
        let dir = TestDir::new();
        let server = Server::start(&dir, &[&["--store", "memory"], more].concat()).await;
        let data = dir.data();
        let client = Client { trusts: &data, expects: "localhost", shows: None };
        assert_eq!(body(client.get(&server, "/readyz").await), "ok");
        // Anonymous users may get the version if anonymous requests are allowed.
        let answer = client.get(&server, "/version").await.unwrap();
        assert!([expected, "403"].contains(&code(&answer)), "{answer}");
        let answer = client.get(&server, "/api/v1/secrets").await.unwrap();
        assert_eq!(code(&answer), if expected == "401" { "401" } else { "403" });
        assert!(server.stop().await.success());
    }
}
