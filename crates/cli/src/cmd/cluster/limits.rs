//! `coracle cluster set-limits`, and the limits of `coracle cluster create`.

use anyhow::{Result, bail};
use clap::Args;
use coracle::clusters::{self, LimitsChange};

use super::{ServerArgs, api_client, explain, print};

const UNLIMITED: &str = "unlimited";

/// Quantity suffixes as in Kubernetes.
const SUFFIXES: &[(&str, u64)] = &[
    ("Ki", 1 << 10),
    ("Mi", 1 << 20),
    ("Gi", 1 << 30),
    ("Ti", 1 << 40),
    ("k", 1_000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
    ("T", 1_000_000_000_000),
];

/// Storage limits of a cluster.
#[derive(Debug, Args)]
pub(super) struct LimitArgs {
    /// Store at most this many bytes, such as 256Mi or 1Gi; or "unlimited".
    #[arg(long, value_name = "QUANTITY", value_parser = parse)]
    max_bytes: Option<Limit>,
    /// Store at most this many objects, such as 10000 or 10k; or "unlimited".
    #[arg(long, value_name = "NUMBER", value_parser = parse)]
    max_objects: Option<Limit>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limit(pub(crate) Option<u64>);

impl LimitArgs {
    pub(super) fn change(&self) -> LimitsChange {
        let given = |limit: Option<Limit>| limit.map(|Limit(limit)| limit);
        LimitsChange { max_bytes: given(self.max_bytes), max_objects: given(self.max_objects) }
    }
}

#[derive(Debug, Args)]
pub(crate) struct SetLimitsArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// Id of the cluster.
    #[arg(value_name = "ID", value_parser = api_client::cluster_id)]
    id: String,
    #[command(flatten)]
    limits: LimitArgs,
}

pub(super) async fn run(args: &SetLimitsArgs) -> Result<()> {
    let change = args.limits.change();
    if change == LimitsChange::default() {
        bail!("nothing to change: pass --max-bytes or --max-objects");
    }
    let client = args.server.client().await?;
    let changed = clusters::set_limits(&client, &args.id, &change).await.map_err(explain)?;
    let [bytes, objects] = [changed.limits.max_bytes, changed.limits.max_objects].map(text);
    print(&format!("changed: {}: at most {bytes} bytes and {objects} objects\n", args.id))
}

/// Parses a quantity or "unlimited".
pub(crate) fn parse(text: &str) -> Result<Limit, String> {
    if text == UNLIMITED {
        return Ok(Limit(None));
    }
    let split = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    let (number, suffix) = text.split_at(split);
    let factor = if suffix.is_empty() {
        Some(1)
    } else {
        SUFFIXES.iter().find(|(known, _)| *known == suffix).map(|(_, factor)| *factor)
    };
    let limit =
        number.parse::<u64>().ok().zip(factor).and_then(|(number, factor)| number.checked_mul(factor));
    limit.map(|limit| Limit(Some(limit))).ok_or_else(|| {
        format!(
            "expected a whole number with an optional suffix Ki, Mi, Gi, Ti, k, M, G or T; or {UNLIMITED}"
        )
    })
}

/// Formats a limit for output.
pub(super) fn text(limit: Option<u64>) -> String {
    limit.map_or_else(|| UNLIMITED.to_owned(), |limit| limit.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_parse_as_quantities_or_unlimited() {
        for (text, limit) in
            [("0", Some(0)), ("7", Some(7)), ("1Gi", Some(1 << 30)), ("10k", Some(10_000)), (UNLIMITED, None)]
        {
            assert_eq!(parse(text), Ok(Limit(limit)), "{text}");
        }
        for text in ["", "-1", "1.5Gi", "Gi", "1gi", "1 Gi", "99999999999Ti"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
