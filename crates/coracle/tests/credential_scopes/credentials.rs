//! One credential of each kind.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use coracle::certs::{self, CredentialScope, KubeconfigRequest};
use coracle::kube::Client;
use coracle::kube::client::Body;
use coracle::kube::config::{AuthInfo, Kubeconfig};
use coracle_base::Clock;
use http::{Method, Request};
use http_body_util::BodyExt;
use rcgen::{CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair};
use serde_json::{Value, json};

use crate::server::{self, STATIC_TOKEN, Server, path};

/// The credential of a client.
#[derive(Clone)]
pub(crate) struct Credential {
    pub(crate) name: String,
    /// The cluster that it is valid in.
    pub(crate) cluster: &'static str,
    client: Client,
    headers: Vec<(&'static str, String)>,
}

impl Credential {
    async fn new(server: &Server, name: &str, cluster: &'static str, auth_info: Value) -> Self {
        let auth_info: AuthInfo = serde_json::from_value(auth_info).unwrap();
        let client = server.client(auth_info).await;
        Self { name: format!("{name} of {cluster}"), cluster, client, headers: Vec::new() }
    }

    /// The same credential with impersonation headers.
    pub(crate) fn impersonating(&self, user: &str, group: &str) -> Self {
        let mut credential = self.clone();
        credential.name = format!("{} as {group}", self.name);
        credential.headers.push(("impersonate-user", user.to_owned()));
        credential.headers.push(("impersonate-group", group.to_owned()));
        credential
    }

    async fn send(&self, method: &Method, path: &str) -> http::Response<Body> {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        let request = request.body(Body::empty()).unwrap();
        self.client.send(request).await.unwrap_or_else(|error| panic!("{} {path}: {error}", self.name))
    }

    /// The status code of the response. The body is not read.
    pub(crate) async fn code(&self, method: &Method, path: &str) -> u16 {
        self.send(method, path).await.status().as_u16()
    }

