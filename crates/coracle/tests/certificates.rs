//! Certificates of a running server: requested, signed, used, rotated.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use coracle::certs::{self, CredentialScope, KubeconfigRequest, Rotation};
use coracle::clusters::LimitsChange;
use coracle::kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use coracle::kube::config::{KubeConfigOptions, Kubeconfig};
use coracle::kube::{self, Client};
use coracle::tokens::{self, TokenRequest};
use coracle::{Config, Coracle, Handle, StoreConfig};
use coracle_base::Clock;
use k8s_openapi::ByteString;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestSpec};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use serde_json::json;
use support::wait_for;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Time limit of a wait; reaching it means that the expected state does not come about.
const LIMIT: Duration = Duration::from_secs(60);

const CLIENT: &str = "kubernetes.io/kube-apiserver-client";
const KUBELET: &str = "kubernetes.io/kube-apiserver-client-kubelet";

async fn start() -> (Handle, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let listen = vec![SocketAddr::from(([127, 0, 0, 1], 0))];
    let config = Config { store: StoreConfig::Memory, listen, ..Config::new(dir.path()) };
    (Coracle::start(config).await.unwrap(), dir)
}

async fn client_of(kubeconfig: Kubeconfig) -> Client {
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    Client::try_from(config.unwrap()).unwrap()
}

fn admin_kubeconfig(cluster: &Handle) -> Kubeconfig {
    Kubeconfig::read_from(cluster.kubeconfig().unwrap()).unwrap()
}

/// The administrator's kubeconfig with other user credentials.
fn kubeconfig_as(cluster: &Handle, user: serde_json::Value) -> Kubeconfig {
    let mut kubeconfig = admin_kubeconfig(cluster);
    kubeconfig.auth_infos[0].auth_info = Some(serde_json::from_value(user).unwrap());
    kubeconfig
}

async fn identity_of(client: &Client) -> (String, Vec<String>) {
    let reviews = Api::<SelfSubjectReview>::all(client.clone());
    let review = reviews.create(&PostParams::default(), &SelfSubjectReview::default()).await.unwrap();
    let user = review.status.unwrap().user_info.unwrap();
    (user.username.unwrap(), user.groups.unwrap_or_default())
}

/// A certificate signing request, and its key.
fn request(name: &str, subject: [&str; 2], signer: &str) -> (CertificateSigningRequest, KeyPair) {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, subject[0]);
    params.distinguished_name.push(DnType::CommonName, subject[1]);
    let key = KeyPair::generate().unwrap();
    let pem = params.serialize_request(&key).unwrap().pem().unwrap();
    let spec = CertificateSigningRequestSpec {
        request: ByteString(pem.into_bytes()),
        signer_name: signer.to_owned(),
        usages: Some(vec!["client auth".to_owned(), "digital signature".to_owned()]),
        expiration_seconds: Some(3600),
        ..CertificateSigningRequestSpec::default()
    };
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    (CertificateSigningRequest { metadata, spec, ..CertificateSigningRequest::default() }, key)
}

/// Creates a certificate signing request and returns its key.
async fn request_certificate(client: &Client, name: &str, subject: [&str; 2], signer: &str) -> KeyPair {
    let (request, key) = request(name, subject, signer);
    let requests = Api::<CertificateSigningRequest>::all(client.clone());
    requests.create(&PostParams::default(), &request).await.unwrap();
    key
}

async fn metrics(cluster: &Handle) -> String {
    let request = http::Request::get("/metrics").body(Vec::new()).unwrap();
    cluster.client().request_text(request).await.unwrap()
}

fn is_issued(request: &CertificateSigningRequest) -> bool {
    request.status.as_ref().is_some_and(|status| status.certificate.is_some())
}

/// Waits for a certificate, and returns a client that uses it.
async fn client_with(cluster: &Handle, name: &str, key: &KeyPair) -> Client {
    let requests = Api::<CertificateSigningRequest>::all(cluster.client());
    let issued = wait_for(LIMIT, &requests, name, is_issued).await;
    let certificate = issued.status.unwrap().certificate.unwrap();
    let user = json!({
        "client-certificate-data": STANDARD.encode(certificate.0),
        "client-key-data": STANDARD.encode(key.serialize_pem()),
    });
    client_of(kubeconfig_as(cluster, user)).await
}

