//! Kubeconfigs: naming after the cluster, and merging into the user's.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "support/dir.rs"]
mod dir;
#[path = "support/program.rs"]
mod program;
#[path = "support/server.rs"]
mod server;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Output;

use dir::TestDir;
use kube::config::Kubeconfig;
use program::output;
use server::Server;
use tokio::process::Command;

/// `coracle kubeconfig merge` of a test's cluster, with its home as the user's.
async fn merge(dir: &TestDir, home: &Path, arguments: &[&str], kubeconfig: Option<&Path>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_coracle"));
    command.args(["kubeconfig", "merge", "--data-dir"]).arg(dir.data()).args(arguments);
    command.env("HOME", home).env_remove("KUBECONFIG").env_remove("CORACLE_LOG");
    if let Some(kubeconfig) = kubeconfig {
        command.env("KUBECONFIG", kubeconfig);
    }
    output(&mut command).await
}

fn stdout(ran: &Output) -> String {
    assert!(ran.status.success(), "{ran:?}");
    String::from_utf8_lossy(&ran.stdout).into_owned()
}

fn contexts(path: &Path) -> Vec<String> {
    Kubeconfig::read_from(path).unwrap().contexts.into_iter().map(|context| context.name).collect()
}

/// Starts and stops a cluster of this name.
async fn cluster(name: &str) -> TestDir {
    let dir = TestDir::new();
    assert!(Server::start(&dir, &["--name", name]).await.stop().await.success());
    dir
}

#[tokio::test]
async fn admin_kubeconfig_is_named_after_the_cluster_and_renamed_with_it() {
    let dir = TestDir::new();
    let names = |path: &Path| {
        let config = Kubeconfig::read_from(path).unwrap();
        (config.clusters[0].name.clone(), config.auth_infos[0].name.clone(), config.current_context.unwrap())
    };
    let expected = |name: &str| {
        let user = format!("kubernetes-admin@{name}");
        (name.to_owned(), user.clone(), user)
    };
    let server = Server::start(&dir, &[]).await;
    let of_dir = dir.data().file_name().unwrap().to_string_lossy().into_owned();
    assert_eq!(names(&server.kubeconfig), expected(&of_dir));
    assert!(server.stop().await.success());
    let server = Server::start(&dir, &["--name", "dev"]).await;
    assert_eq!(names(&server.kubeconfig), expected("dev"));
    let mut create = Command::new(env!("CARGO_BIN_EXE_coracle"));
    create.args(["kubeconfig", "create", "--user", "jane", "--data-dir"]).arg(dir.data());
    let text = stdout(&output(&mut create).await);
    assert!(text.contains("current-context: jane@dev\n") && text.contains("cluster: dev\n"), "{text}");
    assert!(server.stop().await.success());
}

#[tokio::test]
async fn two_clusters_are_merged_into_one_file_that_keeps_everything_else() {
    let (a, b) = (cluster("a").await, cluster("b").await);
    let home = a.path().join("home");
    let config = home.join(".kube/config");
    let first = stdout(&merge(&a, &home, &[], None).await);
    assert!(first.contains("added cluster a, added user kubernetes-admin@a"), "{first}");
    assert!(first.contains("current context: kubernetes-admin@a\n"), "{first}");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, format!("preferences:\n  colors: true\nx-unknown: [1, yes]\n{text}")).unwrap();
    fs::set_permissions(&config, fs::Permissions::from_mode(0o644)).unwrap();

    let second = stdout(&merge(&b, &home, &[], None).await);
    assert!(second.contains("current context: kubernetes-admin@a (unchanged)"), "{second}");
    assert_eq!(contexts(&config), ["kubernetes-admin@a", "kubernetes-admin@b"]);
    let text = fs::read_to_string(&config).unwrap();
    assert!(text.contains("colors: true") && text.contains("x-unknown:"), "{text}");
    assert_eq!(fs::metadata(&config).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read_dir(home.join(".kube")).unwrap().count(), 1, "no lock or temporary file stays");

    let again = stdout(&merge(&b, &home, &["--use-context"], None).await);
    assert!(
        again.contains("up to date") && again.contains("current context: kubernetes-admin@b\n"),
        "{again}"
    );
}

#[tokio::test]
async fn entry_of_another_cluster_is_kept_with_an_error_that_names_the_fix() {
    let (first, second) = (cluster("same").await, cluster("same").await);
    let home = first.path().join("home");
    stdout(&merge(&first, &home, &[], None).await);
    let before = fs::read_to_string(home.join(".kube/config")).unwrap();
    let ran = merge(&second, &home, &[], None).await;
    assert_eq!(ran.status.code(), Some(1), "{ran:?}");
    let stderr = String::from_utf8_lossy(&ran.stderr);
    assert!(stderr.contains("the cluster \"same\" belongs to another cluster"), "{stderr}");
    assert!(stderr.contains("--name") && stderr.contains("config delete-cluster same"), "{stderr}");
    assert_eq!(fs::read_to_string(home.join(".kube/config")).unwrap(), before);
}

#[tokio::test]
async fn target_is_kubeconfig_variable_or_flag_and_links_stay() {
    let dir = cluster("dev").await;
    let home = dir.path().join("home");
    let real = dir.path().join("real.yaml");
    fs::write(&real, "").unwrap();
    let link = dir.path().join("link.yaml");
    symlink(&real, &link).unwrap();
    stdout(&merge(&dir, &home, &[], Some(&link)).await);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(contexts(&real), ["kubernetes-admin@dev"]);
    let flag = dir.path().join("flag.yaml");
    stdout(&merge(&dir, &home, &["--kubeconfig", flag.to_str().unwrap()], Some(&link)).await);
    assert_eq!(contexts(&flag), ["kubernetes-admin@dev"]);
    assert!(!home.exists());
    let own = dir.data().join("admin.kubeconfig");
    let ran = merge(&dir, &home, &[], Some(&own)).await;
    assert!(!ran.status.success());
    let stderr = String::from_utf8_lossy(&ran.stderr);
    assert!(stderr.contains("own kubeconfig") && stderr.contains("unset KUBECONFIG"), "{stderr}");
}
