//! Servers in this process: start, stop, restart, side by side.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use coracle::{Config, Coracle, Handle, PkiError, StartError, StorageError, StoreConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

fn config(data_dir: &Path) -> Config {
    Config { listen: vec![SocketAddr::from(([127, 0, 0, 1], 0))], ..Config::new(data_dir) }
}

async fn start(data_dir: &Path) -> Handle {
    Coracle::start(config(data_dir)).await.expect("the server starts")
}

/// The full response to a GET, status line first.
async fn get(cluster: &Handle, path: &str) -> String {
    let data_dir = cluster.kubeconfig().and_then(Path::parent).expect("it listens");
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(data_dir.join("pki/ca.crt")).expect("PEM"))
        .expect("an authority");
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider has them")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").expect("a name");
    let stream = TcpStream::connect(cluster.addresses()[0]).await.expect("a listener");
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.expect("a handshake");
    let request = format!("GET {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    answer
}

#[tokio::test]
async fn server_is_ready_when_started_and_gone_when_shut_down() {
    let dir = tempfile::tempdir().unwrap();
    let cluster = start(dir.path()).await;
    let address = cluster.addresses()[0];
    let answer = get(&cluster, "/readyz?verbose").await;
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    let checks = "[+]ping ok\n[+]store ok\n[+]shutdown ok\nreadyz check passed\n";
    assert!(answer.ends_with(checks), "{answer}");

    cluster.shutdown().await;
    assert!(TcpStream::connect(address).await.is_err(), "something still listens");
    start(dir.path()).await.shutdown().await;
}

#[tokio::test]
async fn servers_run_side_by_side() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let clusters = [start(one.path()).await, start(two.path()).await];
    for cluster in &clusters {
        assert!(get(cluster, "/livez").await.ends_with("\r\n\r\nok"));
    }
    for cluster in clusters {
        cluster.shutdown().await;
    }
}

#[tokio::test]
async fn second_server_on_a_directory_is_rejected_whatever_the_stores_are() {
    for (first, second) in [
        (StoreConfig::Disk, StoreConfig::Disk),
        (StoreConfig::Disk, StoreConfig::Memory),
        (StoreConfig::Memory, StoreConfig::Memory),
        (StoreConfig::Memory, StoreConfig::Disk),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let on = |store: &StoreConfig| Config { store: store.clone(), ..config(dir.path()) };
        let cluster = Coracle::start(on(&first)).await.unwrap();
        let kubeconfig = std::fs::read(cluster.kubeconfig().unwrap()).unwrap();
        let error = Coracle::start(on(&second)).await.unwrap_err();
        let StartError::Storage(StorageError::DataDirInUse { path, pid }) = &error else {
            panic!("{error:?}")
        };
        assert_eq!((path.as_path(), *pid), (dir.path(), Some(std::process::id())));
        assert_eq!(std::fs::read(cluster.kubeconfig().unwrap()).unwrap(), kubeconfig);
        assert!(
            get(&cluster, "/livez").await.ends_with("ok"),
            "the certificates of the first server are untouched"
        );
        cluster.shutdown().await;
        Coracle::start(on(&second)).await.unwrap().shutdown().await;
    }
}

#[tokio::test]
async fn server_that_fails_to_start_unlocks_its_directory() {
    let dir = tempfile::tempdir().unwrap();
    let mut unreadable = config(dir.path());
    unreadable.authentication.token_file = Some(dir.path().join("no-such-file"));
    assert!(matches!(Coracle::start(unreadable).await, Err(StartError::Authentication(_))));
    start(dir.path()).await.shutdown().await;
}

#[tokio::test]
async fn in_memory_servers_without_listeners_can_share_a_directory() {
    let dir = tempfile::tempdir().unwrap();
    let unreachable = || Config { store: StoreConfig::Memory, listen: Vec::new(), ..Config::new(dir.path()) };
    let clusters =
        [Coracle::start(unreachable()).await.unwrap(), Coracle::start(unreachable()).await.unwrap()];
    for cluster in clusters {
        cluster.shutdown().await;
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn address_in_use_is_rejected_before_anything_is_written() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let cluster = start(one.path()).await;
    let data_dir = two.path().join("data");
    let taken = Config { listen: cluster.addresses().to_vec(), ..Config::new(&data_dir) };
    let error = Coracle::start(taken).await.unwrap_err();
    assert!(matches!(error, StartError::Listen { address, .. } if address == cluster.addresses()[0]));
    assert!(!data_dir.exists());
    cluster.shutdown().await;
}

#[tokio::test]
async fn malformed_certificate_fails_the_start_and_leaves_nothing_running() {
    let dir = tempfile::tempdir().unwrap();
    start(dir.path()).await.shutdown().await;
    let file = dir.path().join("pki/ca.crt");
    let whole = std::fs::read(&file).unwrap();
    std::fs::write(&file, "spoilt").unwrap();
    let error = Coracle::start(config(dir.path())).await.unwrap_err();
    assert!(matches!(error, StartError::Pki(PkiError::Malformed { .. })), "{error:?}");
    std::fs::write(&file, whole).unwrap();
    start(dir.path()).await.shutdown().await;
}

#[tokio::test]
async fn in_memory_server_without_listeners_touches_no_disk() {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path().join("data");
    let config = Config { store: StoreConfig::Memory, listen: Vec::new(), ..Config::new(&data_dir) };
    let cluster = Coracle::start(config).await.unwrap();
    assert!(cluster.addresses().is_empty());
    cluster.shutdown().await;
    assert!(!data_dir.exists());
}
