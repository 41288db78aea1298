//! Runs `coracle server`, on files unless an etcd is given.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use coracle_benches::etcd::free_port;
use coracle_benches::measure::start;

use super::{Running, Server, SharedEtcd, System, endpoints};

/// The `coracle` binary of this workspace.
pub(crate) struct Coracle {
    pub(crate) program: PathBuf,
    /// Additional arguments of `coracle server`.
    pub(crate) arguments: Vec<OsString>,
    /// The etcd used as its store.
    pub(crate) etcd: Option<SharedEtcd>,
}

impl Coracle {
    /// The administrator's kubeconfig of a server with the data directory `dir`.
    pub(crate) fn kubeconfig(dir: &Path) -> PathBuf {
        dir.join("data").join("admin.kubeconfig")
    }
}

impl System for Coracle {
    fn name(&self) -> &str {
        if self.etcd.is_some() { "Coracle + etcd" } else { "Coracle" }
    }

    fn start(&self, dir: &Path) -> Result<Running> {
        let data = dir.join("data");
        let address = format!("127.0.0.1:{}", free_port());
        let mut command = Command::new(&self.program);
        command.args(["server", "--listen", &address, "--data-dir"]).arg(&data);
        // Like kube-apiserver, with which it is compared.
        command.args(["--disable-controller-manager", "--disable-scheduler"]).args(&self.arguments);
        if let Some(etcd) = &self.etcd {
            command.arg("--store").arg(format!("etcd={}", endpoints(etcd)));
        }
        let begin = start();
        let server = Server::spawn(&mut command, dir.join("coracle.log"))?;
        Running::wait(self.name(), server, &Self::kubeconfig(dir), self.etcd.clone(), begin)
    }
}
