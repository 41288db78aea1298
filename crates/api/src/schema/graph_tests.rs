//! Samples of the merge attributes, at least one of each sort, and the number of each.

use serde_json::json;

use super::*;
use coracle_meta::schema::Rest;

fn object(name: &str) -> &'static ObjectNode {
    let id = types().named(name).unwrap_or_else(|| panic!("{name} is a type"));
    graph().schema().object(graph().node(id)).expect("types are objects")
}

fn field(path: &str) -> &'static schema::Field {
    let (name, field) = path.rsplit_once('/').expect("a type and a field");
    object(name).field(field).unwrap_or_else(|| panic!("{path} is a field"))
}

fn list(path: &str) -> &'static ListNode {
    match graph().schema().node(field(path).node) {
        Node::List(list) => list,
        other => panic!("{path} is a list and not {other:?}"),
    }
}

fn merge_key(path: &str) -> Option<&'static str> {
    field(path).patch.merge_key.as_deref()
}

#[test]
fn field_can_make_an_atomic_type_granular() {
    let is_atomic = |path: &str| match graph().schema().node(field(path).node) {
        Node::Object(object) => object.atomic,
        other => panic!("{path} is an object and not {other:?}"),
    };
    assert!(!is_atomic("io.k8s.api.core.v1.PersistentVolumeSpec/claimRef"));
    assert!(is_atomic("io.k8s.api.core.v1.EndpointAddress/targetRef"));
}

#[test]
fn lists_merge_by_their_keys() {
    let by = |keys: &[&str]| ListMerge::Map(keys.iter().map(|key| (*key).into()).collect());
    for (path, merge) in [
        ("io.k8s.api.core.v1.PodSpec/containers", by(&["name"])),
        ("io.k8s.api.core.v1.Container/ports", by(&["containerPort", "protocol"])),
        ("io.k8s.api.core.v1.Container/volumeMounts", by(&["mountPath"])),
        ("io.k8s.api.core.v1.ServiceSpec/ports", by(&["port", "protocol"])),
        ("io.k8s.api.core.v1.PodSpec/topologySpreadConstraints", by(&["topologyKey", "whenUnsatisfiable"])),
        ("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta/ownerReferences", by(&["uid"])),
        ("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta/finalizers", ListMerge::Set),
        ("io.k8s.api.core.v1.PodSpec/tolerations", ListMerge::Atomic),
        ("io.k8s.api.core.v1.Container/command", ListMerge::Atomic),
        ("io.k8s.api.apps.v1.DeploymentStatus/conditions", by(&["type"])),
    ] {
        assert_eq!(list(path).merge, merge, "{path}");
    }
}

#[test]
fn always_written_fields_have_an_initial_value() {
    assert!(field("io.k8s.api.rbac.v1.Role/rules").written_empty);
    assert!(field("io.k8s.api.discovery.v1.EndpointSlice/ports").written_empty);
    assert!(field("io.k8s.api.core.v1.Event/eventTime").written_empty);
    assert!(field("io.k8s.api.apps.v1.StatefulSetSpec/serviceName").written_empty);
    assert!(!field("io.k8s.api.rbac.v1.RoleBinding/subjects").written_empty);
    assert!(!field("io.k8s.api.rbac.v1.ClusterRole/aggregationRule").written_empty);
}

#[test]
fn strategic_patches_have_one_key() {
    assert_eq!(merge_key("io.k8s.api.core.v1.PodSpec/containers"), Some("name"));
    assert_eq!(merge_key("io.k8s.api.core.v1.Container/ports"), Some("containerPort"));
    assert_eq!(merge_key("io.k8s.api.core.v1.Container/volumeMounts"), Some("mountPath"));
    assert_eq!(merge_key("io.k8s.api.core.v1.ServiceSpec/ports"), Some("port"));
    let finalizers = field("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta/finalizers");
    assert!(finalizers.patch.merge && finalizers.patch.merge_key.is_none(), "a set of texts");
    let volumes = field("io.k8s.api.core.v1.PodSpec/volumes");
    assert!(volumes.patch.merge && volumes.patch.retain_keys);
    let strategy = field("io.k8s.api.apps.v1.DeploymentSpec/strategy");
    assert!(!strategy.patch.merge && strategy.patch.retain_keys);
    assert!(!field("io.k8s.api.core.v1.PodSpec/tolerations").patch.merge);
}

#[test]
fn objects_may_be_atomic() {
    assert!(object("io.k8s.api.core.v1.ObjectReference").atomic);
    assert!(object("io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector").atomic);
    assert!(!object("io.k8s.api.core.v1.PodSpec").atomic);
    let schema = graph().schema();
    let selector = schema.object(field("io.k8s.api.core.v1.ServiceSpec/selector").node).expect("a map");
    assert!(selector.atomic && matches!(selector.rest, Rest::Map(_)));
    let labels = field("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta/labels").node;
    assert!(!schema.object(labels).expect("a map").atomic);
}

#[test]
fn keys_have_defaults() {
    assert_eq!(field("io.k8s.api.core.v1.ContainerPort/protocol").default, Some(json!("TCP")));
    assert_eq!(field("io.k8s.api.core.v1.ContainerPort/containerPort").default, Some(json!(0)));
    assert_eq!(field("io.k8s.api.core.v1.Container/name").default, Some(json!("")));
    assert_eq!(field("io.k8s.api.core.v1.Container/image").default, None);
}

#[test]
fn scalars_have_their_sort() {
    let scalar = |path: &str| match graph().schema().node(field(path).node) {
        Node::Scalar(scalar) => Some(*scalar),
        _ => None,
    };
    assert_eq!(scalar("io.k8s.api.core.v1.ServicePort/targetPort"), Some(Scalar::IntOrString));
    assert_eq!(scalar("io.k8s.api.core.v1.ServicePort/port"), Some(Scalar::Int32));
    assert_eq!(scalar("io.k8s.api.coordination.v1.LeaseSpec/renewTime"), Some(Scalar::MicroTime));
    assert_eq!(
        scalar("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta/creationTimestamp"),
        Some(Scalar::Time)
    );
    let any = field("io.k8s.apimachinery.pkg.apis.meta.v1.ManagedFieldsEntry/fieldsV1").node;
    assert!(matches!(graph().schema().node(any), Node::Any));
    let props = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";
    assert_eq!(field(&format!("{props}/not")).node, graph().node(types().named(props).unwrap()), "recursive");
}

#[test]
fn number_of_merge_attributes_is_unchanged() {
    let fields: Vec<&Field> = types().iter().flat_map(|(_, one)| one.fields.iter()).collect();
    let count = |wanted: &dyn Fn(&Field) -> bool| fields.iter().filter(|field| wanted(field)).count();
    assert_eq!(count(&|field| field.required), 702);
    assert_eq!(count(&|field| field.attributes.list_type() == Some("map")), 80);
    assert_eq!(count(&|field| field.attributes.list_type() == Some("set")), 18);
    assert_eq!(count(&|field| field.attributes.list_type() == Some("atomic")), 309);
    assert_eq!(count(&|field| field.attributes.patch_merge_key().is_some()), 68);
    assert_eq!(count(&|field| field.attributes.patch_strategy().is_some()), 72);
    assert!(graph().kind("apps", "v1", "Deployment").is_some());
    assert_eq!(
        graph().kind("any.example.com", "v7", "DeleteOptions"),
        graph().kind("", "v1", "DeleteOptions")
    );
}
