//! A server with three clusters that supports every authentication method.

use std::fs;
use std::time::Duration;

use coracle::authentication::{Authentication, FrontProxy, FrontProxyConfig};
use coracle::clusters::LimitsChange;
use coracle::kube::Client;
use coracle::kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use coracle::{Config, Coracle, Handle, StoreConfig, kube};
use http::{Method, Request};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::Value;
use tempfile::TempDir;

/// The clusters of the server.
pub(crate) const CLUSTERS: [&str; 3] = ["default", "t1", "t2"];

/// All clusters at once.
pub(crate) const ALL: &str = "*";

/// A token of the token file; its user is in `system:masters`.
pub(crate) const STATIC_TOKEN: &str = "planted-static-token";

/// Time limit of a wait; reaching it means that the expected state does not come about.
const LIMIT: Duration = Duration::from_secs(60);

pub(crate) struct Server {
    pub(crate) handle: Handle,
    pub(crate) dir: TempDir,
    /// Signs the certificates of front proxies.
    pub(crate) proxies: CertifiedIssuer<'static, KeyPair>,
}

/// A path within a cluster.
pub(crate) fn path(cluster: &str, path: &str) -> String {
    if cluster == "default" { path.to_owned() } else { format!("/clusters/{cluster}{path}") }
}

impl Server {
    pub(crate) async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let token_file = dir.path().join("tokens.csv");
        fs::write(&token_file, format!("{STATIC_TOKEN},jane,7,\"system:masters\"\n")).unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let proxies = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let ca_file = dir.path().join("proxies.crt");
        fs::write(&ca_file, proxies.pem()).unwrap();
        let authentication = Authentication {
            token_file: Some(token_file),
            front_proxy: Some(FrontProxyConfig { ca_file, headers: FrontProxy::default() }),
            // The same audience in all clusters must not make their tokens interchangeable.
            api_audiences: vec!["api".to_owned()],
            ..Authentication::default()
        };
        let config = Config {
            store: StoreConfig::Memory,
            listen: vec!["127.0.0.1:0".parse().unwrap()],
            authentication,
            ..Config::new(dir.path().join("data"))
        };
        let handle = Coracle::start(config).await.unwrap();
        for id in CLUSTERS.into_iter().filter(|id| *id != "default") {
            handle.create_cluster(id, LimitsChange::default()).await.unwrap();
        }
        Self { handle, dir, proxies }
    }

    pub(crate) async fn stop(self) {
        self.handle.shutdown().await;
    }

    pub(crate) async fn idle(&self) {
        tokio::time::timeout(LIMIT, self.handle.run_until_idle()).await.unwrap().unwrap();
    }

    /// Sends a request from within the process.
    pub(crate) async fn send(&self, method: Method, path: &str, body: &Value) -> Value {
        let bytes = if body.is_null() { Vec::new() } else { serde_json::to_vec(body).unwrap() };
        let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
        let answer = self.handle.client().request(request.body(bytes).unwrap()).await;
        answer.unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    pub(crate) async fn create(&self, path: &str, body: Value) -> Value {
        self.send(Method::POST, path, &body).await
    }

    /// A network client with this credential, whose paths are those of the server.
    pub(crate) async fn client(&self, auth_info: AuthInfo) -> Client {
        let mut kubeconfig = self.admin_kubeconfig();
        kubeconfig.auth_infos[0].auth_info = Some(auth_info);
        client(kubeconfig).await
    }

    pub(crate) fn admin_kubeconfig(&self) -> Kubeconfig {
        Kubeconfig::read_from(self.handle.kubeconfig().unwrap()).unwrap()
    }
}

pub(crate) async fn client(kubeconfig: Kubeconfig) -> Client {
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    Client::try_from(config.unwrap()).unwrap()
}
