//! Admission plugins of an embedding program.

use std::sync::Arc;

use coracle::admission::{
    Attributes, BoxFuture, Operation, Plugin, Result, Rule, forbidden, nothing_to_say, view,
};
use coracle::kube::api::{Api, PostParams};
use coracle::{Config, Coracle, Extensions, StoreConfig};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};

/// Labels every ConfigMap, and rejects those named `never`.
struct TestPlugin;

impl Plugin for TestPlugin {
    fn name(&self) -> &str {
        "House"
    }

    fn mutates(&self) -> Vec<Rule> {
        vec![Rule::new("", "configmaps", &[Operation::Create])]
    }

    fn validates(&self) -> Vec<Rule> {
        self.mutates()
    }

    fn mutate<'a>(
        &'a self,
        _attributes: &'a Attributes<'a>,
        object: &'a mut Value,
        warnings: &'a mut Vec<String>,
    ) -> BoxFuture<'a, Result<()>> {
        object["metadata"]["labels"] = json!({"house": "ours"});
        warnings.push("marked".to_owned());
        nothing_to_say()
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: &'a Value,
        _warnings: &'a mut Vec<String>,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            match view::name(object) {
                "never" => Err(forbidden(attributes, object, "not in this house")),
                _ => Ok(()),
            }
        })
    }
}

#[tokio::test]
async fn admission_plugin_of_the_embedder_mutates_and_rejects() {
    let mut config = Config::new("/nothing/is/written/there");
    config.store = StoreConfig::Memory;
    config.listen.clear();
    let extensions = Extensions { admission: vec![Arc::new(TestPlugin)], ..Extensions::default() };
    let cluster = Coracle::start_with(config, extensions).await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client(), "default");
    let map = |name: &str| serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    let created = maps.create(&PostParams::default(), &map("a")).await.unwrap();
    assert_eq!(created.metadata.labels.unwrap()["house"], "ours");
    let refused = maps.create(&PostParams::default(), &map("never")).await.unwrap_err();
    assert!(
        refused.to_string().contains("configmaps \"never\" is forbidden: not in this house"),
        "{refused}"
    );
    cluster.shutdown().await;
}
