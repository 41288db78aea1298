//! CustomResourceDefinitions with objects.

use std::ops::Range;

use coracle::kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, PostParams};
use futures_util::future::BoxFuture;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::json;

use crate::server::Server;

/// Creates one definition with objects for each number, and deletes it without deleting the objects.
pub(crate) fn cycle(server: &Server, numbers: Range<usize>) -> BoxFuture<'_, ()> {
    Box::pin(async move {
        let definitions = Api::<CustomResourceDefinition>::all(server.client());
        for number in numbers.clone() {
            definitions.create(&PostParams::default(), &definition(number)).await.unwrap();
        }
        server.idle().await;
        for number in numbers.clone() {
            for name in ["one", "two"] {
                create(server, number, name).await;
            }
        }
        for number in numbers {
            let name = format!("boats{number}.example.com");
            definitions.delete(&name, &DeleteParams::default()).await.unwrap();
        }
        server.idle().await;
    })
}

fn definition(number: usize) -> CustomResourceDefinition {
    let spec = json!({"type": "object", "properties": {"length": {"type": "integer"}}});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}});
    let definition = json!({
        "metadata": {"name": format!("boats{number}.example.com")},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": format!("boats{number}"), "kind": format!("Boat{number}")},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    });
    serde_json::from_value(definition).unwrap()
}

async fn create(server: &Server, number: usize, name: &str) {
    let kind = GroupVersionKind::gvk("example.com", "v1", &format!("Boat{number}"));
    let resource = ApiResource::from_gvk_with_plural(&kind, &format!("boats{number}"));
    let boats = Api::<DynamicObject>::default_namespaced_with(server.client(), &resource);
    let boat = DynamicObject::new(name, &resource).data(json!({"spec": {"length": number}}));
    boats.create(&PostParams::default(), &boat).await.unwrap();
}
