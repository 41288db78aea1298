//! Servers that the comparison starts and stops.

mod coracle;
mod kube_apiserver;
mod pki;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use coracle_benches::etcd::Etcd;
use coracle_benches::measure::start;
use rustix::process::{Pid, Signal, kill_process};

pub(crate) use self::coracle::Coracle;
pub(crate) use self::kube_apiserver::{EtcdSource, KubeApiserver};
use crate::client::Connector;
use crate::kubeconfig::Kubeconfig;
use crate::load::{self, Target};
use crate::usage::Processes;
use crate::workload;

/// Maximum time for a server to start or stop.
const LIMIT: Duration = Duration::from_secs(60);

/// Members of an etcd cluster, stopped with their last user.
pub(crate) type SharedEtcd = Arc<[Etcd]>;

/// Their URLs in the format that both servers accept.
fn endpoints(etcd: &SharedEtcd) -> String {
    let endpoints: Vec<&str> = etcd.iter().map(|member| member.endpoint.as_str()).collect();
    endpoints.join(",")
}

/// A server that implements the Kubernetes API.
pub(crate) trait System {
    /// Name in the tables.
    fn name(&self) -> &str;
    /// Starts the server with its data in `dir`, new or existing, and waits until it is ready.
    fn start(&self, dir: &Path) -> Result<Running>;
}

/// A server that is ready; killed when dropped.
pub(crate) struct Running {
    pub(crate) target: Target,
    pub(crate) ready_in: Duration,
    server: Server,
    etcd: Option<SharedEtcd>,
}

impl Running {
    /// Waits until the server started at `begin` is ready.
    fn wait(
        name: &str,
        mut server: Server,
        kubeconfig: &Path,
        etcd: Option<SharedEtcd>,
        begin: Instant,
    ) -> Result<Self> {
        let connector = load::runtime()?.block_on(server.ready(kubeconfig, begin))?;
        let ready_in = begin.elapsed();
        let etcds = etcd.iter().flat_map(|etcd| etcd.iter().map(Etcd::pid));
        let processes = std::iter::once(server.process.id()).chain(etcds).collect();
        let target = Target { name: name.to_owned(), connector, processes: Processes(processes) };
        Ok(Self { target, ready_in, server, etcd })
    }

    /// Stops the server gracefully and waits for it.
    pub(crate) fn stop(mut self) -> Result<()> {
        self.server.terminate()?;
        drop(self.etcd.take());
        Ok(())
    }
}

/// The process that serves the API.
struct Server {
    process: Child,
    log: PathBuf,
}

impl Server {
    /// Starts a program with its output redirected to a file.
    fn spawn(command: &mut Command, log: PathBuf) -> Result<Self> {
        let file = File::create(&log)?;
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let process =
            command.spawn().with_context(|| format!("starting {}", command.get_program().display()))?;
        Ok(Self { process, log })
    }

    /// Polls the server at growing intervals until it is ready.
    async fn ready(&mut self, kubeconfig: &Path, begin: Instant) -> Result<Connector> {
        loop {
            let failure = match attempt(kubeconfig).await {
                Ok(connector) => return Ok(connector),
                Err(failure) => failure,
            };
            if let Some(status) = self.process.try_wait()? {
                bail!("the server ended with {status}; see {}", self.log.display());
            }
            let waited = begin.elapsed();
            if waited > LIMIT {
                return Err(
                    failure.context(format!("not ready after {waited:?}; see {}", self.log.display()))
                );
            }
            tokio::time::sleep((waited / 50).clamp(Duration::from_millis(1), Duration::from_millis(20)))
                .await;
        }
    }

    fn terminate(&mut self) -> Result<()> {
        let pid =
            i32::try_from(self.process.id()).ok().and_then(Pid::from_raw).context("the process has an id")?;
        kill_process(pid, Signal::TERM)?;
        let begin = start();
        load::runtime()?.block_on(async {
            while self.process.try_wait()?.is_none() {
                if begin.elapsed() > LIMIT {
                    bail!("the server does not stop; see {}", self.log.display());
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            Ok(())
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// One attempt; the kubeconfig may not exist until the server has started.
async fn attempt(kubeconfig: &Path) -> Result<Connector> {
    let connector = Connector::new(&Kubeconfig::read(kubeconfig, None)?)?;
    workload::ready(&connector).await?;
    Ok(connector)
}
