//! Credentials as an administrator hands them out, and where they must never be seen again.

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

/// Tokens that are planted, the first of an administrator, the last of nobody.
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
async fn planted_secrets_are_not_logged_told_or_listed() {
    let dir = TestDir::new();
    let file = format!("{},jane,1,system:masters\n{},joe,2,\"a,b\"\n", PLANTED[0], PLANTED[1]);
    let file = token_file(&dir, &file);
    let server = Server::start(&dir, &["--token-auth-file", &file]).await;
    let data = dir.data();
    let client = Client { trusts: &data, expects: "localhost", shows: None };

    let mut told = String::new();
    for (token, expected) in PLANTED.into_iter().zip(["200", "403", "401", "401"]) {
        let answer = client.get_with(&server, "/api/v1/secrets", &bearer(token)).await.unwrap();
        assert_eq!(code(&answer), expected, "{token}");
        told.push_str(&answer);
        for path in ["/readyz", "/nothing", "/api/v1/namespaces/default/pods?limit=many"] {
            told.push_str(&client.get_with(&server, path, &bearer(token)).await.unwrap());
        }
    }
    told.push_str(&body(client.get_with(&server, "/metrics", &bearer(PLANTED[0])).await));
    let process = format!("/proc/{}", server.child.id().unwrap());
    for name in ["cmdline", "environ", "comm"] {
        told.push_str(&String::from_utf8_lossy(&fs::read(format!("{process}/{name}")).unwrap()));
    }
    assert!(server.stop().await.success());
    let log = fs::read_to_string(dir.path().join("server.log")).unwrap();
    assert!(log.contains("TRACE"), "everything is logged");
    for secret in PLANTED {
        assert!(!told.contains(secret), "{secret} was told");
        assert!(!log.contains(secret), "{secret} was logged");
    }
}

#[tokio::test]
async fn a_token_file_that_is_wrong_is_refused_without_being_shown() {
    let dir = TestDir::new();
    let data = dir.data();
    for text in ["planted,jane\n", "planted\"x,jane,1\n", "a,b,c\n\"planted,jane,1\n"] {
        let file = token_file(&dir, text);
        let mut command = Command::new(env!("CARGO_BIN_EXE_coracle"));
        command.args(["up", "--listen", "127.0.0.1:0", "--store", "memory", "--data-dir"]).arg(&data);
        let ended = output(command.args(["--token-auth-file", &file]).env("CORACLE_LOG", "trace")).await;
        let said =
            format!("{}{}", String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
        assert!(
            !ended.status.success() && said.contains("is no token file") && said.contains("line "),
            "{said}"
        );
        assert!(!said.contains("planted"), "{said}");
    }
}

#[tokio::test]
async fn strangers_get_in_only_where_that_is_configured() {
    for (more, expected) in [(&[][..], "401"), (&["--anonymous-auth"][..], "200")] {
        let dir = TestDir::new();
        let server = Server::start(&dir, &[&["--store", "memory"], more].concat()).await;
        let data = dir.data();
        let client = Client { trusts: &data, expects: "localhost", shows: None };
        assert_eq!(body(client.get(&server, "/readyz").await), "ok");
        // Everybody may know the version, if anybody may ask.
        let answer = client.get(&server, "/version").await.unwrap();
        assert!([expected, "403"].contains(&code(&answer)), "{answer}");
        let answer = client.get(&server, "/api/v1/secrets").await.unwrap();
        assert_eq!(code(&answer), if expected == "401" { "401" } else { "403" });
        assert!(server.stop().await.success());
    }
}
