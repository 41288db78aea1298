//! The loads that are run on a server, in order.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use coracle_base::Clock;
use coracle_benches::custom::Operators;

use crate::client::{Connection, Outgoing};
use crate::custom::Custom;
use crate::load::{self, Load, Stop, Target};
use crate::objects::{self, JSON, Namespace, PROTOBUF, SHARDS};
use crate::report::{Measured, Report, State};
use crate::watching::{self, FanOut};

/// Few connections suffice, because long lists keep a server busy.
const LIST_CONNECTIONS: usize = 4;

/// Objects with this number and above are created by the load of a single client.
const ONE_CLIENT_OBJECTS: u64 = 1 << 40;

/// Objects that merge patches and applies change in turn: more than there are connections, so that conflicts are
/// rare.
const CHANGED_OBJECTS: u64 = 1024;

/// Connections of `--quick`: without load, handshakes take the most time.
const QUICK_CONNECTIONS: usize = 8;

const PAGE_ITEMS: u64 = 500;

/// Maximum number of pages of a list; more means that the server never ends it.
const MAX_PAGES: u64 = 1000;

/// Time between two writes when the delay of single events is measured.
const PACE: Duration = Duration::from_millis(10);

const INSTALL: &str = "Install, CRD of 2 000 lines and more, until Established";
const INSTALL_MANY: &str = "Install, 500 such CRDs";
const PLAIN_OBJECT: &str = "Create, ConfigMap of 1 KiB, in turn with the next";
const CUSTOM_OBJECT: &str = "Create, custom object of 1 KiB, 22 rules in CEL";

/// Parameters of the workload.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Number of client connections.
    #[arg(long, default_value_t = 64)]
    connections: usize,
    /// Number of client threads.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Duration in seconds of each load without a fixed number of requests.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Encoding of objects and lists.
    #[arg(long, value_enum, default_value_t = Form::Json)]
    content_type: Form,
    /// Run only these parts; objects that they need are created anyway.
    #[arg(long, value_enum)]
    only: Vec<Part>,
    /// Run a few hundred requests only, as a smoke test; the figures are meaningless.
    #[arg(long)]
    quick: bool,
}

/// An encoding of objects, lists and watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    Json,
    Protobuf,
}

impl Form {
    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Self::Json => JSON,
            Self::Protobuf => PROTOBUF,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    Create,
    Get,
    Patch,
    List,
    Watch,
    /// CustomResourceDefinitions in the style of operators, and objects of one of them.
    Custom,
    /// Creates, reads and patches of a single client on one connection.
    OneClient,
    /// Hundreds of definitions at once, and their cost; only on request.
    Definitions,
}

/// Sizes of the loads.
struct Scale {
    config_maps: u64,
    pods: u64,
    stop: Stop,
    watchers: usize,
    writes: u64,
    paced_writes: u64,
    /// Definitions in the style of operators: initial number and maximum.
    operators: usize,
    definitions: usize,
}

/// The loads, in their own namespace.
pub(crate) struct Workload {
    options: Options,
    scale: Scale,
    accept: &'static str,
    namespace: Namespace,
    custom: Custom,
}

impl Workload {
    pub(crate) fn new(options: &Options) -> Self {
        let mut options = options.clone();
        let scale = if options.quick {
            options.connections = options.connections.min(QUICK_CONNECTIONS);
            let stop = Stop::After(32);
            Scale {
                config_maps: 64,
                pods: 100,
                stop,
                watchers: 4,
                writes: 16,
                paced_writes: 4,
                operators: 2,
                definitions: 4,
            }
        } else {
            let stop = Stop::For(Duration::from_secs_f64(options.seconds));
            Scale {
                config_maps: 10_000,
                pods: 5_000,
                stop,
                watchers: 100,
                writes: 4_000,
                paced_writes: 500,
                operators: Operators::FAMILIES,
                definitions: 500,
            }
        };
        let accept = options.content_type.media_type();
        // A unique name, because the server may be in use.
        let name = format!("coracle-bench-{}", Clock::system().now().as_millis());
        let (namespace, custom) = (Namespace::new(name.clone()), Custom::new(&name));
        Self { options, scale, accept, namespace, custom }
    }

