//! `coracle cluster`: clusters of a running server are created, listed, limited and deleted.

#[path = "support/dir.rs"]
mod dir;
#[path = "support/program.rs"]
mod program;
#[path = "support/server.rs"]
mod server;

use std::path::Path;

use dir::TestDir;
use program::output;
use serde_json::Value;
use server::Server;
use tokio::process::Command;

/// Runs `coracle` with these arguments; returns whether it succeeded, its stdout and its stderr.
async fn coracle(data: &Path, args: &[&str]) -> (bool, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_coracle"));
    let ended = output(command.args(args).arg("--data-dir").arg(data)).await;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (ended.status.success(), text(&ended.stdout), text(&ended.stderr))
}

async fn succeeds(data: &Path, args: &[&str]) -> String {
    let (success, stdout, stderr) = coracle(data, args).await;
    assert!(success, "{args:?}: {stderr}");
    stdout
}

async fn fails(data: &Path, args: &[&str]) -> String {
    let (success, stdout, stderr) = coracle(data, args).await;
    assert!(!success, "{args:?}: {stdout}");
    stderr
}

#[tokio::test]
async fn cluster_is_created_listed_limited_and_deleted() {
    let dir = TestDir::new();
    let data = dir.data();
    let server = Server::start(&dir, &["--store", "memory", "--cluster-max-objects", "500"]).await;
    let created = succeeds(&data, &["cluster", "create", "team-a", "--max-bytes", "1Mi"]).await;
    assert!(created.starts_with("created: team-a\n"), "{created}");
    assert!(created.contains("coracle kubeconfig create --user admin"), "{created}");
    let kubeconfig =
        succeeds(&data, &["kubeconfig", "create", "--user", "jane", "--cluster", "team-a"]).await;
    assert!(kubeconfig.contains("/clusters/team-a"), "{kubeconfig}");

    let list = succeeds(&data, &["cluster", "list"]).await;
    let rows: Vec<Vec<&str>> = list.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows.len(), 3, "{list}");
    assert_eq!((rows[2][0], rows[2][3], rows[2][5], rows[2][6]), ("team-a", "500", "1048576", "Active"));
    let changed = succeeds(&data, &["cluster", "set-limits", "team-a", "--max-objects", "unlimited"]).await;
    assert_eq!(changed, "changed: team-a: at most 1048576 bytes and unlimited objects\n");
    let list = succeeds(&data, &["cluster", "list", "-o", "json"]).await;
    let list: Value = serde_json::from_str(&list).unwrap();
    assert_eq!(list[1]["id"], "team-a");
    assert_eq!(list[1]["limits"]["maxObjects"], Value::Null);

    let unconfirmed = fails(&data, &["cluster", "delete", "team-a"]).await;
    assert!(unconfirmed.contains("pass --yes to confirm"), "{unconfirmed}");
    assert_eq!(succeeds(&data, &["cluster", "delete", "team-a", "--yes"]).await, "deleted: team-a\n");
    assert!(server.stop().await.success());
}

#[tokio::test]
async fn errors_include_advice() {
    let dir = TestDir::new();
    let data = dir.data();
    let server = Server::start(&dir, &["--store", "memory"]).await;
    succeeds(&data, &["cluster", "create", "team-a"]).await;
    for (args, expected) in [
        (&["cluster", "create", "team-a"][..], "choose another id, or delete the existing cluster first"),
        (&["cluster", "create", "Team_A"], "expected the id of a cluster"),
        (&["cluster", "create", "b", "--max-bytes", "1.5Gi"], "expected a whole number"),
        (&["cluster", "delete", "unknown", "--yes"], "coracle cluster list shows the clusters there are"),
        (&["cluster", "set-limits", "team-a"], "pass --max-bytes or --max-objects"),
        (
            &["kubeconfig", "create", "--user", "jane", "--cluster", "unknown"],
            "cluster \"unknown\" not found",
        ),
    ] {
        let message = fails(&data, args).await;
        assert!(message.contains(expected), "{args:?}: {message}");
    }
    let jane = data.join("jane.kubeconfig");
    let args = ["kubeconfig", "create", "--user", "jane", "--group", "system:masters", "--out"];
    succeeds(&data, &[&args[..], &[jane.to_str().unwrap()]].concat()).await;
    let message = fails(&data, &["cluster", "list", "--kubeconfig", jane.to_str().unwrap()]).await;
    assert!(message.contains("pass admin.kubeconfig of the server's data directory"), "{message}");
    assert!(server.stop().await.success());
    let message = fails(&data, &["cluster", "list"]).await;
    assert!(message.contains("is the cluster running? coracle up starts it"), "{message}");
}