#[tokio::test]
async fn approved_request_is_signed_and_the_certificate_is_accepted() {
    let (cluster, _dir) = start().await;
    let key = request_certificate(&cluster.client(), "jane", ["dev", "jane"], CLIENT).await;
    cluster.run_until_idle().await.unwrap();
    let requests = Api::<CertificateSigningRequest>::all(cluster.client());
    assert!(!is_issued(&requests.get("jane").await.unwrap()), "issued without approval");

    let condition =
        json!({"type": "Approved", "status": "True", "reason": "KubectlApprove", "message": "ok"});
    let approval = Patch::Merge(json!({"status": {"conditions": [condition]}}));
    requests.patch_approval("jane", &PatchParams::default(), &approval).await.unwrap();
    let jane = client_with(&cluster, "jane", &key).await;
    let expected = ("jane".to_owned(), vec!["dev".to_owned(), "system:authenticated".to_owned()]);
    assert_eq!(identity_of(&jane).await, expected);
    let page = metrics(&cluster).await;
    for series in [
        "apiserver_certificates_registry_csr_requested_duration_total{signerName=\"kubernetes.io/kube-apiserver-client\"} 1",
        "apiserver_certificates_registry_csr_honored_duration_total{signerName=\"kubernetes.io/kube-apiserver-client\"} 1",
    ] {
        assert!(page.lines().any(|line| line == series), "{series}\n{page}");
    }
    // The certificate of jane expires in an hour.
    let lifetimes = "apiserver_client_certificate_expiration_seconds_bucket{le=\"7200\"} ";
    let short = page.lines().find_map(|line| line.strip_prefix(lifetimes)?.parse::<u64>().ok());
    assert!(short.is_some_and(|count| count > 0), "{page}");
    cluster.shutdown().await;
}

#[tokio::test]
async fn failed_handshake_is_counted() {
    let (cluster, _dir) = start().await;
    let address = cluster.addresses()[0];
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: test\r\n\r\n").await.unwrap();
    // The server has counted the failure before it closes the connection.
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest).await;
    let page = metrics(&cluster).await;
    assert!(page.contains("\napiserver_tls_handshake_errors_total 1\n"), "{page}");
    cluster.shutdown().await;
}

#[tokio::test]
async fn certificate_signed_in_another_cluster_is_valid_there_only() {
    let (cluster, _dir) = start().await;
    let (request, key) = request("jane", ["dev", "jane"], CLIENT);
    for id in ["blue", "green"] {
        cluster.create_cluster(id, LimitsChange::default()).await.unwrap();
    }
    let path = "/clusters/blue/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let send = async |builder: http::request::Builder, body: Vec<u8>| {
        let request = builder.header("content-type", "application/json").body(body).unwrap();
        cluster.client().request::<CertificateSigningRequest>(request).await.unwrap()
    };
    let mut made = send(http::Request::post(path), serde_json::to_vec(&request).unwrap()).await;
    let condition =
        json!({"type": "Approved", "status": "True", "reason": "KubectlApprove", "message": "ok"});
    made.status = serde_json::from_value(json!({"conditions": [condition]})).unwrap();
    let approval = format!("{path}/jane/approval");
    send(http::Request::put(approval), serde_json::to_vec(&made).unwrap()).await;
    tokio::time::timeout(LIMIT, cluster.run_until_idle()).await.unwrap().unwrap();
    let signed = send(http::Request::get(format!("{path}/jane")), Vec::new()).await;
    assert!(is_issued(&signed), "{signed:?}");

    let certificate = signed.status.unwrap().certificate.unwrap();
    let user = json!({
        "client-certificate-data": STANDARD.encode(certificate.0),
        "client-key-data": STANDARD.encode(key.serialize_pem()),
    });
    let jane = client_of(kubeconfig_as(&cluster, user)).await;
    let code = async |path: &str| {
        let request = http::Request::get(path).body(kube::client::Body::empty()).unwrap();
        jane.send(request).await.unwrap().status().as_u16()
    };
    assert_eq!(code("/clusters/blue/api/v1/pods").await, 403, "authenticated, but without a role");
    assert_eq!(code("/clusters/green/api/v1/pods").await, 401);
    assert_eq!(code("/api/v1/pods").await, 401);
    cluster.shutdown().await;
}

