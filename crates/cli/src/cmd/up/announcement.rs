//! The lines that `coracle up` prints once the cluster is ready.
//!
//! Scripts read the first two, so further lines come after them.

use std::path::{self, Path};
use std::time::Duration;

use coracle::{Config, NodeSummary, StoreConfig};

use crate::shell;

/// The data of the announcement.
#[derive(Debug)]
pub(super) struct Announcement<'a> {
    pub(super) ready_in: Duration,
    pub(super) urls: &'a [String],
    pub(super) kubeconfig: Option<&'a Path>,
    pub(super) nodes: NodeSummary,
    pub(super) config: &'a Config,
}

impl Announcement<'_> {
    pub(super) fn text(&self) -> String {
        let mut text = format!("ready in {} ms at {}\n", self.ready_in.as_millis(), self.urls.join(", "));
        if let Some(kubeconfig) = self.kubeconfig {
            let path = absolute(kubeconfig);
            text.push_str(&format!("export KUBECONFIG={}\n", shell::quoted(&path)));
        }
        let data = match self.config.store {
            StoreConfig::Disk => format!("data in {}", absolute(&self.config.data_dir)),
            StoreConfig::Memory => "data in memory, gone when the cluster stops".to_owned(),
            StoreConfig::Etcd(_) => "data in etcd".to_owned(),
        };
        text.push_str(&format!("cluster {}: {data}\n", self.config.cluster_name()));
        for line in self.node_lines() {
            text.push_str(&format!("{line}\n"));
        }
        if self.config.insecure_http {
            let urls = self.urls.iter().map(|url| url.replacen("https:", "http:", 1)).collect::<Vec<_>>();
            text.push_str(&format!("plain HTTP, as administrator: {}\n", urls.join(", ")));
        }
        text.push_str("log: stderr; --log-level debug logs each request\n");
        text.push_str("stop: Ctrl-C\n");
        text
    }

    fn node_lines(&self) -> Vec<String> {
        let NodeSummary { total, simulated, deleted } = self.nodes;
        let simulates = self.config.fake_nodes.is_some();
        let mut lines = Vec::new();
        if deleted > 0 {
            lines.push(format!(
                "deleted {} of an earlier start: --fake-nodes {}",
                counted(deleted, "simulated node"),
                if simulates { "is lower now" } else { "is not set now" },
            ));
        }
        lines.push(match (total, simulated) {
            (0, _) => "no nodes: pods stay Pending; add simulated nodes with --fake-nodes 3".to_owned(),
            (total, 0) => counted(total, "node"),
            (total, simulated) if total == simulated => {
                counted(total, "simulated node") + ": pod status is simulated, no container runs"
            }
            (total, simulated) => format!("{}, {simulated} of them simulated", counted(total, "node")),
        });
        if simulated > 0 && !simulates {
            lines.push(format!(
                "{} will become NotReady: nothing simulates them without --fake-nodes 0",
                counted(simulated, "simulated node"),
            ));
        }
        lines
    }
}

/// Makes a path absolute, because users paste it in another directory.
fn absolute(path: &Path) -> String {
    path::absolute(path).unwrap_or_else(|_| path.to_owned()).to_string_lossy().into_owned()
}

fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

#[cfg(test)]
mod tests {
    use coracle::config::FakeNodes;

    use super::*;

    fn lines(total: usize, simulated: usize, deleted: usize, simulates: bool) -> Vec<String> {
        let nodes = NodeSummary { total, simulated, deleted };
        let fake_nodes = simulates.then(|| FakeNodes::new(0));
        let config = Config { store: StoreConfig::Memory, fake_nodes, ..Config::new("/data/dev") };
        let announcement = Announcement {
            ready_in: Duration::from_millis(12),
            urls: &["https://127.0.0.1:6443".to_owned()],
            kubeconfig: Some(Path::new("/my data/admin.kubeconfig")),
            nodes,
            config: &config,
        };
        announcement.text().lines().map(str::to_owned).collect()
    }

    #[test]
    fn announcement_begins_with_url_and_kubeconfig() {
        let lines = lines(0, 0, 0, false);
        assert_eq!(lines[0], "ready in 12 ms at https://127.0.0.1:6443");
        assert_eq!(lines[1], "export KUBECONFIG='/my data/admin.kubeconfig'");
        assert_eq!(lines[2], "cluster dev: data in memory, gone when the cluster stops");
        assert_eq!(lines.last().map(String::as_str), Some("stop: Ctrl-C"));
    }

    #[test]
    fn announcement_summarizes_nodes() {
        for (nodes, simulates, expected) in [
            ((0, 0, 0), false, &["no nodes: pods stay Pending; add simulated nodes with --fake-nodes 3"][..]),
            ((3, 3, 0), true, &["3 simulated nodes: pod status is simulated, no container runs"]),
            ((4, 1, 0), true, &["4 nodes, 1 of them simulated"]),
            ((2, 0, 0), false, &["2 nodes"]),
            (
                (1, 1, 2),
                true,
                &[
                    "deleted 2 simulated nodes of an earlier start: --fake-nodes is lower now",
                    "1 simulated node: pod status is simulated, no container runs",
                ],
            ),
            (
                (2, 1, 1),
                false,
                &[
                    "deleted 1 simulated node of an earlier start: --fake-nodes is not set now",
                    "2 nodes, 1 of them simulated",
                    "1 simulated node will become NotReady: nothing simulates them without --fake-nodes 0",
                ],
            ),
        ] {
            let (total, simulated, deleted) = nodes;
            let lines = lines(total, simulated, deleted, simulates);
            assert_eq!(&lines[3..lines.len() - 2], expected);
        }
    }
}