    /// Creates the namespace and the ServiceAccount that pods need.
    pub(crate) fn prepare(&self, target: &Target) -> Result<()> {
        load::runtime()?.block_on(async {
            let mut connection = target.connector.connect().await?;
            connection.count(self.namespace.create()).await.context("making a namespace")?;
            // A controller may have created it first. If it is missing, creating pods fails with a message.
            let _ = connection.count(self.namespace.create_service_account()).await;
            anyhow::Ok(())
        })
    }

    /// Creates the initial ten thousand objects.
    pub(crate) fn fill(&self, target: &Target, report: &mut Report) -> Result<()> {
        let stop = Stop::After(self.scale.config_maps);
        self.load(
            target,
            report,
            "Create, ConfigMap of 1 KiB",
            stop,
            async |connection: &mut Connection, n| {
                connection.count(self.namespace.create_config_map(n)).await
            },
        )
    }

    /// Runs all loads on a server that was started before.
    pub(crate) fn drive(&self, target: &Target, report: &mut Report) -> Result<()> {
        self.fill(target, report)?;
        self.run(target, report)?;
        if self.wants_definitions() {
            self.install(target, report)?;
            self.discover(target, report)?;
        }
        Ok(())
    }

    /// Returns true if hundreds of definitions were requested.
    pub(crate) fn wants_definitions(&self) -> bool {
        self.options.only.contains(&Part::Definitions)
    }

    /// Returns true if only hundreds of definitions were requested.
    pub(crate) fn wants_only_definitions(&self) -> bool {
        self.options.only == [Part::Definitions]
    }

    /// Runs all other loads.
    pub(crate) fn run(&self, target: &Target, report: &mut Report) -> Result<()> {
        if self.wants(Part::Create) || self.wants(Part::List) {
            let stop = Stop::After(self.scale.pods);
            self.load(target, report, "Create, small pod", stop, async |connection: &mut Connection, n| {
                connection.count(self.namespace.create_pod(n)).await
            })?;
        }
        if self.wants(Part::Get) {
            self.load(
                target,
                report,
                "GET, ConfigMap",
                self.scale.stop,
                async |connection: &mut Connection, n| {
                    let number = n.wrapping_mul(7919) % self.scale.config_maps;
                    connection.count(self.namespace.get_config_map(number, self.accept)).await
                },
            )?;
        }
        if self.wants(Part::Patch) {
            self.patches(target, report)?;
        }
        if self.wants(Part::OneClient) {
            self.one_client(target, report)?;
        }
        if self.wants(Part::List) {
            self.lists(target, report)?;
        }
        if self.wants(Part::Watch) {
            self.watches(target, report)?;
        }
        if self.wants(Part::Custom) {
            self.custom_resources(target, report)?;
        }
        Ok(())
    }

    /// One request after the other on one connection, so that no two writes share a sync.
    fn one_client(&self, target: &Target, report: &mut Report) -> Result<()> {
        let Scale { stop, config_maps, .. } = self.scale;
        let objects = CHANGED_OBJECTS.min(config_maps);
        let mut load = |what, operation: &(dyn Fn(u64) -> Outgoing + Sync)| {
            let load = Load { connections: 1, threads: 1, stop };
            self.measure(target, report, what, load, async |connection: &mut Connection, n| {
                connection.count(operation(n)).await
            })
        };
        load("Create, ConfigMap of 1 KiB, one client", &|n| {
            self.namespace.create_config_map(ONE_CLIENT_OBJECTS + n)
        })?;
        load("GET, ConfigMap, one client", &|n| {
            self.namespace.get_config_map(n.wrapping_mul(7919) % config_maps, self.accept)
        })?;
        load("Merge patch, ConfigMap, one client", &|n| {
            self.namespace.merge_patch(&format!("map-{}", n % objects), n)
        })
    }

    /// Installs the first definitions one by one, then creates objects of one of them and ConfigMaps.
    fn custom_resources(&self, target: &Target, report: &mut Report) -> Result<()> {
        let measured = self.custom.install(target, 0..self.scale.operators).context(INSTALL)?;
        self.note(target, report, INSTALL, measured);
        self.custom.wait_until_served(target, &self.namespace.name)?;
        let stop = self.scale.stop;
        self.load(target, report, PLAIN_OBJECT, stop, async |connection: &mut Connection, n| {
            connection.count(self.namespace.create_config_map(self.scale.config_maps + n)).await
        })?;
        self.load(target, report, CUSTOM_OBJECT, stop, async |connection: &mut Connection, n| {
            connection.count(self.custom.create(&self.namespace.name, n)).await
        })?;
        if let (Some(custom), Some(plain)) = (report.load(CUSTOM_OBJECT), report.load(PLAIN_OBJECT)) {
            let ratio = State::Ratio(custom.rate_ratio(plain));
            report.states.push(("Custom objects created in the time of a ConfigMap", ratio));
        }
        Ok(())
    }

