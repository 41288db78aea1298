//! `coracle up`: output, signals and errors of the real binary.

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
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;

use dir::TestDir;
use https::{Client, body};
use program::output;
use server::Server;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

/// Body of a GET that must succeed.
async fn get(server: &Server, path: &str) -> String {
    let trusts = server.kubeconfig.parent().expect("a data directory");
    body(Client { trusts, expects: "localhost", shows: None }.get(server, path).await)
}

/// Runs `coracle` with arguments with which it must exit by itself.
async fn coracle(arguments: &[&str]) -> Output {
    output(Command::new(env!("CARGO_BIN_EXE_coracle")).args(arguments)).await
}

/// Asserts that `coracle` fails with one line that contains all of `parts`.
async fn check_error(arguments: &[&str], code: i32, parts: &[&str]) {
    let ran = coracle(arguments).await;
    assert_eq!(ran.status.code(), Some(code), "{ran:?}");
    assert!(ran.stdout.is_empty(), "{ran:?}");
    let stderr = String::from_utf8_lossy(&ran.stderr);
    let errors: Vec<&str> = stderr.lines().filter(|line| line.starts_with("error: ")).collect();
    assert_eq!(errors.len(), 1, "{ran:?}");
    for part in parts {
        assert!(errors[0].contains(part), "{part} is not in {}", errors[0]);
    }
}

#[tokio::test]
async fn server_starts_serves_and_stops() {
    let dir = TestDir::new();
    let server = Server::start(&dir, &[]).await;
    assert_eq!(get(&server, "/livez").await, "ok");
    assert_eq!(get(&server, "/healthz").await, "ok");
    let verbose = get(&server, "/readyz?verbose").await;
    assert_eq!(verbose, "[+]ping ok\n[+]store ok\n[+]shutdown ok\nreadyz check passed\n");
    assert!(server.stop().await.success());
    let log = fs::read_to_string(dir.path().join("server.log")).unwrap();
    assert!(log.contains("shutdown complete"), "{log}");
}

#[tokio::test]
async fn server_restarts_after_sigkill() {
    let dir = TestDir::new();
    for _ in 0..3 {
        let mut server = Server::start(&dir, &[]).await;
        assert_eq!(get(&server, "/readyz").await, "ok");
        server.child.kill().await.unwrap();
    }
    assert!(Server::start(&dir, &[]).await.stop().await.success());
}

#[tokio::test]
async fn memory_store_leaves_only_certificates() {
    let dir = TestDir::new();
    let server = Server::start(&dir, &["--store", "memory"]).await;
    assert_eq!(get(&server, "/readyz").await, "ok");
    assert!(server.stop().await.success());
    assert_eq!(names(&dir.data()), ["admin.kubeconfig", "coracle.lock", "pki"]);
}

/// The sorted names of the entries of a directory.
fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = entries.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn second_server_in_a_directory_is_rejected_whatever_the_stores_are() {
    for (first, second) in [
        ("disk", "disk"),
        ("disk", "memory"),
        ("memory", "memory"),
        ("memory", "disk"),
        // No etcd listens at port 1: the directory is locked before a store is opened.
        ("memory", "etcd=http://127.0.0.1:1"),
    ] {
        let dir = TestDir::new();
        let server = Server::start(&dir, &["--store", first]).await;
        let kubeconfig = fs::read_to_string(&server.kubeconfig).unwrap();
        let data_dir = dir.data();
        let data_dir = data_dir.to_str().unwrap();
        let up = ["up", "--listen", "127.0.0.1:0", "--data-dir", data_dir, "--store", second];
        let process = format!("another coracle (pid {}) is running there", server.pid().as_raw_pid());
        check_error(&up, 1, &[data_dir, "is in use", &process, "--data-dir"]).await;
        assert_eq!(fs::read_to_string(&server.kubeconfig).unwrap(), kubeconfig, "{first}, {second}");
        assert_eq!(get(&server, "/readyz").await, "ok");
        assert!(server.stop().await.success());
        assert_eq!(dir.data().join("store").exists(), first == "disk", "{first}, {second}");
    }
}

