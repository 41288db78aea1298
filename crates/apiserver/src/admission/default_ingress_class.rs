//! DefaultIngressClass: sets the default class on ingresses that name none.

use coracle_meta::object::Meta;
use coracle_registry::admission::{Attributes, BoxFuture, Operation};
use coracle_registry::kinds::networking::ingress_class::IngressClass;
use coracle_registry::{Result, view};
use serde_json::Value;

use super::default_class::newest_default;
use super::plugin::{Plugin, Rule};
use super::read;

const IS_DEFAULT: &str = "ingressclass.kubernetes.io/is-default-class";

/// The annotation that named the class before there was a field.
const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";

pub(super) struct DefaultIngressClass;

impl Plugin for DefaultIngressClass {
    fn name(&self) -> &str {
        "DefaultIngressClass"
    }

    fn mutates(&self) -> Vec<Rule> {
        vec![Rule::new("networking.k8s.io", "ingresses", &[Operation::Create])]
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        ingress: &'a mut Value,
        _warnings: &'a mut Vec<String>,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let has_class = view::at(ingress, &["spec", "ingressClassName"]).is_some()
                || Meta::of(ingress).annotation(CLASS_ANNOTATION).is_some();
            if has_class {
                return Ok(());
            }
            let classes = attributes.cluster.find_all(&IngressClass, "").await?;
            if let Some(class) = newest_default(&classes, &[IS_DEFAULT]) {
                *read::entry(ingress, &["spec", "ingressClassName"]) = view::name(class).into();
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use coracle_registry::kinds::networking::ingress::Ingress;
    use serde_json::json;

    use super::super::testing::Bench;
    use super::*;

    async fn check(bench: &Bench, ingress: Value, expected: Option<&str>) {
        let admitted = bench.admit_new(DefaultIngressClass, &Ingress, ingress).await.unwrap();
        assert_eq!(view::at(&admitted, &["spec", "ingressClassName"]).and_then(Value::as_str), expected);
    }

    #[tokio::test]
    async fn ingress_without_class_gets_the_default() {
        let bench = Bench::new().await;
        let plain = json!({"metadata": {"name": "i"}, "spec": {}});
        check(&bench, plain.clone(), None).await;
        bench
            .create(
                &IngressClass,
                json!({
                    "apiVersion": "networking.k8s.io/v1", "kind": "IngressClass", "spec": {"controller": "x.io/y"},
                    "metadata": {"name": "edge", "annotations": {IS_DEFAULT: "true"}},
                }),
            )
            .await;
        check(&bench, plain, Some("edge")).await;
        let named = json!({"metadata": {"name": "i"}, "spec": {"ingressClassName": "other"}});
        check(&bench, named, Some("other")).await;
        let old = json!({"metadata": {"name": "i", "annotations": {CLASS_ANNOTATION: "x"}}, "spec": {}});
        check(&bench, old, None).await;
    }
}
