//! Attacks by ordinary users, and their cost: server memory, and latency of bystanders.
//!
//! `coracle-bench attack` (called by `cargo xtask bench attack`) starts Coracle and measures two bystanders, a user
//! and a node, first alone and then during each attack.

mod attackers;
mod bystanders;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use coracle_benches::measure::{block_on, ratio, report};
use serde_json::json;

use self::attackers::{ATTACKS, Attack};
use self::bystanders::{NODE, USER};
use crate::client::Connector;
use crate::kubeconfig::{Credential, Kubeconfig};
use crate::objects::post;
use crate::servers::{Coracle, Running, System};
use crate::usage::Processes;

/// Maximum p99 latency of a bystander during an attack.
const MAX_P99: Duration = Duration::from_millis(200);

const MIB: u64 = 1 << 20;

/// Start Coracle, attack it, and measure the latency of other users.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Coracle binary to attack [default: the one built beside this program].
    #[arg(long, value_name = "PROGRAM")]
    coracle: Option<PathBuf>,
    /// Directory of the server's data.
    #[arg(long, default_value = "target/bench")]
    dir: PathBuf,
    /// Duration of each attack in seconds.
    #[arg(long, default_value_t = 8)]
    seconds: u64,
    /// Run only attacks whose name contains this text.
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
}

/// Users with a static token, which equals their name.
const USERS: &[(&str, &str)] = &[
    (USER, ""),
    (NODE, "system:nodes"),
    ("mallory", ""),
    ("oscar", ""),
    ("trudy", ""),
    ("editor-1", ""),
    ("editor-2", ""),
    ("editor-3", ""),
];

/// Users who may write in the namespace `default`.
const EDITORS: &[&str] = &[USER, "editor-1", "editor-2", "editor-3"];

/// A server and its data directory, to connect to as any user.
struct Site {
    kubeconfig: PathBuf,
    server: Processes,
}

impl Site {
    /// Connects as a user.
    fn connector(&self, user: &str) -> Result<Connector> {
        let admin = Kubeconfig::read(&self.kubeconfig, None)?;
        Connector::new(&Kubeconfig { credential: Credential::Token(user.to_owned()), ..admin })
    }
}

impl Options {
    /// Runs all attacks, each on its own server, and prints a line per figure. Returns true if all targets were met.
    pub(crate) fn run(&self) -> Result<bool> {
        fs::create_dir_all(&self.dir).with_context(|| self.dir.display().to_string())?;
        let mut all_met = true;
        for attack in ATTACKS.iter().filter(|attack| attack.name.contains(&self.only)) {
            all_met &= self.run_one(attack).with_context(|| attack.name.to_owned())?;
        }
        Ok(all_met)
    }

    fn run_one(&self, attack: &Attack) -> Result<bool> {
        let dir = tempfile::tempdir_in(&self.dir)?;
        let running = self.start(dir.path())?;
        let site =
            Site { kubeconfig: Coracle::kubeconfig(dir.path()), server: running.target.processes.clone() };
        let met = block_on(async {
            grant(&running.target.connector).await?;
            self.measure(&site, attack).await
        })?;
        running.stop()?;
        Ok(met)
    }

    fn start(&self, dir: &Path) -> Result<Running> {
        let program = match &self.coracle {
            Some(program) => program.clone(),
            None => std::env::current_exe()?.with_file_name("coracle"),
        };
        let tokens = dir.join("tokens.csv");
        let line = |(user, group): &(&str, &str)| format!("{user},{user},{user},\"{group}\"\n");
        fs::write(&tokens, USERS.iter().map(line).collect::<String>())?;
        fs::set_permissions(&tokens, fs::Permissions::from_mode(0o600))?;
        let arguments = vec!["--token-auth-file".into(), tokens.into()];
        Coracle { program, arguments, etcd: None }.start(dir)
    }

    async fn measure(&self, site: &Site, attack: &Attack) -> Result<bool> {
        let duration = Duration::from_secs(self.seconds);
        let bystanders = bystanders::prepare(site).await?;
        let mut quiet = bystanders.measure(duration).await?;
        site.server.reset_peak()?;
        let before = site.server.peak_bytes()?;
        let attackers = attack.begin(site).await.context("the attack does not begin")?;
        let measured = bystanders.measure(duration).await;
        let grown = site.server.peak_bytes()?.saturating_sub(before);
        attackers.end().await;
        let mut measured = measured.context("a bystander is not served")?;
        let mut all_met = true;
        for (who, during, alone) in
            [("user", &mut measured.user, &mut quiet.user), ("node", &mut measured.node, &mut quiet.node)]
        {
            let (p99, alone) = (during.percentile(99.0), alone.percentile(99.0));
            let (times, slowest) = (ratio(p99, alone), during.percentile(100.0));
            let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
            let figure = format!(
                "{who} p99 {:.1} ms = {times:.1} × alone, slowest {:.1} ms",
                milliseconds(p99),
                milliseconds(slowest)
            );
            report(attack.name, &figure, "under 200 ms", p99 < MAX_P99);
            all_met &= p99 < MAX_P99;
        }
        let (figure, aim) = (format!("{} MiB above idle", grown / MIB), attack.max_growth_mib);
        let is_small = grown < aim * MIB;
        report(attack.name, &figure, &format!("under {aim} MiB"), is_small);
        Ok(all_met && is_small)
    }
}

/// Grants the editors write access.
async fn grant(admin: &Connector) -> Result<()> {
    let subjects: Vec<_> = EDITORS
        .iter()
        .map(|name| json!({"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"}))
        .collect();
    let role = json!({"kind": "ClusterRole", "name": "edit", "apiGroup": "rbac.authorization.k8s.io"});
    let binding = json!({"metadata": {"name": "editors"}, "roleRef": role, "subjects": subjects});
    let path = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
    admin.connect().await?.fetch(post(path, binding.to_string())).await?;
    Ok(())
}