#[tokio::test]
async fn directory_is_unlocked_after_sigkill_of_memory_server() {
    let dir = TestDir::new();
    for _ in 0..2 {
        let mut server = Server::start(&dir, &["--store", "memory"]).await;
        server.child.kill().await.unwrap();
    }
    assert!(Server::start(&dir, &["--store", "disk"]).await.stop().await.success());
    let mode = fs::metadata(dir.data().join("coracle.lock")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test]
async fn tools_beside_a_running_server_work_and_store_tools_are_rejected() {
    let dir = TestDir::new();
    let server = Server::start(&dir, &[]).await;
    let data_dir = dir.data();
    let data_dir = data_dir.to_str().unwrap();
    for tool in
        [vec!["certs", "list"], vec!["certs", "rotate"], vec!["kubeconfig", "create", "--user", "jane"]]
    {
        let ran = coracle(&[&tool[..], &["--data-dir", data_dir]].concat()).await;
        assert!(ran.status.success(), "{tool:?}: {ran:?}");
    }
    for tool in ["stat", "check"] {
        check_error(&["store", tool, "--data-dir", data_dir], 1, &["in use"]).await;
    }
    assert_eq!(get(&server, "/readyz").await, "ok");
    assert!(server.stop().await.success());
    // The server's lock is released, so the tools run now.
    assert!(coracle(&["store", "check", "--data-dir", data_dir]).await.status.success());
}

/// `coracle up --store memory` without a data directory, with temporary files and the home in the directory of the test.
async fn up_in_memory(dir: &TestDir) -> Server {
    let log = fs::File::options().append(true).create(true).open(dir.path().join("server.log")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_coracle"));
    command.args(["up", "--listen", "127.0.0.1:0", "--store", "memory"]).stderr(log);
    command.env("TMPDIR", dir.path().join("tmp")).env("HOME", dir.path()).env_remove("XDG_DATA_HOME");
    Server::run_anywhere(command).await
}

#[tokio::test]
async fn memory_servers_remove_their_temporary_directories() {
    let dir = TestDir::new();
    let temporary = dir.path().join("tmp");
    fs::create_dir(&temporary).unwrap();
    let servers = [up_in_memory(&dir).await, up_in_memory(&dir).await];
    assert_ne!(servers[0].kubeconfig, servers[1].kubeconfig);
    for server in servers {
        let data_dir = server.kubeconfig.parent().unwrap();
        assert_eq!(data_dir.parent(), Some(temporary.as_path()), "{data_dir:?}");
        assert_eq!(fs::metadata(data_dir).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(get(&server, "/readyz").await, "ok");
        let url = format!("server: {}", server.url);
        assert!(
            fs::read_to_string(&server.kubeconfig).unwrap().contains(&url),
            "not the kubeconfig of {url}"
        );
        assert!(server.terminate().await.success());
    }
    assert_eq!(names(&temporary), [""; 0]);
    assert_eq!(names(dir.path()), ["server.log", "tmp"], "something was written to the home");
}

#[tokio::test]
async fn temporary_directory_is_removed_when_the_server_cannot_start() {
    let dir = TestDir::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_coracle"));
    command.args(["up", "--listen", &taken.local_addr().unwrap().to_string(), "--store", "memory"]);
    let ran = output(command.env("TMPDIR", dir.path())).await;
    assert_eq!(ran.status.code(), Some(1), "{ran:?}");
    assert_eq!(names(dir.path()), [""; 0]);
}

#[tokio::test]
async fn address_in_use_is_reported() {
    let dir = TestDir::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let data_dir = dir.data();
    let up = ["up", "--listen", &address, "--data-dir", data_dir.to_str().unwrap()];
    check_error(&up, 1, &["cannot listen on", &address, "in use"]).await;
    let ran = coracle(&up).await;
    assert!(
        String::from_utf8_lossy(&ran.stderr).contains("--listen 127.0.0.1:0 picks a free port"),
        "{ran:?}"
    );
    assert!(!data_dir.exists());
}

#[tokio::test]
async fn unusable_data_directory_is_reported() {
    // A file in place of the directory, because tests may run as root, who is denied nothing.
    let dir = TestDir::new();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    for data_dir in [file.clone(), file.join("below")] {
        let data_dir = data_dir.to_str().unwrap();
        for store in ["disk", "memory"] {
            let up = ["up", "--listen", "127.0.0.1:0", "--store", store, "--data-dir", data_dir];
            check_error(&up, 1, &["cannot create", data_dir]).await;
        }
    }
}

#[tokio::test]
async fn invalid_command_line_is_rejected() {
    check_error(&["up", "--unknown"], 2, &["--unknown"]).await;
    check_error(&["up", "--listen", "nowhere"], 2, &["nowhere", "--listen"]).await;
    check_error(&["up", "--tls-san", "a b"], 2, &["a b", "--tls-san", "DNS name"]).await;
    let expected = r#"error: invalid --store "foo": expected disk, memory or etcd=URL[,URL...]"#;
    check_error(&["up", "--store", "foo"], 2, &[expected]).await;
    check_error(&["up", "--etcd-ca", "/ca"], 2, &["--etcd-ca needs --store etcd=URL"]).await;
}

#[cfg(feature = "etcd")]
#[tokio::test]
async fn unreachable_etcd_is_reported() {
    check_error(&["up", "--store", "etcd=localhost:2379"], 2, &["invalid --store", "localhost:2379"]).await;
    // Bound and closed again, so nothing listens there.
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let store = format!("etcd=http://{free}");
    check_error(&["up", "--listen", "127.0.0.1:0", "--store", &store], 1, &["etcd", &free.to_string()]).await;
    let tls = ["--etcd-ca", "/coracle-no-such-file"];
    let up = ["up", "--listen", "127.0.0.1:0", "--store", "etcd=https://127.0.0.1:1", tls[0], tls[1]];
    check_error(&up, 1, &["cannot read /coracle-no-such-file"]).await;
}

#[tokio::test]
async fn version_has_the_commit_if_there_is_a_repository() {
    for arguments in [["version"], ["--version"]] {
        let ran = coracle(&arguments).await;
        let text = String::from_utf8_lossy(&ran.stdout).into_owned();
        let rest = text.strip_prefix(concat!("coracle ", env!("CARGO_PKG_VERSION"))).unwrap();
        let has_repository = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../.git")).exists();
        let commit = rest.strip_prefix(" (").and_then(|rest| rest.strip_suffix(")\n"));
        let is_commit = |text: &str| text.len() == 12 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        assert!(if has_repository { commit.is_some_and(is_commit) } else { rest == "\n" }, "{text:?}");
    }
}

#[tokio::test]
async fn completion_scripts_name_the_commands() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = coracle(&["completion", shell]).await;
        assert!(ran.status.success(), "{ran:?}");
        let script = String::from_utf8_lossy(&ran.stdout);
        assert!(script.contains("kubeconfig") && script.contains("fake-nodes"), "{shell}: {script}");
    }
}

/// Lines about nodes in the announcement.
fn node_lines(server: &Server) -> Vec<&str> {
    // The first line contains the name of the directory.
    server.announced.iter().skip(1).map(String::as_str).filter(|line| line.contains("node")).collect()
}

#[tokio::test]
async fn announcement_names_nodes_and_restart_with_fewer_deletes_them() {
    let dir = TestDir::new();
    let server = Server::start(&dir, &["--name", "trial"]).await;
    assert_eq!(server.announced[0], format!("cluster trial: data in {}", dir.data().display()));
    let none = ["no nodes: pods stay Pending; add simulated nodes with --fake-nodes 3"];
    assert_eq!(node_lines(&server), none);
    assert!(server.announced.iter().any(|line| line.starts_with("log: stderr")), "{:?}", server.announced);
    assert!(server.stop().await.success());

    let simulated = |count: &str| format!("{count}: pod status is simulated, no container runs");
    for (flags, expected) in [
        (&["--fake-nodes", "5"][..], vec![simulated("5 simulated nodes")]),
        (
            &["--fake-nodes", "1"],
            vec![
                "deleted 4 simulated nodes of an earlier start: --fake-nodes is lower now".to_owned(),
                simulated("1 simulated node"),
            ],
        ),
        (
            &[],
            vec![
                "deleted 1 simulated node of an earlier start: --fake-nodes is not set now".to_owned(),
                none[0].to_owned(),
            ],
        ),
    ] {
        let server = Server::start(&dir, flags).await;
        assert_eq!(node_lines(&server), expected, "{flags:?}");
        assert!(server.stop().await.success());
    }
}

#[tokio::test]
async fn plain_http_is_rejected_beside_an_address_of_other_machines() {
    let dir = TestDir::new();
    let data_dir = dir.data();
    let up = ["up", "--insecure-http", "--listen", "0.0.0.0:0", "--data-dir", data_dir.to_str().unwrap()];
    check_error(&up, 2, &["--insecure-http", "loopback", "0.0.0.0:0"]).await;
    assert!(!data_dir.exists());
}

/// The response to a GET over plain HTTP/1.1.
async fn plain_get(server: &Server, path: &str, headers: &str) -> String {
    let address = server.url.strip_prefix("https://").unwrap();
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nConnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    response
}

#[tokio::test]
async fn plain_http_is_served_as_administrator_only_if_asked_for() {
    let dir = TestDir::new();
    let server = Server::start(&dir, &["--insecure-http"]).await;
    let url = server.url.replacen("https:", "http:", 1);
    assert!(
        server.announced.contains(&format!("plain HTTP, as administrator: {url}")),
        "{:?}",
        server.announced
    );
    let secrets = "/clusters/default/api/v1/secrets";
    let listed = plain_get(&server, secrets, "Host: localhost\r\n").await;
    assert!(listed.starts_with("HTTP/1.1 200 OK") && listed.contains("SecretList"), "{listed}");
    for headers in ["Host: evil.example\r\n", "Host: localhost\r\nOrigin: http://evil.example\r\n"] {
        let refused = plain_get(&server, secrets, headers).await;
        assert!(refused.starts_with("HTTP/1.1 400 "), "{refused}");
    }
    assert_eq!(get(&server, "/readyz").await, "ok", "TLS is served at the same address");
    assert!(server.stop().await.success());
    let log = fs::read_to_string(dir.path().join("server.log")).unwrap();
    assert!(log.contains("WARN") && log.contains("any process on this machine is administrator"), "{log}");

    let server = Server::start(&dir, &[]).await;
    let refused = plain_get(&server, secrets, "Host: localhost\r\n").await;
    assert!(refused.contains("Client sent an HTTP request to an HTTPS server"), "{refused}");
    assert!(server.stop().await.success());
}
