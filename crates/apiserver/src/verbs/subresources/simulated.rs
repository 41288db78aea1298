//! Logs, exec, attach, port-forward and proxies of pods on simulated nodes. All except logs are rejected with 400 at
//! once: a client retries after 503.

use coracle_base::Timestamp;
use coracle_meta::field::quoted;
use coracle_meta::time::Time;
use http::{HeaderValue, Response, header};
use serde_json::Value;

use super::super::ResourceRequest;
use super::known;
use crate::body::{ResponseBody, full};
use crate::negotiate;
use crate::simulated_nodes::LogLine;
use crate::status::Refusal;

/// The options of a log that select and format lines (`PodLogOptions`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct LogOptions {
    since: Option<Timestamp>,
    tail_lines: Option<usize>,
    limit_bytes: Option<usize>,
    timestamps: bool,
}

impl ResourceRequest {
    /// Returns the node, if it exists and is simulated.
    pub(super) async fn simulated_node(&self, name: &str) -> Result<Option<Value>, Refusal> {
        let Some(nodes) = &self.components.simulated_nodes else { return Ok(None) };
        let kind = known("", "v1", "nodes")?;
        let node = match self.cluster.get(kind, "", name, None).await {
            Err(coracle_registry::Error::NotFound(_)) => return Ok(None),
            found => negotiate::tree(&found?.json)?,
        };
        Ok(nodes.is_simulated(&node).then_some(node))
    }

    /// The rejection of a request that needs a connection to a container, a pod or a node.
    pub(super) async fn no_connection(&self, node: &str) -> Refusal {
        let simulated = match self.simulated_node(node).await {
            Ok(found) => found.is_some(),
            Err(refusal) => return refusal,
        };
        if !simulated {
            return self.unreachable(node);
        }
        let (plural, part) = (&self.kind.declaration().plural, &self.path.subresource);
        let subject = if &**plural == "nodes" {
            format!("node {} is simulated", quoted(node))
        } else {
            format!("pod {} runs on the simulated node {}", quoted(&self.path.name), quoted(node))
        };
        Refusal::bad_request(format!("{subject}: no container runs there, so {part} is not available"))
    }

    /// Returns the log of a container of a simulated node. All lines exist from the beginning, so `follow` ends with
    /// the last one.
    pub(super) fn simulated_log(
        &self,
        node: &Value,
        pod: &Value,
        container: &str,
    ) -> Result<Response<ResponseBody>, Refusal> {
        let Some(nodes) = &self.components.simulated_nodes else { return Err(Refusal::not_found()) };
        let lines = nodes.log(node, pod, container, self.query.flag("previous"));
        let text = log_text(lines.map_err(Refusal::bad_request)?, self.log_options()?);
        let mut response = Response::new(full(text));
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
        Ok(response)
    }

    fn log_options(&self) -> Result<LogOptions, Refusal> {
        let size = |number: Option<i64>| number.map(|number| usize::try_from(number).unwrap_or(usize::MAX));
        let since_time = self.query.text("sinceTime").parse::<Time>().ok().map(|time| seconds(time.0));
        let since_seconds =
            self.query.number("sinceSeconds")?.map(|age| seconds(self.now.saturating_sub(age)));
        Ok(LogOptions {
            since: since_time.or(since_seconds),
            tail_lines: size(self.query.number("tailLines")?),
            limit_bytes: size(self.query.number("limitBytes")?),
            timestamps: self.query.flag("timestamps"),
        })
    }
}

fn seconds(since_epoch: i64) -> Timestamp {
    Timestamp::from_millis(u64::try_from(since_epoch).unwrap_or_default().saturating_mul(1000))
}

fn log_text(lines: Vec<LogLine>, options: LogOptions) -> String {
    let lines: Vec<LogLine> =
        lines.into_iter().filter(|line| options.since.is_none_or(|since| line.at >= since)).collect();
    let skipped = options.tail_lines.map_or(0, |tail| lines.len().saturating_sub(tail));
    let mut text = String::new();
    for LogLine { at, text: line } in &lines[skipped..] {
        if options.timestamps {
            let at = i64::try_from(at.as_millis() / 1000).unwrap_or(i64::MAX);
            text.push_str(&format!("{} ", Time(at)));
        }
        text.push_str(line);
        text.push('\n');
    }
    if let Some(limit) = options.limit_bytes {
        text.truncate(text.floor_char_boundary(limit));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_options_select_and_format_lines() {
        let line = |at, text: &str| LogLine { at: seconds(at), text: text.to_owned() };
        let lines = || vec![line(1, "one"), line(1, "two"), line(5, "drei…")];
        let usual = LogOptions::default();
        for (options, expected) in [
            (usual, "one\ntwo\ndrei…\n"),
            (LogOptions { tail_lines: Some(2), ..usual }, "two\ndrei…\n"),
            (LogOptions { tail_lines: Some(0), ..usual }, ""),
            (LogOptions { tail_lines: Some(9), ..usual }, "one\ntwo\ndrei…\n"),
            (LogOptions { since: Some(seconds(2)), ..usual }, "drei…\n"),
            (LogOptions { limit_bytes: Some(5), ..usual }, "one\nt"),
            (LogOptions { limit_bytes: Some(13), ..usual }, "one\ntwo\ndrei"),
            (LogOptions { tail_lines: Some(1), timestamps: true, ..usual }, "1970-01-01T00:00:05Z drei…\n"),
        ] {
            assert_eq!(log_text(lines(), options), expected, "{options:?}");
        }
    }
}
