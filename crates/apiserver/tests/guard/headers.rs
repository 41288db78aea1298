//! Headers of rejections and of discovery, as kube-apiserver sets them.

use coracle_apiserver::FlowLimits;

use crate::world::{MAPS, World, header, response};

const FLOW_SCHEMA: &str = "x-kubernetes-pf-flowschema-uid";
const PRIORITY_LEVEL: &str = "x-kubernetes-pf-prioritylevel-uid";

#[tokio::test]
async fn rejections_name_their_flow_once_the_request_is_authenticated() {
    let world = World::new(&FlowLimits::default()).await;
    let large = format!(
        "POST {MAPS} HTTP/1.1\r\nx-user: alice\r\ncontent-type: application/json\r\nexpect: 100-continue\r\n\
         content-length: {}",
        4 * 1024 * 1024
    );
    let missing = format!("GET {MAPS}/missing HTTP/1.1\r\nx-user: alice");
    for (head, code, nosniff) in [
        ("GET /api/v1/secrets HTTP/1.1\r\nx-user: alice", "403 Forbidden", true),
        (&*missing, "404 Not Found", false),
        (&*large, "413 Payload Too Large", false),
        ("GET /nothing HTTP/1.1\r\nx-user: admin\r\nx-group: system:masters", "404 Not Found", true),
    ] {
        let text = response(&mut world.send(head, "").await).await;
        assert!(text.starts_with(&format!("HTTP/1.1 {code}\r\n")), "{head}: {text}");
        assert!(header(&text, FLOW_SCHEMA).is_some_and(|uid| uid.len() == 36), "{text}");
        assert!(header(&text, PRIORITY_LEVEL).is_some_and(|uid| uid.len() == 36), "{text}");
        assert_eq!(header(&text, "x-content-type-options") == Some("nosniff"), nosniff, "{text}");
    }
    // Impersonation is authorized before the flow schema is selected.
    let impersonation = format!("GET {MAPS} HTTP/1.1\r\nx-user: alice\r\nimpersonate-user: bob");
    let text = response(&mut world.send(&impersonation, "").await).await;
    assert!(text.starts_with("HTTP/1.1 403"), "{text}");
    assert_eq!(header(&text, "x-content-type-options"), Some("nosniff"), "{text}");
    assert_eq!(header(&text, FLOW_SCHEMA), None, "{text}");
    world.end().await;
}

#[tokio::test]
async fn aggregated_discovery_may_be_cached_and_revalidated() {
    let world = World::new(&FlowLimits::default()).await;
    let accept = "accept: application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    for path in ["/api", "/apis"] {
        let head = format!("GET {path} HTTP/1.1\r\nx-user: alice\r\n{accept}");
        let text = response(&mut world.send(&head, "").await).await;
        assert!(text.starts_with("HTTP/1.1 200"), "{text}");
        assert_eq!(header(&text, "cache-control"), Some("public"));
        let tag = header(&text, "etag").unwrap();
        let again = format!("{head}\r\nif-none-match: {tag}");
        let text = response(&mut world.send(&again, "").await).await;
        assert!(text.starts_with("HTTP/1.1 304"), "{text}");
        assert_eq!(header(&text, "cache-control"), Some("public"));
    }
    assert_eq!(header(&world.get("alice", "/apis").await, "cache-control"), Some("no-cache, private"));
    world.end().await;
}
