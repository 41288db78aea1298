//! Round trips of the writers' objects.

use serde_json::{Value, json};

use crate::model::{Content, Event, EventType, Kind, ObjectId, Observation, Revision, Version};
use crate::objects::{
    body, collection, owned, parse, parse_list, parse_watch_line, patch_body, path, shared,
};

fn version(object: &ObjectId, revision: Revision) -> (Value, Version) {
    let content = Content { stamp: "s2".to_owned(), base: "s1".to_owned() };
    (body(object, &content, Some(revision)), Version { revision, content })
}

#[test]
fn bodies_round_trip() {
    for kind in Kind::ALL {
        for object in [owned(kind, "a"), shared(kind, "b")] {
            let (body, version) = version(&object, 7);
            assert_eq!(parse(kind, &body).unwrap(), Some((object.clone(), version.clone())));
            let list = json!({"metadata": {"resourceVersion": "9"}, "items": [body]});
            assert_eq!(parse_list(kind, &list).unwrap(), (9, [(object, version)].into()));
        }
    }
}

#[test]
fn objects_of_other_names_are_skipped() {
    let metadata = json!({"name": "kube-root-ca.crt", "namespace": "default", "resourceVersion": "3"});
    let line = json!({"type": "ADDED", "object": {"metadata": metadata}}).to_string();
    let parsed = parse_watch_line(Kind::ConfigMap, line.as_bytes()).unwrap();
    assert_eq!(parsed, Some(Observation::Foreign(3)));
}

#[test]
fn truncated_content_is_an_error() {
    let object = owned(Kind::ConfigMap, "a");
    let (mut body, _) = version(&object, 7);
    body["data"]["filler"] = "s1:y".into();
    assert!(parse(Kind::ConfigMap, &body).is_err());
    body["data"] = json!({"stamp": "s1"});
    assert!(parse(Kind::ConfigMap, &body).is_err());
}

#[test]
fn watch_lines_parse_as_events_bookmarks_or_gone() {
    let object = owned(Kind::Secret, "a");
    let (body, version) = version(&object, 7);
    let parse = |line: Value| parse_watch_line(Kind::Secret, line.to_string().as_bytes());
    let event = Event { event_type: EventType::Deleted, object, version };
    let deleted = parse(json!({"type": "DELETED", "object": body})).unwrap();
    assert_eq!(deleted, Some(Observation::Event(event)));
    let bookmark = json!({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "8"}}});
    assert_eq!(parse(bookmark).unwrap(), Some(Observation::Bookmark(8)));
    assert_eq!(parse(json!({"type": "ERROR", "object": {"code": 410}})).unwrap(), None);
    assert!(parse(json!({"type": "ERROR", "object": {"code": 500}})).is_err());
}

#[test]
fn paths_and_patches_name_the_object() {
    let secret = owned(Kind::Secret, "a");
    assert_eq!(path(&secret), "/api/v1/namespaces/default/secrets/torture-a");
    assert_eq!(collection(Kind::ConfigMap, false), "/api/v1/configmaps");
    assert_eq!(patch_body(&secret, "s1"), json!({"data": {"stamp": "czE="}}));
}