    /// Installs hundreds of definitions.
    pub(crate) fn install(&self, target: &Target, report: &mut Report) -> Result<()> {
        let first =
            if self.wants(Part::Custom) && report.load(INSTALL).is_some() { self.scale.operators } else { 0 };
        let measured = self.custom.install(target, first..self.scale.definitions).context(INSTALL_MANY)?;
        self.note(target, report, INSTALL_MANY, measured);
        Ok(())
    }

    /// Sends the first requests of typical clients.
    pub(crate) fn discover(&self, target: &Target, report: &mut Report) -> Result<()> {
        let (discovery, documents) = self.custom.discover(target)?;
        report.states.push(("Discovery in both forms, once", State::Time(discovery)));
        report.states.push(("OpenAPI v3 of all their groups, one after the other", State::Time(documents)));
        Ok(())
    }

    /// Deletes all created objects. Without a namespace controller an empty namespace remains.
    pub(crate) fn clean_up(&self, target: &Target) -> Result<()> {
        load::runtime()?.block_on(async {
            let mut connection = target.connector.connect().await?;
            for resource in ["pods", "configmaps"] {
                connection.count(self.namespace.delete_all(resource)).await?;
            }
            if self.wants(Part::Custom) || self.wants_definitions() {
                connection.count(self.custom.delete()).await?;
            }
            connection.count(self.namespace.delete()).await?;
            anyhow::Ok(())
        })
    }

    fn patches(&self, target: &Target, report: &mut Report) -> Result<()> {
        let objects = CHANGED_OBJECTS.min(self.scale.config_maps);
        let stop = self.scale.stop;
        self.load(target, report, "Merge patch, ConfigMap", stop, async |connection: &mut Connection, n| {
            connection.count(self.namespace.merge_patch(&format!("map-{}", n % objects), n)).await
        })?;
        self.load(
            target,
            report,
            "Server-side apply, ConfigMap",
            stop,
            async |connection: &mut Connection, n| {
                connection.count(self.namespace.apply(n % objects, n)).await
            },
        )
    }

    fn lists(&self, target: &Target, report: &mut Report) -> Result<()> {
        let selector = format!("?labelSelector=shard%3D{}", SHARDS / 2);
        self.check_list(target, "", self.scale.pods)?;
        self.check_list(target, &selector, self.scale.pods / SHARDS)?;
        let loads = [
            ("LIST, 5 000 pods", "", self.accept),
            ("LIST, 5 000 pods, resourceVersion=0", "?resourceVersion=0", self.accept),
            ("LIST, 1 % of them by label", &selector, self.accept),
            ("LIST, 5 000 pods, protobuf", "", PROTOBUF),
            ("LIST, 5 000 pods, protobuf, resourceVersion=0", "?resourceVersion=0", PROTOBUF),
        ];
        for (what, query, accept) in loads {
            self.list_load(target, report, what, async |connection: &mut Connection, _| {
                connection.count(self.namespace.list("pods", query, accept)).await
            })?;
        }
        for (what, form) in [
            ("Streaming list, 5 000 pods", Form::Json),
            ("Streaming list, 5 000 pods, protobuf", Form::Protobuf),
        ] {
            self.list_load(target, report, what, async |_: &mut Connection, _| {
                watching::streaming_list(target, &self.namespace, form).await
            })?;
        }
        self.list_load(
            target,
            report,
            "LIST, 5 000 pods in pages of 500",
            async |connection: &mut Connection, _| self.all_pages(connection).await,
        )
    }

    /// Reads one list page by page. Continue tokens are parsed in JSON only.
    async fn all_pages(&self, connection: &mut Connection) -> Result<u64> {
        let (mut bytes, mut query) = (0, format!("?limit={PAGE_ITEMS}"));
        for _ in 0..MAX_PAGES {
            let page = connection.fetch(self.namespace.list("pods", &query, JSON)).await?;
            bytes += page.len() as u64;
            match continue_token(&page) {
                Some(token) => query = format!("?limit={PAGE_ITEMS}&continue={token}"),
                None => return Ok(bytes),
            }
        }
        anyhow::bail!("a list of more than {MAX_PAGES} pages")
    }

