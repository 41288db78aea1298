//! Flags of the node controllers, under the names of kube-controller-manager.

use std::time::Duration;

use anyhow::{Result, bail};
use clap::{ArgAction, Args as ClapArgs};
use coracle::ConfigError;
use coracle::config::{Cidr, NodeCidrs, NodeMonitor};

use crate::duration::duration;

/// Settings of the node controllers.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Nodes")]
pub(crate) struct NodeArgs {
    /// Mark a node NotReady after this long without a heartbeat.
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "40s")]
    node_monitor_grace_period: Duration,
    /// Time that a new node has for its first heartbeat.
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "1m")]
    node_startup_grace_period: Duration,
    /// Allocate a part of --cluster-cidr to each node for its pods.
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true,
          default_value_t = false, default_missing_value = "true")]
    allocate_node_cidrs: bool,
    /// IP range of pods; with a comma, one of IPv4 and one of IPv6.
    #[arg(long, value_name = "CIDR[,CIDR]", value_delimiter = ',')]
    cluster_cidr: Vec<Cidr>,
    /// Mask size of a node's IPv4 range.
    #[arg(long, value_name = "BITS", default_value_t = 24)]
    node_cidr_mask_size_ipv4: u8,
    /// Mask size of a node's IPv6 range.
    #[arg(long, value_name = "BITS", default_value_t = 64)]
    node_cidr_mask_size_ipv6: u8,
}

impl NodeArgs {
    pub(crate) fn monitor(&self) -> NodeMonitor {
        NodeMonitor {
            grace_period: self.node_monitor_grace_period,
            startup_grace_period: self.node_startup_grace_period,
            ..NodeMonitor::default()
        }
    }

    pub(crate) fn cidrs(&self) -> Result<Option<NodeCidrs>> {
        if !self.allocate_node_cidrs {
            return Ok(None);
        }
        if self.cluster_cidr.is_empty() {
            bail!("--allocate-node-cidrs needs --cluster-cidr");
        }
        let (v4, v6) = (self.node_cidr_mask_size_ipv4, self.node_cidr_mask_size_ipv6);
        Ok(Some(NodeCidrs::new(self.cluster_cidr.clone(), v4, v6).map_err(ConfigError::from)?))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: NodeArgs,
    }

    fn args(line: &str) -> NodeArgs {
        Line::try_parse_from(line.split(' ')).unwrap().args
    }

    #[test]
    fn no_flags_give_library_defaults() {
        assert_eq!(args("x").monitor(), NodeMonitor::default());
        assert_eq!(args("x").cidrs().unwrap(), None);
        assert_eq!(args("x --cluster-cidr 10.0.0.0/16").cidrs().unwrap(), None);
    }

    #[test]
    fn node_flags_are_set_in_config() {
        let given = args(
            "x --node-monitor-grace-period 20s --allocate-node-cidrs --cluster-cidr 10.0.0.0/16,fd00::/56 \
             --node-cidr-mask-size-ipv4 25",
        );
        assert_eq!(given.monitor().grace_period, Duration::from_secs(20));
        let ranges = vec!["10.0.0.0/16".parse().unwrap(), "fd00::/56".parse().unwrap()];
        assert_eq!(given.cidrs().unwrap(), Some(NodeCidrs::new(ranges, 25, 64).unwrap()));
        let none = args("x --allocate-node-cidrs").cidrs().unwrap_err();
        assert_eq!(none.to_string(), "--allocate-node-cidrs needs --cluster-cidr");
        let small = args("x --allocate-node-cidrs=true --cluster-cidr 10.0.0.0/25").cidrs().unwrap_err();
        assert!(small.to_string().starts_with("invalid --cluster-cidr: "), "{small}");
    }
}
