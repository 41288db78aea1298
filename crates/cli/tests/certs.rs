//! `coracle certs`, `coracle kubeconfig` and `coracle token` on running and stopped clusters, and the confidentiality
//! of their secrets.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "support/dir.rs"]
mod dir;
#[path = "support/program.rs"]
mod program;
#[path = "support/server.rs"]
mod server;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;

use dir::TestDir;
use program::output;
use serde_json::Value;
use server::Server;
use tokio::process::Command;

async fn coracle(dir: &TestDir, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_coracle"));
    command.args(arguments).arg("--data-dir").arg(dir.data()).env("CORACLE_LOG", "trace");
    output(&mut command).await
}

/// Stdout of a command that must succeed.
async fn printed(dir: &TestDir, arguments: &[&str]) -> String {
    let ran = coracle(dir, arguments).await;
    assert!(ran.status.success(), "{arguments:?}: {ran:?}");
    String::from_utf8(ran.stdout).unwrap()
}

/// Stderr of a command that must fail.
async fn refused(dir: &TestDir, arguments: &[&str]) -> String {
    let ran = coracle(dir, arguments).await;
    assert!(!ran.status.success(), "{arguments:?}: {ran:?}");
    assert!(ran.stdout.is_empty(), "{ran:?}");
    String::from_utf8(ran.stderr).unwrap()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn certificates_of_running_cluster_are_listed_and_rotated() {
    let dir = TestDir::new();
    assert!(refused(&dir, &["certs", "list"]).await.contains("start the cluster once"));
    let server = Server::start(&dir, &[]).await;
    let list = async || -> Vec<Value> {
        serde_json::from_str(&printed(&dir, &["certs", "list", "-o", "json"]).await).unwrap()
    };
    let before = list().await;
    let names: Vec<&str> = before.iter().map(|item| item["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["ca", "front-proxy-ca", "apiserver", "admin", "front-proxy-client", "sa"]);
    assert_eq!(before[2]["signer"], "CN=coracle");
    assert!(before[2]["remainingSeconds"].as_u64().unwrap() > 364 * 86_400);
    let text = printed(&dir, &["certs", "list"]).await;
    assert!(text.starts_with("NAME ") && text.contains("O=system:masters, CN=kubernetes-admin"), "{text}");

    let certificate = || fs::read(dir.data().join("pki/apiserver.crt")).unwrap();
    let old = certificate();
    let message = printed(&dir, &["certs", "rotate", "apiserver"]).await;
    assert_eq!(message, "rotated: apiserver\n");
    assert_ne!(certificate(), old);
    assert!(printed(&dir, &["certs", "rotate", "--ca", "ca"]).await.starts_with("rotation started: ca\n"));
    assert_eq!(list().await.len(), before.len() + 1);
    assert!(server.stop().await.success());

    let message = printed(&dir, &["certs", "rotate", "admin"]).await;
    assert!(message.contains("rotated at the next start: admin"), "{message}");
    let old = fs::read(dir.data().join("admin.kubeconfig")).unwrap();
    assert!(Server::start(&dir, &[]).await.stop().await.success());
    assert_ne!(fs::read(dir.data().join("admin.kubeconfig")).unwrap(), old);
}

#[tokio::test]
async fn invalid_flags_are_rejected_with_advice() {
    let dir = TestDir::new();
    assert!(Server::start(&dir, &[]).await.stop().await.success());
    for (arguments, expected) in [
        (&["certs", "rotate", "x"][..], "expected one of ca, front-proxy-ca, apiserver"),
        (&["certs", "rotate", "ca"], "add --ca"),
        (&["kubeconfig", "create", "--user", "me", "--expires", "1y"], "such as 24h"),
        (&["kubeconfig", "create", "--user", "me", "--expires", "400d"], "at most 8760 hours"),
        (&["kubeconfig", "create", "--user", ""], "need a name"),
        (&["kubeconfig", "create"], "--user <NAME>"),
        (&["token", "list"], "is the cluster running?"),
        (&["token", "create", "--kubeconfig", "/nowhere"], "/nowhere"),
    ] {
        let message = refused(&dir, arguments).await;
        assert!(message.contains(expected), "{arguments:?}: {message}");
    }
}

#[tokio::test]
async fn kubeconfig_is_private_and_not_overwritten() {
    let dir = TestDir::new();
    assert!(Server::start(&dir, &[]).await.stop().await.success());
    let out = dir.path().join("jane.kubeconfig");
    let path = out.to_str().unwrap();
    let create = ["kubeconfig", "create", "--user", "jane", "--group", "dev", "--out", path];
    assert_eq!(printed(&dir, &create).await, "");
    assert_eq!(mode(&out), 0o600);
    assert!(fs::read_to_string(&out).unwrap().contains("client-key-data: "));
    assert!(refused(&dir, &create).await.contains("already exists"));
    let text = printed(&dir, &["kubeconfig", "create", "--user", "jane"]).await;
    assert!(text.starts_with("apiVersion: v1\nkind: Config\n"), "{text}");
}

/// Files with secrets are readable by their owner only, whatever the umask is.
#[tokio::test]
async fn secret_files_are_readable_by_owner_only() {
    let dir = TestDir::new();
    let mut shell = std::process::Command::new("sh");
    let script = r#"umask 000; exec "$0" up --listen 127.0.0.1:0 --data-dir "$1""#;
    shell.args(["-c", script, env!("CARGO_BIN_EXE_coracle")]).arg(dir.data());
    let mut child =
        shell.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    let mut stdout = std::io::BufReader::new(child.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut stdout, &mut line).unwrap();
    assert!(line.starts_with("ready in "), "{line}");
    let mut dirs = vec![dir.data()];
    let mut files = 0;
    while let Some(found) = dirs.pop() {
        assert_eq!(mode(&found), 0o700, "{}", found.display());
        for entry in fs::read_dir(&found).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if path.is_dir() {
                dirs.push(path);
                continue;
            }
            files += 1;
            let public = path.extension().is_some_and(|end| end == "crt" || end == "pub");
            assert!(mode(&path) == 0o600 || public, "{:o} {}", mode(&path), path.display());
        }
    }
    assert!(files > 10, "{files}");
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Creates every kind of secret, and searches the log, the output and /proc for them.
#[tokio::test]
async fn secrets_are_not_in_log_or_process_list() {
    let dir = TestDir::new();
    let server = Server::start(&dir, &[]).await;
    let create = ["token", "create", "--usage-limit", "3", "--description", "for a test"];
    let token = printed(&dir, &create).await.trim().to_owned();
    let (id, secret) = token.split_once('.').unwrap();
    let listed = coracle(&dir, &["token", "list"]).await;
    let listed =
        format!("{}{}", String::from_utf8_lossy(&listed.stdout), String::from_utf8_lossy(&listed.stderr));
    assert!(listed.contains(id) && listed.contains("0/3") && listed.contains("for a test"), "{listed}");
    let kubeconfig = coracle(&dir, &["kubeconfig", "create", "--user", "jane"]).await;
    let kubeconfig_log = String::from_utf8_lossy(&kubeconfig.stderr).into_owned();
    let kubeconfig = String::from_utf8_lossy(&kubeconfig.stdout).into_owned();
    let rotated = coracle(&dir, &["certs", "rotate"]).await;
    assert!(rotated.status.success(), "{rotated:?}");
    let wrong = refused(&dir, &["token", "delete", &token]).await;
    assert!(wrong.contains("before its dot"), "{wrong}");

    let mut secrets = vec![secret.to_owned()];
    let key = kubeconfig.lines().find_map(|line| line.trim().strip_prefix("client-key-data: ")).unwrap();
    secrets.push(key[40..72].to_owned());
    for entry in fs::read_dir(dir.data().join("pki")).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.extension().is_some_and(|end| end == "key") {
            let line = fs::read_to_string(&path).unwrap().lines().nth(1).unwrap().to_owned();
            secrets.push(line[16..48].to_owned());
        }
    }
    assert!(secrets.len() >= 8, "{}", secrets.len());
    let arguments = fs::read(format!("/proc/{}/cmdline", server.child.id().unwrap())).unwrap();
    let log = fs::read_to_string(dir.path().join("server.log")).unwrap();
    let rotated = format!("{rotated:?}");
    assert_eq!(printed(&dir, &["token", "delete", id]).await, format!("deleted: {id}\n"));
    assert!(server.stop().await.success());
    for secret in &secrets {
        for (place, text) in [
            ("the log", &log),
            ("the arguments", &String::from_utf8_lossy(&arguments).into_owned()),
            ("the list of tokens", &listed),
            ("the log of a command", &kubeconfig_log),
            ("what rotate says", &rotated),
            ("an error", &wrong),
        ] {
            assert!(!text.contains(secret.as_str()), "a secret is in {place}");
        }
    }
}
