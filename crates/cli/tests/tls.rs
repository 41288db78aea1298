//! TLS of `coracle up`: certificate files, server and client authentication.

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
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use dir::TestDir;
use https::{Client, body};
use program::output;
use server::Server;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::Command;

/// Certificate and key files with their modes.
const FILES: &[(&str, u32)] = &[
    ("pki/ca.crt", 0o644),
    ("pki/ca.key", 0o600),
    ("pki/apiserver.crt", 0o644),
    ("pki/apiserver.key", 0o600),
    ("pki/admin.crt", 0o644),
    ("pki/admin.key", 0o600),
    ("admin.kubeconfig", 0o600),
];

fn anyone(data: &Path) -> Client<'_> {
    Client { trusts: data, expects: "localhost", shows: None }
}

/// Such as `127.0.0.1:34567`.
fn address(server: &Server) -> &str {
    server.url.strip_prefix("https://").expect("a URL")
}

/// Response to a plain HTTP request.
async fn plain_http(server: &Server) -> String {
    let mut stream = TcpStream::connect(address(server)).await.unwrap();
    stream.write_all(b"GET /readyz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

/// Certificate and key of the administrator.
fn admin(data: &Path) -> (String, String) {
    let read = |file| fs::read_to_string(data.join(file)).unwrap();
    (read("pki/admin.crt"), read("pki/admin.key"))
}

/// A base64 field of a kubeconfig, decoded.
fn field(kubeconfig: &str, name: &str) -> String {
    let value = kubeconfig.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(": "));
    let value = STANDARD.decode(value.unwrap_or_else(|| panic!("no {name}"))).unwrap();
    String::from_utf8(value).unwrap()
}

/// The base64 lines of a private key in PEM.
fn secrets(pem: &str) -> Vec<String> {
    pem.lines().filter(|line| !line.starts_with("-----")).map(str::to_owned).collect()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn certificates_are_private_and_survive_restart() {
    for store in ["disk", "memory"] {
        let dir = TestDir::new();
        let data = dir.data();
        let server = Server::start(&dir, &["--store", store]).await;
        for (file, expected) in FILES {
            assert_eq!(mode(&data.join(file)), *expected, "{file}");
        }
        assert_eq!((mode(&data), mode(&data.join("pki"))), (0o700, 0o700));
        let read = || FILES.iter().map(|(file, _)| fs::read(data.join(file)).unwrap()).collect::<Vec<_>>();
        let before = read();
        // The same address again, because the kubeconfig contains it.
        let address = address(&server).to_owned();
        assert!(server.stop().await.success());
        let again = Server::start_at(&dir, &address, &["--store", store]).await;
        assert_eq!(body(anyone(&data).get(&again, "/readyz").await), "ok");
        assert!(again.stop().await.success());
        assert!(before == read(), "a restart changed the files of --store {store}");
    }
}

#[tokio::test]
async fn kubeconfig_embeds_ca_and_client_certificate() {
    let dir = TestDir::new();
    let server = Server::start(&dir, &[]).await;
    let kubeconfig = fs::read_to_string(&server.kubeconfig).unwrap();
    assert!(kubeconfig.contains(&format!("    server: {}\n", server.url)), "{kubeconfig}");
    let ca = fs::read_to_string(dir.data().join("pki/ca.crt")).unwrap();
    assert_eq!(field(&kubeconfig, "certificate-authority-data"), ca);
    let pair = (field(&kubeconfig, "client-certificate-data"), field(&kubeconfig, "client-key-data"));
    assert_eq!(pair, admin(&dir.data()));
    let data = dir.data();
    let client = Client { shows: Some(pair), ..anyone(&data) };
    assert_eq!(body(client.get(&server, "/readyz").await), "ok");
    assert!(server.stop().await.success());
}

#[tokio::test]
async fn foreign_server_and_client_certificates_are_rejected() {
    let (dir, other) = (TestDir::new(), TestDir::new());
    let (server, stranger) = (Server::start(&dir, &[]).await, Server::start(&other, &[]).await);
    let refused = anyone(&other.data()).get(&server, "/readyz").await.unwrap_err();
    assert!(refused.to_string().contains("certificate"), "{refused}");
    let data = dir.data();
    let client = Client { shows: Some(admin(&other.data())), ..anyone(&data) };
    let refused = client.get(&server, "/api/v1/namespaces").await.unwrap();
    assert!(refused.starts_with("HTTP/1.1 401 "), "{refused}");
    assert!(stranger.stop().await.success());
    assert!(server.stop().await.success());
}

#[tokio::test]
async fn added_san_is_in_certificate_after_restart() {
    let dir = TestDir::new();
    let data = dir.data();
    let api = Client { expects: "api.example.org", ..anyone(&data) };
    let server = Server::start(&dir, &[]).await;
    assert!(api.get(&server, "/readyz").await.is_err());
    assert!(server.stop().await.success());
    let more =
        ["--tls-san", "api.example.org", "--tls-san", "192.0.2.77", "--advertise-address", "192.0.2.78"];
    let server = Server::start(&dir, &more).await;
    for expects in ["api.example.org", "192.0.2.77", "192.0.2.78", "kubernetes.default.svc", "127.0.0.1"] {
        assert_eq!(body(Client { expects, ..anyone(&data) }.get(&server, "/readyz").await), "ok");
    }
    assert!(server.stop().await.success());
}

#[tokio::test]
async fn plain_http_request_is_rejected_with_a_message() {
    let dir = TestDir::new();
    let server = Server::start(&dir, &[]).await;
    let answer = plain_http(&server).await;
    assert!(answer.starts_with("HTTP/1.0 400 Bad Request\r\n"), "{answer}");
    assert!(answer.contains("Client sent an HTTP request to an HTTPS server."), "{answer}");
    assert!(server.stop().await.success());
}

#[tokio::test]
async fn idle_connections_do_not_block_others() {
    let dir = TestDir::new();
    let server = Server::start(&dir, &[]).await;
    let mut silent = Vec::new();
    for _ in 0..100 {
        silent.push(TcpStream::connect(address(&server)).await.unwrap());
    }
    assert_eq!(body(anyone(&dir.data()).get(&server, "/readyz").await), "ok");
    assert!(server.stop().await.success());
}

#[tokio::test]
async fn private_keys_are_never_printed() {
    let dir = TestDir::new();
    let server = Server::start(&dir, &[]).await;
    let data = dir.data();
    let client = Client { shows: Some(admin(&data)), ..anyone(&data) };
    assert_eq!(body(client.get(&server, "/readyz").await), "ok");
    assert!(plain_http(&server).await.contains("400"));
    assert!(server.stop().await.success());
    // Stdout contains only known lines; the log has the level trace.
    let log = fs::read_to_string(dir.path().join("server.log")).unwrap();
    assert!(log.contains("handshake failed"), "{log}");
    assert_no_secrets(&dir.data(), &log);

    let key = dir.data().join("pki/apiserver.key");
    let whole = fs::read_to_string(&key).unwrap();
    let secret = secrets(&whole).remove(0);
    fs::write(&key, whole.replace("-----END", &format!("{secret}\n!\n-----END"))).unwrap();
    let mut up = Command::new(env!("CARGO_BIN_EXE_coracle"));
    up.env("CORACLE_LOG", "trace").args(["up", "--listen", "127.0.0.1:0", "--data-dir"]).arg(dir.data());
    let ran = output(&mut up).await;
    assert_eq!(ran.status.code(), Some(1), "{ran:?}");
    let message = String::from_utf8_lossy(&ran.stderr);
    assert!(message.contains(&format!("{} does not hold a private key", key.display())), "{message}");
    assert!(!message.contains(&secret) && ran.stdout.is_empty(), "{message}");
}

/// Asserts that no part of a private key of the cluster is in `text`.
fn assert_no_secrets(data: &Path, text: &str) {
    for (file, _) in FILES.iter().filter(|(file, _)| file.ends_with(".key")) {
        for secret in secrets(&fs::read_to_string(data.join(file)).unwrap()) {
            assert!(!text.contains(&secret), "{file} is in the log");
        }
    }
    let kubeconfig = fs::read_to_string(data.join("admin.kubeconfig")).unwrap();
    let encoded = kubeconfig.lines().find_map(|line| line.trim().strip_prefix("client-key-data: ")).unwrap();
    assert!(!text.contains(encoded) && !text.contains("PRIVATE KEY"), "a key is in the log");
}
