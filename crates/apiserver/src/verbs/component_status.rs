//! ComponentStatus: health of the components of the control plane. It is not stored. All components run in this
//! process, so the health checks of the server stand for each of them.

use coracle_meta::gvk::GroupResource;
use coracle_meta::status::Status;
use coracle_registry::Revision;
use coracle_registry::lifecycle::Object;
use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::ResourceRequest;
use crate::body::ResponseBody;
use crate::health::{Probe, Reasons};
use crate::negotiate::{self, Shape, to_json};
use crate::status::Refusal;

/// The components that kube-apiserver lists. The store has the name of etcd, the usual store of Kubernetes.
const COMPONENTS: [&str; 3] = ["scheduler", "controller-manager", "etcd-0"];

impl ResourceRequest {
    pub(super) async fn answer_components(&self) -> Result<Response<ResponseBody>, Refusal> {
        let healthy = self.components.health.run(Probe::Live, &[], Reasons::Withheld).await.is_healthy();
        let (status, message) = if healthy { ("True", "ok") } else { ("False", "a health check failed") };
        let component = |name: &str| {
            json!({
                "metadata": {"name": name},
                "conditions": [{"type": "Healthy", "status": status, "message": message}],
            })
        };
        if self.path.name.is_empty() {
            return self.tell_components(COMPONENTS.map(component).to_vec());
        }
        if !COMPONENTS.contains(&&*self.path.name) {
            let resource = GroupResource { group: "".into(), resource: "componentstatus".into() };
            return Err(Status::not_found(&resource, &self.path.name).into());
        }
        let mut component = component(&self.path.name);
        component["kind"] = "ComponentStatus".into();
        component["apiVersion"] = "v1".into();
        negotiate::object(&self.encoding()?, &unstored(&component))
    }

    fn tell_components(&self, components: Vec<Value>) -> Result<Response<ResponseBody>, Refusal> {
        let encoding = self.encoding()?;
        if encoding.format.shape == Shape::Table {
            let objects: Vec<Object> = components.iter().map(unstored).collect();
            return negotiate::table(&encoding, &objects);
        }
        let list =
            json!({"kind": "ComponentStatusList", "apiVersion": "v1", "metadata": {}, "items": components});
        self.respond(&list, StatusCode::OK)
    }
}

/// Wraps a component status as an object without a stored revision.
fn unstored(component: &Value) -> Object {
    Object { json: to_json(component).into(), revision: Revision::new(0) }
}