#[tokio::test]
async fn request_violating_the_rules_of_its_signer_fails() {
    let (cluster, _dir) = start().await;
    request_certificate(&cluster.client(), "node", ["dev", "jane"], KUBELET).await;
    let requests = Api::<CertificateSigningRequest>::all(cluster.client());
    let condition =
        json!({"type": "Approved", "status": "True", "reason": "KubectlApprove", "message": "ok"});
    let approval = Patch::Merge(json!({"status": {"conditions": [condition]}}));
    requests.patch_approval("node", &PatchParams::default(), &approval).await.unwrap();
    let failed = wait_for(LIMIT, &requests, "node", |request| {
        let conditions = request.status.as_ref().and_then(|status| status.conditions.as_ref());
        conditions.is_some_and(|conditions| conditions.iter().any(|condition| condition.type_ == "Failed"))
    })
    .await;
    let condition = &failed.status.unwrap().conditions.unwrap()[1];
    assert_eq!(condition.reason.as_deref(), Some("SignerValidationFailure"));
    assert_eq!(condition.message.as_deref(), Some("subject organization is not system:nodes"));
    cluster.shutdown().await;
}

/// The bindings that kubeadm creates for joining nodes.
async fn let_nodes_join(cluster: &Handle) {
    let roles =
        ["system:node-bootstrapper", "system:certificates.k8s.io:certificatesigningrequests:nodeclient"];
    let bindings = Api::<ClusterRoleBinding>::all(cluster.client());
    for (index, role) in roles.into_iter().enumerate() {
        let binding = json!({
            "metadata": {"name": format!("join-{index}")},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [
                {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:bootstrappers"},
            ],
        });
        let binding = serde_json::from_value(binding).unwrap();
        bindings.create(&PostParams::default(), &binding).await.unwrap();
    }
}

#[tokio::test]
async fn token_with_usage_limit_lets_that_many_nodes_join() {
    let (cluster, _dir) = start().await;
    let_nodes_join(&cluster).await;
    let request = TokenRequest { usage_limit: Some(1), ..TokenRequest::default() };
    let token = tokens::create(cluster.client(), &request, Clock::system().now()).await.unwrap();
    let joining = client_of(kubeconfig_as(&cluster, json!({"token": token.expose()}))).await;
    assert_eq!(identity_of(&joining).await.0, format!("system:bootstrap:{}", token.id()));

    let key = request_certificate(&joining, "a", ["system:nodes", "system:node:a"], KUBELET).await;
    let node = client_with(&cluster, "a", &key).await;
    let expected = vec!["system:nodes".to_owned(), "system:authenticated".to_owned()];
    assert_eq!(identity_of(&node).await, ("system:node:a".to_owned(), expected));

    request_certificate(&joining, "b", ["system:nodes", "system:node:b"], KUBELET).await;
    cluster.run_until_idle().await.unwrap();
    let requests = Api::<CertificateSigningRequest>::all(cluster.client());
    let second = requests.get("b").await.unwrap();
    assert!(
        second.status.is_none_or(|status| status.conditions.is_none()),
        "the usage limit of the token is reached"
    );
    let listed = tokens::list(cluster.client()).await.unwrap();
    assert_eq!((listed.len(), listed[0].used, listed[0].usage_limit.as_deref()), (1, 1, Some("1")));
    tokens::delete(cluster.client(), token.id()).await.unwrap();
    let secrets = Api::<Secret>::namespaced(cluster.client(), "kube-system");
    assert!(secrets.get_opt(&format!("bootstrap-token-{}", token.id())).await.unwrap().is_none());
    cluster.shutdown().await;
}

fn rotate(dir: &Path, names: &[&str], authorities: bool) {
    let names = names.iter().map(ToString::to_string).collect();
    let rotated = certs::rotate(dir, &Rotation { names, authorities }).unwrap();
    assert!(rotated.done, "the server runs");
}

#[tokio::test(flavor = "multi_thread")]
async fn rotated_certificates_leave_clients_connected() {
    let (cluster, dir) = start().await;
    let (old, before) = (client_of(admin_kubeconfig(&cluster)).await, certs::list(dir.path()).unwrap());
    assert_eq!(identity_of(&old).await.0, "kubernetes-admin");
    let path = dir.path().to_owned();
    tokio::task::spawn_blocking(move || rotate(&path, &[], false)).await.unwrap();
    let after = certs::list(dir.path()).unwrap();
    let expiry = |items: &[certs::Item], name: &str| {
        items.iter().find(|item| item.name == name).map(|item| (item.signer.clone(), item.due)).unwrap()
    };
    for name in ["apiserver", "admin", "front-proxy-client"] {
        assert_ne!(expiry(&before, name).1, expiry(&after, name).1, "{name}");
    }
    assert_eq!(identity_of(&old).await.0, "kubernetes-admin", "an old kubeconfig is valid until it expires");
    let new = client_of(admin_kubeconfig(&cluster)).await;
    assert_eq!(identity_of(&new).await.0, "kubernetes-admin");
    cluster.shutdown().await;
    let left = std::fs::read_dir(dir.path().join("pki")).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = left.filter(|name| name == "reload.sock" || name == "rotate").collect();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn new_authority_is_published_before_it_signs() {
    let (cluster, dir) = start().await;
    let old = client_of(admin_kubeconfig(&cluster)).await;
    let roots = Api::<ConfigMap>::namespaced(cluster.client(), "default");
    let count = |map: &ConfigMap, key: &str| {
        map.data.as_ref().and_then(|data| data.get(key)).map_or(0, |pem| pem.matches("BEGIN CERT").count())
    };
    wait_for(LIMIT, &roots, "kube-root-ca.crt", |map| count(map, "ca.crt") == 1).await;
    let trusted = Api::<ConfigMap>::namespaced(cluster.client(), "kube-system");
    let first = wait_for(LIMIT, &trusted, "extension-apiserver-authentication", |_| true).await;
    assert_eq!((count(&first, "client-ca-file"), count(&first, "requestheader-client-ca-file")), (1, 1));
    assert_eq!(first.data.unwrap()["requestheader-allowed-names"], "[\"front-proxy-client\"]");

    let path = dir.path().to_owned();
    tokio::task::spawn_blocking(move || rotate(&path, &[], true)).await.unwrap();
    wait_for(LIMIT, &roots, "kube-root-ca.crt", |map| count(map, "ca.crt") == 2).await;
    wait_for(LIMIT, &trusted, "extension-apiserver-authentication", |map| {
        count(map, "client-ca-file") == 2 && count(map, "requestheader-client-ca-file") == 2
    })
    .await;
    assert_eq!(identity_of(&old).await.0, "kubernetes-admin");
    let again = certs::rotate(dir.path(), &Rotation { authorities: true, ..Rotation::default() });
    assert!(again.unwrap_err().to_string().starts_with("ca is being replaced already"));
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_of_a_rotated_key_stay_valid() {
    let (cluster, dir) = start().await;
    let accounts = Api::<k8s_openapi::api::core::v1::ServiceAccount>::namespaced(cluster.client(), "default");
    wait_for(LIMIT, &accounts, "default", |_| true).await;
    let request = json!({"spec": {"audiences": [], "expirationSeconds": 3600}});
    let request: k8s_openapi::api::authentication::v1::TokenRequest =
        serde_json::from_value(request).unwrap();
    let token = async || {
        let made = accounts.create_token_request("default", &PostParams::default(), &request).await.unwrap();
        made.status.unwrap().token.unwrap()
    };
    let old = token().await;
    let path = dir.path().to_owned();
    tokio::task::spawn_blocking(move || rotate(&path, &["sa"], false)).await.unwrap();
    let new = token().await;
    let key_of = |token: &str| token.split('.').next().unwrap().to_owned();
    assert_ne!(key_of(&old), key_of(&new));
    for token in [old, new] {
        let client = client_of(kubeconfig_as(&cluster, json!({"token": token}))).await;
        assert_eq!(identity_of(&client).await.0, "system:serviceaccount:default:default");
    }
    cluster.shutdown().await;
}

#[tokio::test]
async fn kubeconfig_of_an_additional_user_is_accepted() {
    let (cluster, dir) = start().await;
    let groups = vec!["dev".to_owned(), "ops".to_owned()];
    let life = Duration::from_secs(600);
    let scope = CredentialScope::DefaultCluster;
    let request = KubeconfigRequest { user: "jane".to_owned(), groups, life, server: None, scope };
    let text = certs::create_kubeconfig(dir.path(), &request, Clock::system().now()).unwrap();
    let jane = client_of(Kubeconfig::from_yaml(&text).unwrap()).await;
    let expected = ["dev", "ops", "system:authenticated"].map(str::to_owned).to_vec();
    assert_eq!(identity_of(&jane).await, ("jane".to_owned(), expected));
    cluster.shutdown().await;
}
