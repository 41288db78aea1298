//! OpenAPI v3: one document for each group and version, and the list of them.
//!
//! Documents are made when they are asked for and not kept: clients keep them, by a hash that
//! changes only with what is served.

use std::hash::{DefaultHasher, Hasher};

use coracle_api::openapi::{Describe, GroupVersion, Resource, Subresource, document};
use coracle_registry::{Declaration, Scope};
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use serde_json::{Map, Value, json};

use crate::body::{ResponseBody, full};
use crate::discovery;
use crate::negotiate::{respond, to_json};
use crate::status::Refusal;

/// How long a document may be kept by a client that asked for it by its hash.
const LONG_LIVED: &str = "public, max-age=31536000, immutable";

/// The types come without words so far; names and types are told all the same.
struct Wordless;

impl Describe for Wordless {
    fn of_type(&self, _type_name: &str) -> Option<String> {
        None
    }

    fn of_field(&self, _type_name: &str, _field: &str) -> Option<String> {
        None
    }
}

fn path(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

/// Changes whenever the document does: with what is served, and with the program.
fn hash(group: &str, version: &str) -> Option<String> {
    let served = discovery::resource_list(group, version)?;
    let mut halves = [DefaultHasher::new(), DefaultHasher::new()];
    for (salt, half) in halves.iter_mut().enumerate() {
        half.write_usize(salt);
        half.write(env!("CARGO_PKG_VERSION").as_bytes());
        half.write(&to_json(&served));
    }
    Some(halves.map(|half| format!("{:016X}", half.finish())).concat())
}

/// `/openapi/v3`.
pub(crate) fn index() -> Value {
    let mut paths = Map::new();
    for (group, version) in discovery::group_versions() {
        let path = path(group, version);
        if let Some(hash) = hash(group, version) {
            let url = format!("/openapi/v3/{path}?hash={hash}");
            paths.insert(path, json!({"serverRelativeURL": url}));
        }
    }
    json!({"paths": paths})
}

/// `/openapi/v3/api/v1` and the like.
pub(crate) fn answer(
    group: &str,
    version: &str,
    asked_hash: &str,
    headers: &HeaderMap,
) -> Result<Response<ResponseBody>, Refusal> {
    let hash = hash(group, version).ok_or_else(Refusal::not_found)?;
    if !asked_hash.is_empty() && asked_hash != hash {
        return Ok(moved(&format!("/openapi/v3/{}?hash={hash}", path(group, version))));
    }
    let tag = format!("\"{hash}\"");
    let known = headers.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    let mut response = if known.is_some_and(|known| known.split(',').any(|one| one.trim() == tag)) {
        let mut response = Response::new(full(""));
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response
    } else {
        respond(to_json(&make(group, version)), "application/json")
    };
    let headers = response.headers_mut();
    headers.insert(header::ETAG, HeaderValue::from_str(&tag).expect("hexadecimal digits in quotes"));
    headers.insert(header::VARY, HeaderValue::from_static("Accept"));
    if !asked_hash.is_empty() {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(LONG_LIVED));
    }
    Ok(response)
}

fn moved(to: &str) -> Response<ResponseBody> {
    let mut response = Response::new(full(""));
    *response.status_mut() = StatusCode::MOVED_PERMANENTLY;
    if let Ok(location) = HeaderValue::from_str(to) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}

/// What the document needs to know of a kind, owned.
struct Served<'a> {
    declaration: &'a Declaration,
    verbs: Vec<&'static str>,
    /// Name, group, version, kind and verbs of each.
    subresources: Vec<Part<'a>>,
}

type Part<'a> = (&'a str, &'a str, &'a str, &'a str, Vec<&'static str>);

fn make(group: &str, version: &str) -> Value {
    let served: Vec<Served<'_>> =
        discovery::served(group, version).map(|one| Served::of(one, version)).collect();
    let subresources: Vec<Vec<Subresource<'_>>> = served.iter().map(Served::subresources).collect();
    let resources: Vec<Resource<'_>> = served
        .iter()
        .zip(&subresources)
        .map(|(one, subresources)| Resource {
            name: &one.declaration.plural,
            kind: &one.declaration.kind,
            namespaced: one.declaration.scope == Scope::Namespaced,
            verbs: &one.verbs,
            delete_returns_object: one.declaration.deletion_returns_object,
            subresources,
        })
        .collect();
    document(GroupVersion { group, version }, &resources, &Wordless)
}

impl<'a> Served<'a> {
    fn of(declaration: &'a Declaration, version: &'a str) -> Self {
        let subresources = declaration.subresources.iter().map(|one| {
            let (group, version) = match &one.group_version {
                Some((group, version)) => (&**group, &**version),
                None => (&*declaration.group, version),
            };
            (&*one.name, group, version, &*one.kind, one.verbs.names().collect())
        });
        Self { declaration, verbs: declaration.verbs.names().collect(), subresources: subresources.collect() }
    }

    fn subresources(&self) -> Vec<Subresource<'_>> {
        self.subresources
            .iter()
            .map(|(name, group, version, kind, verbs)| Subresource { name, group, version, kind, verbs })
            .collect()
    }
}
