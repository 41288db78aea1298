//! Memory that hostile request bodies take, measured by an allocator that counts.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
#![expect(unsafe_code, reason = "an allocator that counts is one, and passes everything on to the system's")]

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use coracle_apiserver::PeerIdentity;
use futures_util::future::join_all;
use http::{Method, Request, header};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use support::{Client, MERGE};
use tokio::sync::Mutex;
use tower::ServiceExt;

/// The memory that an attack on 64 connections may cost.
const MAX_GROWTH_BYTES: usize = 100 * 1024 * 1024;
const CONNECTIONS: usize = 64;

const REVISIONS: &str = "/apis/apps/v1/namespaces/default/controllerrevisions";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";

/// Serializes the measurements, since all tests share one heap.
static MEASURING: Mutex<()> = Mutex::const_new(());

static HELD: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn grown(bytes: usize) {
    let held = HELD.fetch_add(bytes, Ordering::Relaxed) + bytes;
    PEAK.fetch_max(held, Ordering::Relaxed);
}

// SAFETY: every call is passed on to the system's allocator as it is; counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grown(layout.size());
        // SAFETY: the caller upholds the contract of the system's allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above; all memory is from the system's allocator.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        grown(size);
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// A body, and where it is sent.
struct Attack {
    name: &'static str,
    method: Method,
    path: &'static str,
    media_type: &'static str,
    body: Bytes,
    code: u16,
}

impl Attack {
    /// Sends the same body on all connections. Returns by how much the heap grew.
    async fn run(&self, client: &Client) -> usize {
        let before = HELD.load(Ordering::Relaxed);
        PEAK.store(before, Ordering::Relaxed);
        let codes = join_all((0..CONNECTIONS).map(|_| self.send(client))).await;
        assert_eq!(codes, [self.code; CONNECTIONS], "{}", self.name);
        PEAK.load(Ordering::Relaxed) - before
    }

    async fn send(&self, client: &Client) -> u16 {
        let request = Request::builder().method(self.method.clone()).uri(self.path);
        let request = request.header(header::CONTENT_TYPE, self.media_type);
        // The bytes are shared, so this measures decoded objects and not received bodies.
        let mut request = request.body(Full::new(self.body.clone())).unwrap();
        request.extensions_mut().insert(PeerIdentity(Some(client.identity.clone())));
        let response = client.server.clone().oneshot(request).await.unwrap();
        let code = response.status().as_u16();
        response.into_body().collect().await.unwrap();
        code
    }
}

/// Aliases of one scalar.
fn alias_bomb(scalar_bytes: usize, aliases: usize) -> Bytes {
    let scalar = "x".repeat(scalar_bytes);
    let head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";
    format!("{head}data:\n  a: &a {scalar}\nbinaryData: [{}]\n", "*a,".repeat(aliases)).into()
}

/// JSON of `count` small maps, in the untyped data of a ControllerRevision.
fn small_maps(count: usize) -> Bytes {
    let items = r#"{"a":0},"#.repeat(count);
    let head = r#"{"apiVersion":"apps/v1","kind":"ControllerRevision","metadata":{"name":"a"},"revision":1"#;
    format!(r#"{head},"data":{{"l":[{items}0]}}}}"#).into()
}

/// A field of a protobuf message that has a length.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let mut field = vec![number << 3 | 2];
    let mut length = content.len();
    while length >= 0x80 {
        field.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    field.push(length as u8);
    field.extend_from_slice(content);
    field
}

/// A pod with `count` containers without any field, in protobuf.
fn empty_containers(count: usize) -> Bytes {
    let type_meta = [field(1, b"v1"), field(2, b"Pod")].concat();
    let metadata = field(1, &field(1, b"a"));
    let spec = field(2, &field(2, b"").repeat(count));
    [b"k8s\0".to_vec(), field(1, &type_meta), field(2, &[metadata, spec].concat())].concat().into()
}

/// A patch that copies a list of many small maps, many times.
fn copies(count: usize) -> Bytes {
    let copy = |at| json!({"op": "copy", "from": "/data/l", "path": format!("/data/l{at}")});
    let operations: Value = (0..count).map(copy).collect();
    operations.to_string().into()
}

fn attacks() -> Vec<Attack> {
    let (json, yaml, protobuf) =
        ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf");
    let apply = "application/apply-patch+yaml";
    let applied = "/api/v1/namespaces/default/configmaps/a?fieldManager=m";
    let patched = "/apis/apps/v1/namespaces/default/controllerrevisions/copied";
    let post = |name, path, media_type, body, code| Attack {
        name,
        method: Method::POST,
        path,
        media_type,
        body,
        code,
    };
    let patch = |name, path, media_type, body, code| Attack {
        method: Method::PATCH,
        ..post(name, path, media_type, body, code)
    };
    vec![
        post("YAML aliases", CONFIG_MAPS, yaml, alias_bomb(1_000_000, 200_000), 400),
        post("YAML aliases in a small body", CONFIG_MAPS, yaml, alias_bomb(8_000, 2_000), 400),
        post("JSON of small maps", REVISIONS, json, small_maps(390_000), 413),
        post("protobuf of empty messages", PODS, protobuf, empty_containers(1_500_000), 413),
        patch("apply of YAML aliases", applied, apply, alias_bomb(1_000_000, 200_000), 400),
        patch("JSON patch that copies", patched, "application/json-patch+json", copies(40), 413),
        patch("merge patch of small maps", patched, MERGE, small_maps(390_000), 413),
    ]
}

#[tokio::test]
async fn hostile_bodies_on_64_connections_take_less_than_100_mib() {
    let _alone = MEASURING.lock().await;
    let client = Client::new().await;
    let mut copied: Value = serde_json::from_slice(&small_maps(7_500)).unwrap();
    copied["metadata"]["name"] = "copied".into();
    assert_eq!(client.post(REVISIONS, copied).await.0, 201);
    for attack in attacks() {
        let growth = attack.run(&client).await;
        assert!(growth < MAX_GROWTH_BYTES, "{}: {} MiB", attack.name, growth >> 20);
    }
}

/// Objects as large as they may be are decoded and stored, a few at a time.
#[tokio::test]
async fn large_objects_that_are_allowed_are_accepted() {
    let _alone = MEASURING.lock().await;
    let client = Client::new().await;
    let large = Attack {
        name: "an allowed object",
        method: Method::POST,
        path: REVISIONS,
        media_type: "application/json",
        body: small_maps(30_000),
        code: 201,
    };
    assert_eq!(large.send(&client).await, 201);
    let again = Attack { name: "the same object again", code: 409, ..large };
    let growth = again.run(&client).await;
    assert!(growth < 2 * MAX_GROWTH_BYTES, "{} MiB", growth >> 20);
}
