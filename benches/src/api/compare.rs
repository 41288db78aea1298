//! Runs several servers under the same loads, one after the other, never concurrently.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use coracle_benches::etcd::Etcd;

use crate::load;
use crate::report::{Report, State};
use crate::servers::{Coracle, EtcdSource, KubeApiserver, Running, SharedEtcd, System};
use crate::workload::{self, Workload};

/// Time for background work of a server after it is ready or after a load, before its memory is measured.
const SETTLE: Duration = Duration::from_secs(10);

/// Start Coracle, and kube-apiserver if its programs are given, and run the same loads on both.
#[derive(Args, Debug)]
pub(crate) struct Compare {
    /// Coracle binary to measure [default: the one built beside this program].
    #[arg(long, value_name = "PROGRAM")]
    coracle: Option<PathBuf>,
    /// kube-apiserver to compare with.
    #[arg(long, value_name = "PROGRAM", requires = "etcd")]
    kube_apiserver: Option<PathBuf>,
    /// etcd for kube-apiserver.
    #[arg(long, value_name = "PROGRAM")]
    etcd: Option<PathBuf>,
    /// Run both servers on one etcd cluster of COUNT members [default: Coracle on files, kube-apiserver on one
    /// member].
    #[arg(long, value_name = "COUNT", requires = "etcd")]
    etcd_members: Option<usize>,
    /// Directory of the servers' data, on the disk to be measured.
    #[arg(long, default_value = "target/bench")]
    dir: PathBuf,
    #[command(flatten)]
    workload: workload::Options,
}

impl Compare {
    pub(crate) fn run(&self) -> Result<Vec<Report>> {
        std::fs::create_dir_all(&self.dir).with_context(|| self.dir.display().to_string())?;
        let members = tempfile::tempdir_in(&self.dir)?;
        let etcd = self.shared_etcd(members.path())?;
        self.systems(etcd)?.iter().map(|system| self.measure(&**system)).collect()
    }

    fn shared_etcd(&self, dir: &Path) -> Result<Option<SharedEtcd>> {
        let (Some(program), Some(count)) = (&self.etcd, self.etcd_members) else { return Ok(None) };
        let members = Etcd::start_cluster(program, dir, count);
        let members = members.with_context(|| format!("starting {}", program.display()))?;
        Ok(Some(members.into()))
    }

    fn systems(&self, shared: Option<SharedEtcd>) -> Result<Vec<Box<dyn System>>> {
        let program = match &self.coracle {
            Some(program) => program.clone(),
            None => std::env::current_exe()?.with_file_name("coracle"),
        };
        let coracle = Coracle { program, arguments: Vec::new(), etcd: shared.clone() };
        let mut systems: Vec<Box<dyn System>> = vec![Box::new(coracle)];
        if let (Some(kube_apiserver), Some(etcd)) = (&self.kube_apiserver, &self.etcd) {
            let etcd = shared.map_or_else(|| EtcdSource::Own(etcd.clone()), EtcdSource::Shared);
            systems.push(Box::new(KubeApiserver { kube_apiserver: kube_apiserver.clone(), etcd }));
        }
        Ok(systems)
    }

    /// Measures one system.
    fn measure(&self, system: &dyn System) -> Result<Report> {
        let dir = tempfile::tempdir_in(&self.dir)?;
        let (mut report, workload) = (Report::new(system.name()), Workload::new(&self.workload));
        let measured = self.measure_servers(system, dir.path(), &workload, &mut report);
        if measured.is_err() {
            // To keep the log.
            eprintln!("the files of {} stay in {}", system.name(), dir.keep().display());
        }
        measured.map(|()| report)
    }

    fn measure_servers(
        &self,
        system: &dyn System,
        dir: &Path,
        workload: &Workload,
        report: &mut Report,
    ) -> Result<()> {
        if !workload.wants_only_definitions() {
            self.measure_server(system, &created(dir.join("loads"))?, workload, report)?;
        }
        if workload.wants_definitions() {
            self.measure_server_with_definitions(
                system,
                &created(dir.join("definitions"))?,
                workload,
                report,
            )?;
        }
        Ok(())
    }

    /// Measures a new server: installs hundreds of definitions, runs discovery, and restarts it.
    fn measure_server_with_definitions(
        &self,
        system: &dyn System,
        dir: &Path,
        workload: &Workload,
        report: &mut Report,
    ) -> Result<()> {
        let running = system.start(dir)?;
        memory(report, &running, "Resident memory before any CRD")?;
        workload.install(&running.target, report)?;
        memory(report, &running, "Resident memory, 500 CRDs")?;
        workload.discover(&running.target, report)?;
        memory(report, &running, "Resident memory, 500 CRDs, after discovery and OpenAPI")?;
        running.stop()?;

        let running = system.start(dir)?;
        note(report, &running, "Start to ready, 500 CRDs", State::Time(running.ready_in));
        memory(report, &running, "Resident memory, 500 CRDs, after that start")?;
        running.stop()
    }

    /// Measures one server: empty, filled, restarted, and under load.
    fn measure_server(
        &self,
        system: &dyn System,
        dir: &Path,
        workload: &Workload,
        report: &mut Report,
    ) -> Result<()> {
        let running = system.start(dir)?;
        note(report, &running, "Start to ready, empty", State::Time(running.ready_in));
        memory(report, &running, "Resident memory, idle")?;
        workload.prepare(&running.target)?;
        workload.fill(&running.target, report)?;
        memory(report, &running, "Resident memory, 10 000 ConfigMaps")?;
        running.stop()?;

        let running = system.start(dir)?;
        note(report, &running, "Start to ready, 10 000 ConfigMaps", State::Time(running.ready_in));
        memory(report, &running, "Resident memory, idle after that start")?;
        workload.run(&running.target, report)?;
        memory(report, &running, "Resident memory, after all loads")?;
        running.stop()
    }
}

/// Creates a directory if it does not exist.
fn created(dir: PathBuf) -> Result<PathBuf> {
    std::fs::create_dir_all(&dir).with_context(|| dir.display().to_string())?;
    Ok(dir)
}

fn memory(report: &mut Report, running: &Running, what: &'static str) -> Result<()> {
    load::runtime()?.block_on(async { tokio::time::sleep(SETTLE).await });
    let bytes = running.target.processes.resident_bytes()?;
    note(report, running, what, State::Memory(bytes));
    Ok(())
}

fn note(report: &mut Report, running: &Running, what: &'static str, state: State) {
    eprintln!("{}: {what}: {}", running.target.name, state.text());
    report.states.push((what, state));
}