    pub(crate) async fn answer(&self, method: &Method, path: &str) -> (u16, Value) {
        let response = self.send(method, path).await;
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (code, serde_json::from_slice(&bytes).unwrap())
    }
}

/// The administrator of the server.
pub(crate) async fn operator(server: &Server) -> Credential {
    let client = server::client(server.admin_kubeconfig()).await;
    Credential { name: "operator".to_owned(), cluster: "default", client, headers: Vec::new() }
}

/// Every kind of credential that is issued by or for a cluster.
pub(crate) async fn of_cluster(server: &Server, cluster: &'static str) -> Vec<Credential> {
    let masters = masters_certificate(server, cluster).await;
    let account = account(server, cluster).await;
    vec![
        masters.impersonating("admin", "system:masters"),
        masters,
        certificate(server, cluster, "node certificate", "system:node:n", "system:nodes").await,
        signed_certificate(server, cluster).await,
        bound_token(server, cluster, &account).await,
        legacy_token(server, cluster, &account).await,
        bootstrap_token(server, cluster).await,
    ]
}

/// Credentials from the server's configuration. They are valid in the default cluster.
pub(crate) async fn of_configuration(server: &Server) -> Vec<Credential> {
    let token = json!({"token": STATIC_TOKEN});
    let token = Credential::new(server, "static token", "default", token).await;
    vec![token.impersonating("admin", "system:masters"), token, front_proxy(server).await]
}

/// A certificate of a user in `system:masters`.
pub(crate) async fn masters_certificate(server: &Server, cluster: &'static str) -> Credential {
    certificate(server, cluster, "certificate", "admin", "system:masters").await
}

async fn certificate(
    server: &Server,
    cluster: &'static str,
    name: &str,
    user: &str,
    group: &str,
) -> Credential {
    let request = KubeconfigRequest {
        user: user.to_owned(),
        groups: vec![group.to_owned()],
        life: Duration::from_secs(3600),
        server: None,
        scope: CredentialScope::from(server.handle.cluster_reference(cluster).unwrap()),
    };
    let data_dir = server.dir.path().join("data");
    let text = certs::create_kubeconfig(&data_dir, &request, Clock::system().now()).unwrap();
    let kubeconfig = Kubeconfig::from_yaml(&text).unwrap();
    let url = kubeconfig.clusters[0].cluster.as_ref().unwrap().server.as_ref().unwrap();
    let expected = format!("{}{}", server.handle.urls()[0], path(cluster, "").trim_end_matches('/'));
    assert_eq!(*url, expected, "the kubeconfig has the URL of its cluster");
    let auth_info = json!(kubeconfig.auth_infos[0].auth_info);
    Credential::new(server, name, cluster, auth_info).await
}

/// A certificate for a signing request that the cluster's administrator has approved.
async fn signed_certificate(server: &Server, cluster: &'static str) -> Credential {
    let mut params = CertificateParams::default();
    params.distinguished_name = subject("jane", "dev");
    let key = KeyPair::generate().unwrap();
    let pem = params.serialize_request(&key).unwrap().pem().unwrap();
    let requests = path(cluster, "/apis/certificates.k8s.io/v1/certificatesigningrequests");
    let mut request = server
        .create(
            &requests,
            json!({"metadata": {"name": "jane"}, "spec": {
                "request": STANDARD.encode(pem),
                "signerName": "kubernetes.io/kube-apiserver-client",
                "usages": ["client auth", "digital signature"],
            }}),
        )
        .await;
    request["status"]["conditions"] =
        json!([{"type": "Approved", "status": "True", "reason": "Test", "message": "ok"}]);
    server.send(Method::PUT, &format!("{requests}/jane/approval"), &request).await;
    server.idle().await;
    let signed = server.send(Method::GET, &format!("{requests}/jane"), &Value::Null).await;
    let shown = json!({
        "client-certificate-data": signed["status"]["certificate"],
        "client-key-data": STANDARD.encode(key.serialize_pem()),
    });
    bind(server, cluster, "jane", json!({"kind": "User", "name": "jane"})).await;
    Credential::new(server, "signed certificate", cluster, shown).await
}

/// A service account with the role `cluster-admin`.
async fn account(server: &Server, cluster: &str) -> Value {
    let accounts = path(cluster, "/api/v1/namespaces/default/serviceaccounts");
    let account = server.create(&accounts, json!({"metadata": {"name": "robot"}})).await;
    let subject = json!({"kind": "ServiceAccount", "name": "robot", "namespace": "default"});
    bind(server, cluster, "robot", subject).await;
    account
}

async fn bind(server: &Server, cluster: &str, name: &str, mut subject: Value) {
    if subject["kind"] == "User" {
        subject["apiGroup"] = json!("rbac.authorization.k8s.io");
    }
    let bindings = path(cluster, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings");
    let role =
        json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"});
    let binding = json!({"metadata": {"name": name}, "roleRef": role, "subjects": [subject]});
    server.create(&bindings, binding).await;
}

async fn bound_token(server: &Server, cluster: &'static str, account: &Value) -> Credential {
    let name = account["metadata"]["name"].as_str().unwrap();
    let tokens = path(cluster, &format!("/api/v1/namespaces/default/serviceaccounts/{name}/token"));
    let answer = server.create(&tokens, json!({"spec": {"audiences": ["api"]}})).await;
    let token = json!({"token": answer["status"]["token"]});
    Credential::new(server, "service account token", cluster, token).await
}

/// A token in a Secret, which a controller writes.
async fn legacy_token(server: &Server, cluster: &'static str, account: &Value) -> Credential {
    let secrets = path(cluster, "/api/v1/namespaces/default/secrets");
    let annotations = json!({"kubernetes.io/service-account.name": account["metadata"]["name"]});
    let secret = json!({
        "metadata": {"name": "robot-token", "annotations": annotations},
        "type": "kubernetes.io/service-account-token",
    });
    server.create(&secrets, secret).await;
    server.idle().await;
    let secret = server.send(Method::GET, &format!("{secrets}/robot-token"), &Value::Null).await;
    let token = STANDARD.decode(secret["data"]["token"].as_str().unwrap()).unwrap();
    let token = json!({"token": String::from_utf8(token).unwrap()});
    Credential::new(server, "service account token in a secret", cluster, token).await
}

async fn bootstrap_token(server: &Server, cluster: &'static str) -> Credential {
    // Each cluster has its own token; the same one would be valid in all of them.
    let digit = server::CLUSTERS.iter().position(|other| *other == cluster).unwrap();
    let (id, secret) = (format!("abcde{digit}"), "0123456789abcdef");
    let secrets = path(cluster, "/api/v1/namespaces/kube-system/secrets");
    server
        .create(
            &secrets,
            json!({
                "metadata": {"name": format!("bootstrap-token-{id}")},
                "type": "bootstrap.kubernetes.io/token",
                "stringData": {"token-id": id, "token-secret": secret, "usage-bootstrap-authentication": "true"},
            }),
        )
        .await;
    let token = json!({"token": format!("{id}.{secret}")});
    Credential::new(server, "bootstrap token", cluster, token).await
}

/// A front proxy whose user is in `system:masters`.
async fn front_proxy(server: &Server) -> Credential {
    let mut params = CertificateParams::default();
    params.distinguished_name = subject("proxy", "proxies");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, &server.proxies).unwrap();
    let shown = json!({
        "client-certificate-data": STANDARD.encode(certificate.pem()),
        "client-key-data": STANDARD.encode(key.serialize_pem()),
    });
    let mut credential = Credential::new(server, "front proxy", "default", shown).await;
    credential.headers =
        vec![("x-remote-user", "admin".to_owned()), ("x-remote-group", "system:masters".to_owned())];
    credential
}

fn subject(user: &str, group: &str) -> DistinguishedName {
    let mut subject = DistinguishedName::new();
    subject.push(DnType::OrganizationName, group);
    subject.push(DnType::CommonName, user);
    subject
}
