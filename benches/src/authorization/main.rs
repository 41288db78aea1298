//! Cost of an authorization decision: `cargo xtask bench authorization`.
//!
//! The user is already authenticated; each check runs from the authorizer's trait to the decision, with all data in
//! memory. The baseline is a cluster with few roles.

use std::time::Duration;

use coracle_apiserver::Authorizer;
use coracle_apiserver::authorization::{Attributes, MastersOnly, Rbac, ResourceTarget, Target, Union};
use coracle_apiserver::{Identity, Registry};
use coracle_base::{Clock, Rng};
use coracle_benches::measure::{block_on, ratio, report, start};
use coracle_registry::lifecycle::Write;
use coracle_registry::{Cluster, Kind, ServerInfo, catalog};
use coracle_store::memory;
use serde_json::{Value, json};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const GROUP: &str = "rbac.authorization.k8s.io";
const MANY: usize = 1000;
const FEW: usize = 10;

/// Decisions timed together.
const DECISIONS: u32 = 20_000;

/// Target for one decision, with as many roles and bindings as a busy cluster has.
const AIM: Duration = Duration::from_micros(20);

fn main() {
    block_on(async {
        let registry =
            Registry::new(memory::open(memory::Options::default()), Clock::system(), Rng::from_entropy());
        registry.bootstrap(&ServerInfo::default()).await.expect("the bootstrap objects");
        let [few, many] =
            [("few", FEW), ("many", MANY)].map(|(id, count)| (registry.cluster(id).expect("an id"), count));
        for (cluster, count) in [&few, &many] {
            fill(cluster, *count).await;
        }
        for (what, user, resource) in [
            ("allowed by the user's one binding", "user-7", "resource-7"),
            ("allowed by one of the bindings of a group", "member", "shared-7"),
            ("denied to a user with bindings", "user-7", "secrets"),
            ("denied to a member of a group with all bindings", "member", "secrets"),
            ("denied to a user without bindings", "nobody", "secrets"),
        ] {
            let baseline = decide(&few.0, user, resource).await;
            let figure = decide(&many.0, user, resource).await;
            let text = format!("{:.2} µs, {:.1} of that with {FEW}", micros(figure), ratio(figure, baseline));
            report(what, &text, "< 20 µs with 1 000 roles", figure < AIM);
        }
    });
}

fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

/// Duration of one decision.
async fn decide(cluster: &Cluster, user: &str, resource: &str) -> Duration {
    let authorizer = Union::new([
        std::sync::Arc::new(MastersOnly) as std::sync::Arc<dyn Authorizer>,
        std::sync::Arc::new(Rbac::default()),
    ]);
    let groups = match user {
        "member" => vec!["everyone".to_owned(), "system:authenticated".to_owned()],
        _ => vec!["system:authenticated".to_owned()],
    };
    let identity = Identity { name: user.to_owned(), groups, ..Identity::default() };
    let target = ResourceTarget {
        resource,
        version: "v1",
        namespace: "default",
        name: "x",
        ..ResourceTarget::default()
    };
    let attributes = Attributes { verb: "get", target: Target::Resource(target) };
    let authorize = || authorizer.authorize(cluster, &identity, &attributes);
    let expected = authorize().await.expect("a decision").allowed;
    let watch = start();
    for _ in 0..DECISIONS {
        assert_eq!(authorize().await.expect("a decision").allowed, expected);
    }
    watch.elapsed() / DECISIONS
}

/// Creates `count` roles and `count` bindings: half of them for one user each, half for one group.
async fn fill(cluster: &Cluster, count: usize) {
    for number in 0..count / 2 {
        let rules = |resource: String| {
            let verbs = ["get", "list", "watch"];
            json!([
                {"verbs": verbs, "apiGroups": ["", "apps"], "resources": ["pods", "services", resource]},
                {"verbs": ["create", "update"], "apiGroups": ["batch"], "resources": ["jobs", "cronjobs"]},
            ])
        };
        let own = json!({"metadata": {"name": format!("own-{number}")}, "rules": rules(format!("resource-{number}"))});
        create(cluster, "clusterroles", own).await;
        let shared = json!({"metadata": {"name": format!("shared-{number}")}, "rules": rules(format!("shared-{number}"))});
        create(cluster, "roles", shared).await;
        let user = json!({"kind": "User", "name": format!("user-{number}")});
        create(cluster, "clusterrolebindings", binding("ClusterRole", &format!("own-{number}"), &user)).await;
        let group = json!({"kind": "Group", "name": "everyone"});
        create(cluster, "rolebindings", binding("Role", &format!("shared-{number}"), &group)).await;
    }
}

fn binding(kind: &str, role: &str, subject: &Value) -> Value {
    let role_ref = json!({"apiGroup": GROUP, "kind": kind, "name": role});
    json!({"metadata": {"name": role}, "roleRef": role_ref, "subjects": [subject]})
}

async fn create(cluster: &Cluster, plural: &str, object: Value) {
    let kind: &dyn Kind = catalog::find(GROUP, "v1", plural).expect("a built-in kind");
    let api_version = kind.declaration().storage_api_version();
    let namespace = if plural.starts_with("cluster") { "" } else { "default" };
    let write = Write {
        kind,
        api_version: &api_version,
        served_version: "v1",
        namespace,
        subresource: "",
        manager: "bench",
        requester: &Identity::server(),
        dry_run: false,
        audit: None,
        sent: None,
    };
    cluster.create(&write, object).await.expect("it can be made");
}