    /// Fails if a list lacks items, because its figures would be meaningless.
    fn check_list(&self, target: &Target, query: &str, expected: u64) -> Result<()> {
        load::runtime()?.block_on(async {
            let mut connection = target.connector.connect().await?;
            let list = connection.fetch(self.namespace.list("pods", query, JSON)).await?;
            let list: serde_json::Value = serde_json::from_slice(&list)?;
            let found = list["items"].as_array().map_or(0, Vec::len) as u64;
            ensure!(found == expected, "a list has {found} items instead of {expected}");
            Ok(())
        })
    }

    fn watches(&self, target: &Target, report: &mut Report) -> Result<()> {
        let Scale { watchers, writes, paced_writes, .. } = self.scale;
        let (threads, form) = (self.options.threads, Form::Json);
        let fast = FanOut { watchers, writers: 16, threads, writes, pace: None, form, first: 0 };
        let paced = FanOut { writes: paced_writes, pace: Some(PACE), first: fast.end(), ..fast };
        let protobuf = FanOut { form: Form::Protobuf, first: paced.end(), ..fast };
        for (what, fan_out) in [
            ("Watch events delivered, 100 watchers, writes at full speed", fast),
            ("Watch events delivered, 100 watchers, 100 writes a second", paced),
            ("Watch events delivered, 100 watchers, protobuf, writes at full speed", protobuf),
        ] {
            let measured = watching::run(target, &self.namespace, fan_out).context(what)?;
            self.note(target, report, what, measured);
        }
        Ok(())
    }

    fn list_load(
        &self,
        target: &Target,
        report: &mut Report,
        what: &'static str,
        operation: impl AsyncFn(&mut Connection, u64) -> Result<u64> + Sync,
    ) -> Result<()> {
        let load =
            Load { connections: LIST_CONNECTIONS, threads: self.options.threads, stop: self.scale.stop };
        self.measure(target, report, what, load, operation)
    }

    fn load(
        &self,
        target: &Target,
        report: &mut Report,
        what: &'static str,
        stop: Stop,
        operation: impl AsyncFn(&mut Connection, u64) -> Result<u64> + Sync,
    ) -> Result<()> {
        let load = Load { connections: self.options.connections, threads: self.options.threads, stop };
        self.measure(target, report, what, load, operation)
    }

    fn measure(
        &self,
        target: &Target,
        report: &mut Report,
        what: &'static str,
        load: Load,
        operation: impl AsyncFn(&mut Connection, u64) -> Result<u64> + Sync,
    ) -> Result<()> {
        let measured = load::run(target, load, operation).context(what)?;
        self.note(target, report, what, measured);
        Ok(())
    }

    fn note(&self, target: &Target, report: &mut Report, what: &'static str, measured: Measured) {
        eprintln!("{}: {what}: {}", target.name, measured.summary());
        report.loads.push((what, measured));
    }

    fn wants(&self, part: Part) -> bool {
        self.options.only.is_empty() || self.options.only.contains(&part)
    }
}

/// The continue token in the list's metadata, which precedes the items. Tokens consist of characters that need no
/// escaping in JSON or in a query.
fn continue_token(page: &[u8]) -> Option<&str> {
    const KEY: &[u8] = b"\"continue\":\"";
    let items = page.windows(9).position(|window| window == b"\"items\":[").unwrap_or(page.len());
    let at = page[..items].windows(KEY.len()).position(|window| window == KEY)? + KEY.len();
    let token = page[at..].split(|byte| *byte == b'"').next()?;
    std::str::from_utf8(token).ok().filter(|token| !token.is_empty())
}

/// Succeeds if the server is ready.
pub(crate) async fn ready(target: &crate::client::Connector) -> Result<()> {
    target.connect().await?.count(objects::get("/readyz")).await.map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn continue_token_is_that_of_the_list_metadata() {
        let page = br#"{"metadata":{"resourceVersion":"7","continue":"abc"},"items":[{"continue":"no"}]}"#;
        assert_eq!(continue_token(page), Some("abc"));
        let last = br#"{"metadata":{"resourceVersion":"7"},"items":[{"continue":"no"}]}"#;
        assert_eq!(continue_token(last), None);
        assert_eq!(continue_token(br#"{"metadata":{"continue":""},"items":[]}"#), None);
    }
}
