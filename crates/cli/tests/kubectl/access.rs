//! Authorization and certificate signing requests.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::session::{Session, has};

#[tokio::test]
async fn administrator_is_allowed_everything() {
    let kubectl = Session::start().await;
    assert_eq!(kubectl.ok("auth can-i create pods").await.trim(), "yes");
    assert_eq!(kubectl.ok("auth can-i '*' '*' -A").await.trim(), "yes");
    has(&kubectl.ok("auth can-i --list").await, &["Resources", "*.*"]);
    has(&kubectl.ok("auth whoami").await, &["Username", "Groups", "system:masters"]);
    kubectl.stop().await;
}

#[tokio::test]
async fn auth_reconcile_creates_roles() {
    let kubectl = Session::start().await;
    let role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: r, namespace: default}\nrules: [{apiGroups: [''], resources: [pods], verbs: [get]}]\n";
    has(
        &kubectl.ok_with("auth reconcile -f -", role).await,
        &["role.rbac.authorization.k8s.io/r reconciled"],
    );
    let more = role.replace("[get]", "[get, list]");
    kubectl.ok_with("auth reconcile -f -", &more).await;
    has(&kubectl.ok("describe role r").await, &["pods", "list"]);
    kubectl.stop().await;
}

#[tokio::test]
async fn certificate_requests_are_approved_and_denied() {
    let kubectl = Session::start().await;
    let key = rcgen::KeyPair::generate().expect("a key");
    let request = rcgen::CertificateParams::new(Vec::<String>::new())
        .and_then(|params| params.serialize_request(&key))
        .and_then(|request| request.pem())
        .expect("a request");
    for name in ["yes", "no"] {
        let csr = format!(
            "apiVersion: certificates.k8s.io/v1\nkind: CertificateSigningRequest\nmetadata: {{name: '{name}'}}\nspec:\n  request: {}\n  signerName: example.com/signer\n  usages: [client auth]\n",
            STANDARD.encode(&request)
        );
        kubectl.ok_with("create -f -", &csr).await;
    }
    has(&kubectl.ok("get csr").await, &["example.com/signer", "Pending"]);
    has(&kubectl.ok("certificate approve yes").await, &["approved"]);
    has(&kubectl.ok("certificate deny no").await, &["denied"]);
    has(&kubectl.ok("get csr").await, &["Approved", "Denied"]);
    kubectl.stop().await;
}
