//! Custom resources: the time until a definition is served, and the cost of its objects.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use coracle_benches::custom::{Operators, VERSION};
use coracle_benches::measure::{Samples, start};
use serde_json::Value;

use crate::client::{Body, Connection, Outgoing};
use crate::load::{self, Meter, Target};
use crate::objects;
use crate::report::Measured;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Time limit for a server to serve a new definition.
const INSTALL_LIMIT: Duration = Duration::from_secs(60);

/// Interval of retries until a server serves a definition; kube-apiserver takes a while.
const RETRY: Duration = Duration::from_millis(20);

/// The definitions of a run, and the one whose objects are created.
pub(crate) struct Custom {
    operators: Operators,
}

impl Custom {
    /// Definitions of a run with a unique name.
    pub(crate) fn new(run: &str) -> Self {
        Self { operators: Operators::new(run) }
    }

    /// Installs definitions sequentially. Each is timed from sending it until a watch reports it as Established.
    pub(crate) fn install(&self, target: &Target, numbers: std::ops::Range<usize>) -> Result<Measured> {
        load::runtime()?.block_on(async {
            let mut watch = DefinitionWatch::open(target, &self.operators).await?;
            let mut connection = target.connector.connect().await?;
            let (mut samples, mut bytes, meter) = (Samples::default(), 0, Meter::start(target)?);
            for number in numbers.clone() {
                let operator = self.operators.get(number);
                // Built before the clock starts.
                let request = objects::post(DEFINITIONS, operator.definition().to_string());
                let begin = start();
                bytes += connection.count(request).await?;
                let name = operator.name();
                let established = tokio::time::timeout(INSTALL_LIMIT, watch.established(&name));
                established.await.with_context(|| format!("{name} is not served"))??;
                samples.push(begin.elapsed());
            }
            meter.stop(numbers.len() as u64, bytes, samples)
        })
    }

    /// Waits until objects of the first definition can be created in a namespace.
    pub(crate) fn wait_until_served(&self, target: &Target, namespace: &str) -> Result<()> {
        let path = self.path(namespace);
        load::runtime()?.block_on(async {
            let begin = start();
            let mut connection = target.connector.connect().await?;
            while let Err(failure) = connection.count(objects::get(&path)).await {
                ensure!(begin.elapsed() < INSTALL_LIMIT, failure.context("a custom resource is not served"));
                tokio::time::sleep(RETRY).await;
            }
            Ok(())
        })
    }

    /// Creates an object of the first definition.
    pub(crate) fn create(&self, namespace: &str, number: u64) -> Outgoing {
        let object = self.operators.get(0).object(&format!("custom-{number}"));
        objects::post(&self.path(namespace), object.to_string())
    }

    /// Path of the objects of the first definition.
    pub(crate) fn path(&self, namespace: &str) -> String {
        let operator = self.operators.get(0);
        format!("/apis/{}/{VERSION}/namespaces/{namespace}/{}", operator.group(), operator.plural())
    }

    /// Sends the first requests of typical clients: discovery in both formats, and every OpenAPI document of a custom
    /// group. Returns the duration of discovery, and that of all documents together.
    pub(crate) fn discover(&self, target: &Target) -> Result<(Duration, Duration)> {
        load::runtime()?.block_on(async {
            let mut connection = target.connector.connect().await?;
            let begin = start();
            connection.count(objects::aggregated_discovery()).await?;
            connection.count(objects::get("/apis")).await?;
            let discovery = begin.elapsed();
            let begin = start();
            let index: Value = serde_json::from_slice(&connection.fetch(objects::get("/openapi/v3")).await?)?;
            let paths = index["paths"].as_object().context("an index has paths")?;
            for (path, _) in paths.iter().filter(|(path, _)| path.contains(self.operators.domain())) {
                connection.count(objects::get(&format!("/openapi/v3/{path}"))).await?;
            }
            Ok((discovery, begin.elapsed()))
        })
    }

    /// Deletes all definitions.
    pub(crate) fn delete(&self) -> Outgoing {
        let selector = self.operators.selector().replace('=', "%3D");
        objects::delete(&format!("{DEFINITIONS}?labelSelector={selector}"))
    }
}

/// A watch of a run's definitions.
struct DefinitionWatch {
    connection: Connection,
    body: Body,
    /// The beginning of an incomplete event.
    pending: Vec<u8>,
}

impl DefinitionWatch {
    async fn open(target: &Target, operators: &Operators) -> Result<Self> {
        let mut connection = target.connector.connect().await?;
        let selector = operators.selector().replace('=', "%3D");
        let list = objects::get(&format!("{DEFINITIONS}?labelSelector={selector}&limit=1"));
        let list: Value = serde_json::from_slice(&connection.fetch(list).await?)?;
        let revision = list["metadata"]["resourceVersion"].as_str().context("a list has a revision")?;
        let path = format!("{DEFINITIONS}?watch=true&labelSelector={selector}&resourceVersion={revision}");
        let body = connection.open(objects::get(&path)).await?;
        Ok(Self { connection, body, pending: Vec::new() })
    }

    /// Reads events until one reports the definition as Established.
    async fn established(&mut self, name: &str) -> Result<()> {
        loop {
            while let Some(end) = self.pending.iter().position(|byte| *byte == b'\n') {
                let event: Value = serde_json::from_slice(&self.pending[..end])?;
                self.pending.drain(..=end);
                if is_established(&event["object"], name) {
                    return Ok(());
                }
            }
            let chunk = self.connection.chunk(&mut self.body).await?.context("the watch ended")?;
            self.pending.extend_from_slice(chunk);
        }
    }
}

fn is_established(definition: &Value, name: &str) -> bool {
    let conditions = definition["status"]["conditions"].as_array().into_iter().flatten();
    let mut found = conditions.filter(|one| one["type"] == "Established" && one["status"] == "True");
    definition["metadata"]["name"] == name && found.next().is_some()
}
