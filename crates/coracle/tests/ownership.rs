//! Files that another user of the machine could have written are rejected at the start, with a command that
//! fixes it.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::fs::{self, Permissions};
use std::net::SocketAddr;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;

use coracle::{Config, Coracle, StoreConfig};
use tempfile::TempDir;

/// The user ID of `nobody`, which no test runs as.
const OTHER_USER: u32 = 65534;

fn config(data_dir: &Path, store: StoreConfig) -> Config {
    Config { store, listen: vec![SocketAddr::from(([127, 0, 0, 1], 0))], ..Config::new(data_dir) }
}

/// A data directory that was used before.
async fn used() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    Coracle::start(config(dir.path(), StoreConfig::Disk)).await.unwrap().shutdown().await;
    dir
}

async fn refusal(dir: &TempDir) -> String {
    let error = Coracle::start(config(dir.path(), StoreConfig::Disk)).await.unwrap_err();
    error.to_string()
}

/// The files and directories whose ownership is checked.
const TRUSTED: &[&str] = &[
    "",
    "pki",
    "pki/ca.crt",
    "pki/ca.key",
    "pki/sa.key",
    "pki/front-proxy-ca.crt",
    "admin.kubeconfig",
    "coracle.lock",
    "store",
];

#[tokio::test]
async fn file_writable_by_others_is_rejected_until_fixed() {
    let dir = used().await;
    for name in TRUSTED {
        let path = dir.path().join(name);
        let before = fs::metadata(&path).unwrap().permissions();
        for bit in [0o020, 0o002] {
            fs::set_permissions(&path, Permissions::from_mode(before.mode() | bit)).unwrap();
            let text = refusal(&dir).await;
            let path = path.display().to_string();
            let path = path.trim_end_matches('/');
            assert!(text.starts_with(path) && text.contains("chmod go-w"), "{name}: {text}");
        }
        fs::set_permissions(&path, before).unwrap();
    }
    Coracle::start(config(dir.path(), StoreConfig::Disk)).await.unwrap().shutdown().await;
}

#[tokio::test]
async fn file_of_another_user_is_rejected() {
    let dir = used().await;
    for name in TRUSTED {
        let path = dir.path().join(name);
        if !rustix::process::geteuid().is_root() {
            // Only root can change the owner of a file; the rule itself has a unit test.
            assert!(chown(&path, Some(OTHER_USER), None).is_err(), "only root can change the owner");
            continue;
        }
        chown(&path, Some(OTHER_USER), None).unwrap();
        let text = refusal(&dir).await;
        assert!(text.contains("belongs to user id 65534") && text.contains("chown 0 "), "{name}: {text}");
        chown(&path, Some(0), None).unwrap();
    }
    Coracle::start(config(dir.path(), StoreConfig::Disk)).await.unwrap().shutdown().await;
}

#[tokio::test]
async fn private_key_readable_by_others_is_rejected() {
    let dir = used().await;
    let key = dir.path().join("pki/ca.key");
    fs::set_permissions(&key, Permissions::from_mode(0o640)).unwrap();
    let text = refusal(&dir).await;
    assert!(text.ends_with(&format!("run: chmod 600 {}", key.display())), "{text}");
}

#[tokio::test]
async fn symbolic_links_in_the_data_directory_are_not_followed() {
    let (dir, other) = (used().await, tempfile::tempdir().unwrap());
    for name in ["pki", "pki/ca.key", "store", "admin.kubeconfig", "coracle.lock"] {
        let (path, moved) = (dir.path().join(name), other.path().join("moved"));
        fs::rename(&path, &moved).unwrap();
        symlink(&moved, &path).unwrap();
        let text = refusal(&dir).await;
        assert!(text.contains("is a symbolic link, which is not followed"), "{name}: {text}");
        fs::remove_file(&path).unwrap();
        fs::rename(&moved, &path).unwrap();
    }
    // A link to the data directory itself is followed.
    let link = other.path().join("data");
    symlink(dir.path(), &link).unwrap();
    Coracle::start(config(&link, StoreConfig::Disk)).await.unwrap().shutdown().await;
}

#[tokio::test]
async fn directory_of_an_in_memory_server_is_checked_too() {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o777)).unwrap();
    let error = Coracle::start(config(dir.path(), StoreConfig::Memory)).await.unwrap_err();
    assert!(error.to_string().contains("chmod go-w"), "{error}");
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    Coracle::start(config(dir.path(), StoreConfig::Memory)).await.unwrap().shutdown().await;
}

#[tokio::test]
async fn token_file_writable_by_others_is_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("tokens.csv");
    fs::write(&file, "secret-token-1,jane,1\n").unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o666)).unwrap();
    let mut config = config(&dir.path().join("data"), StoreConfig::Memory);
    config.authentication.token_file = Some(file.clone());
    let error = Coracle::start(config.clone()).await.unwrap_err().to_string();
    assert!(error.contains(&format!("chmod go-w {}", file.display())), "{error}");
    fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    Coracle::start(config).await.unwrap().shutdown().await;
}
