//! `coracle certs list`: certificates and keys with their expiry.

use anyhow::{Context, Result};
use clap::Args;
use coracle::certs::{self, Item, Role};
use coracle_base::{Clock, Timestamp};
use coracle_meta::table::human_duration;
use coracle_meta::time::Time;
use serde::Serialize;

use super::super::print;
use crate::args::{DataDirArgs, Output};
use crate::table::aligned;

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    location: DataDirArgs,
    /// Output format.
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: Output,
}

/// One item of the JSON output.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    name: String,
    role: &'static str,
    subject: String,
    names: Vec<String>,
    usages: Vec<String>,
    signer: String,
    expires: Option<String>,
    remaining_seconds: Option<u64>,
    /// Time of the next automatic rotation step.
    due: Option<String>,
}

pub(super) fn run(args: &ListArgs) -> Result<()> {
    let items = certs::list(&args.location.path()?)?;
    let now = Clock::system().now();
    match args.output {
        Output::Text => print(&text(&items, now)),
        Output::Json => print(&json(&items, now)?),
    }
}

fn role(role: Role) -> &'static str {
    match role {
        Role::Authority => "authority",
        Role::NextAuthority => "next authority",
        Role::OldAuthority => "old authority",
        Role::Server => "server",
        Role::Client => "client",
        Role::TokenKey => "token key",
        _ => "other",
    }
}

fn text(items: &[Item], now: Timestamp) -> String {
    // Long columns come last, so that the others stay visible in a narrow terminal.
    let header = ["NAME", "ROLE", "EXPIRES", "REMAINING", "DUE", "SIGNER", "SUBJECT", "USAGES", "NAMES"];
    let row = |item: &Item| {
        let or_none = |text: String| if text.is_empty() { "-".to_owned() } else { text };
        [
            item.name.clone(),
            role(item.role).to_owned(),
            or_none(item.expires.map(time).unwrap_or_default()),
            item.expires.map_or_else(|| "-".to_owned(), |ends| remaining(ends, now)),
            or_none(item.due.map(time).unwrap_or_default()),
            or_none(item.signer.clone()),
            or_none(item.subject.clone()),
            or_none(item.usages.join(",")),
            or_none(item.names.join(",")),
        ]
    };
    let rows: Vec<_> = std::iter::once(header.map(str::to_owned)).chain(items.iter().map(row)).collect();
    aligned(&rows)
}

fn json(items: &[Item], now: Timestamp) -> Result<String> {
    let row = |item: &Item| Row {
        name: item.name.clone(),
        role: role(item.role),
        subject: item.subject.clone(),
        names: item.names.clone(),
        usages: item.usages.clone(),
        signer: item.signer.clone(),
        expires: item.expires.map(time),
        remaining_seconds: item.expires.map(|ends| ends.since(now).as_secs()),
        due: item.due.map(time),
    };
    let rows: Vec<Row> = items.iter().map(row).collect();
    let json = serde_json::to_string_pretty(&rows).context("cannot write the list as JSON")?;
    Ok(json + "\n")
}

fn time(moment: Timestamp) -> String {
    Time(i64::try_from(moment.as_millis() / 1000).unwrap_or(i64::MAX)).to_string()
}

fn remaining(ends: Timestamp, now: Timestamp) -> String {
    let left = ends.since(now);
    if left.is_zero() {
        return "expired".to_owned();
    }
    human_duration(i64::try_from(left.as_secs()).unwrap_or(i64::MAX))
}
