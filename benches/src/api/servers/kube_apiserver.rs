//! Runs kube-apiserver with its default settings, apart from required flags.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use coracle_benches::etcd::{Etcd, free_port};
use coracle_benches::measure::start;

use super::{Running, Server, SharedEtcd, System, endpoints, pki};

/// The binaries.
pub(crate) struct KubeApiserver {
    pub(crate) kube_apiserver: PathBuf,
    pub(crate) etcd: EtcdSource,
}

/// The etcd of a kube-apiserver.
pub(crate) enum EtcdSource {
    /// Started together with the server.
    Own(PathBuf),
    /// Running already and shared with another server.
    Shared(SharedEtcd),
}

impl EtcdSource {
    fn get(&self, dir: &Path) -> Result<SharedEtcd> {
        match self {
            Self::Own(program) => {
                let etcd = Etcd::start(program, dir);
                etcd.map(|etcd| SharedEtcd::from([etcd]))
                    .with_context(|| format!("starting {}", program.display()))
            }
            Self::Shared(etcd) => Ok(etcd.clone()),
        }
    }
}

impl System for KubeApiserver {
    fn name(&self) -> &str {
        "kube-apiserver + etcd"
    }

    fn start(&self, dir: &Path) -> Result<Running> {
        let pki = pki::write(&dir.join("pki"))?;
        let port = free_port();
        let kubeconfig = pki.write_kubeconfig(&format!("https://127.0.0.1:{port}"))?;
        let begin = start();
        let etcd = self.etcd.get(&dir.join("etcd"))?;
        let mut command = Command::new(&self.kube_apiserver);
        command
            .args(["--etcd-servers", &endpoints(&etcd)])
            .args(["--bind-address", "127.0.0.1", "--secure-port", &port.to_string()])
            .args(["--authorization-mode", "RBAC", "--service-cluster-ip-range", "10.96.0.0/16"])
            .args(["--service-account-issuer", "https://kubernetes.default.svc"])
            .arg("--service-account-key-file")
            .arg(pki.path("service-account.pub"))
            .arg("--service-account-signing-key-file")
            .arg(pki.path("service-account.key"))
            .arg("--client-ca-file")
            .arg(pki.path("ca.crt"))
            .arg("--tls-cert-file")
            .arg(pki.path("server.crt"))
            .arg("--tls-private-key-file")
            .arg(pki.path("server.key"));
        let server = Server::spawn(&mut command, dir.join("kube-apiserver.log"))?;
        Running::wait(self.name(), server, &kubeconfig, Some(etcd), begin)
    }
}
