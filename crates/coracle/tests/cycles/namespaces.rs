//! Namespaces with objects in them, some of which controllers create more objects for.

use std::ops::Range;

use coracle::kube::api::{Api, DeleteParams, PostParams};
use futures_util::future::BoxFuture;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret, Service};
use serde_json::{Value, json};

use crate::server::Server;

/// Creates and deletes one namespace for each number. They are deleted while controllers still reconcile
/// them.
pub(crate) fn cycle(server: &Server, numbers: Range<usize>) -> BoxFuture<'_, ()> {
    Box::pin(async move {
        let namespaces = Api::<Namespace>::all(server.client());
        let name = |number: usize| format!("namespace-{number}");
        for number in numbers.clone() {
            namespaces.create(&PostParams::default(), &object(&name(number), json!({}))).await.unwrap();
            fill(server, &name(number)).await;
        }
        for number in numbers {
            namespaces.delete(&name(number), &DeleteParams::default()).await.unwrap();
        }
        server.idle().await;
    })
}

async fn fill(server: &Server, namespace: &str) {
    let client = || server.client();
    let params = PostParams::default();
    let data = json!({"data": {"key": "dmFsdWU="}});
    Api::<ConfigMap>::namespaced(client(), namespace)
        .create(&params, &object("c", data.clone()))
        .await
        .unwrap();
    Api::<Secret>::namespaced(client(), namespace).create(&params, &object("s", data)).await.unwrap();
    let service = json!({"spec": {"clusterIP": "None", "ports": [{"port": 80}], "selector": {"app": "a"}}});
    Api::<Service>::namespaced(client(), namespace).create(&params, &object("s", service)).await.unwrap();
    let template = json!({
        "metadata": {"labels": {"app": "a"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    let deployment =
        json!({"spec": {"replicas": 2, "selector": {"matchLabels": {"app": "a"}}, "template": template}});
    Api::<Deployment>::namespaced(client(), namespace)
        .create(&params, &object("d", deployment))
        .await
        .unwrap();
}

fn object<K: serde::de::DeserializeOwned>(name: &str, mut fields: Value) -> K {
    fields["metadata"] = json!({"name": name});
    serde_json::from_value(fields).unwrap()
}
