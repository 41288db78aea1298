//! The OpenAPI endpoints: version 3, one document for each group and version and an index of them, and version 2, one
//! document for all kinds.
//!
//! Documents are generated for each request and not cached on the server. Clients cache them under a hash that changes
//! only with the served kinds and with the program, so a 304 costs nothing, kinds may come and go, and an idle server
//! holds no document.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use bytes::Bytes;
use coracle_api::openapi::{self, GroupVersion, REVISION, Resource, Subject, Subresource, V2};
use coracle_base::tasks::Task;
use coracle_registry::{Declaration, Kind, OpenApi, Scope};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use ring::digest;
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;

use crate::body::{ResponseBody, full};
use crate::negotiate::{respond, to_json};
use crate::options::Query;
use crate::request_info::Route;
use crate::served_kinds::{ServedKinds, has_built_in_group};
use crate::status::Refusal;

/// `Cache-Control` of a document that was requested by its hash.
const LONG_LIVED: &str = "public, max-age=31536000, immutable";

/// Documents that are generated at the same time; other requests wait. The largest takes some tens of megabytes while
/// it is generated, and many clients may request it at once.
const CONCURRENT_DOCUMENTS: usize = 1;

static GENERATING: Semaphore = Semaphore::const_new(CONCURRENT_DOCUMENTS);

/// The media type of JSON documents of both versions.
const JSON: Form = Form { subtypes: &["json"], media_type: "application/json" };

/// Protobuf of version 2. client-go requests it by its older name.
const PROTOBUF_V2: Form = Form {
    subtypes: &[
        "com.github.proto-openapi.spec.v2@v1.0+protobuf",
        "com.github.proto-openapi.spec.v2.v1.0+protobuf",
    ],
    media_type: "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
};

/// Protobuf of version 3, under the same two names as in version 2.
const PROTOBUF_V3: Form = Form {
    subtypes: &[
        "com.github.proto-openapi.spec.v3@v1.0+protobuf",
        "com.github.proto-openapi.spec.v3.v1.0+protobuf",
    ],
    media_type: "application/com.github.proto-openapi.spec.v3.v1.0+protobuf",
};

/// A media type of documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Form {
    /// The subtypes in `Accept`, all of `application/`.
    subtypes: &'static [&'static str],
    media_type: &'static str,
}

/// Answers requests below `/openapi` for every method, as kube-apiserver does.
pub(crate) async fn answer(
    route: &Route,
    parts: &Parts,
    served: ServedKinds,
    now: SystemTime,
) -> Result<Response<ResponseBody>, Refusal> {
    let is_exact = !parts.uri.path().ends_with('/');
    let mut response = match route {
        Route::OpenApiIndex if is_exact => index(&served),
        Route::OpenApiV2 if is_exact => answer_v2(&parts.headers, served).await?,
        Route::OpenApi(path) if is_exact => {
            let query = Query::parse(parts.uri.query().unwrap_or_default());
            answer_v3(path, query.text("hash"), &parts.headers, served).await?
        }
        Route::OpenApiIndex | Route::OpenApi(_) => empty(StatusCode::NOT_FOUND),
        _ => return Err(Refusal::no_page()),
    };
    // The modification time is the time of the request, because documents are generated on request.
    if response.status() == StatusCode::OK
        && let Ok(modified) = HeaderValue::from_str(&httpdate::fmt_http_date(now))
    {
        response.headers_mut().insert(header::LAST_MODIFIED, modified);
    }
    Ok(response)
}

/// `/openapi/v3`. kube-apiserver sets no media type, and Go then detects text.
fn index(served: &ServedKinds) -> Response<ResponseBody> {
    let mut paths = Map::new();
    for topic in Topic::all(served) {
        let path = topic.path();
        let url = format!("/openapi/v3/{path}?hash={}", topic.hash(served));
        paths.insert(path, json!({"serverRelativeURL": url}));
    }
    respond(to_json(&json!({"paths": paths})), "text/plain; charset=utf-8")
}

/// A generated document and its hash, for the `ETag`. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Document {
    json: Bytes,
    hash: Arc<str>,
}

impl Document {
    pub(crate) fn of(content: &impl serde::Serialize) -> Self {
        let json = to_json(content);
        let hash = hexadecimal(digest::digest(&digest::SHA512, &json));
        Self { json: json.into(), hash: hash.into() }
    }

    /// Responds with the document, or with 304 if the client has it.
    pub(crate) fn respond(self, headers: &HeaderMap, media_type: &'static str) -> Response<ResponseBody> {
        let Self { json, hash } = self;
        let mut response = if is_known(headers, &hash) { not_modified() } else { respond(json, media_type) };
        set_tag(&mut response, &hash);
        response
    }
}

/// `/openapi/v3/api/v1` and similar paths.
async fn answer_v3(
    path: &str,
    asked_hash: &str,
    headers: &HeaderMap,
    served: ServedKinds,
) -> Result<Response<ResponseBody>, Refusal> {
    let Some(topic) = Topic::all(&served).find(|topic| topic.path() == path) else {
        return Ok(empty(StatusCode::NOT_FOUND));
    };
    let Some(form) = negotiate(headers, &[JSON, PROTOBUF_V3]) else { return Ok(not_acceptable()) };
    let hash = topic.hash(&served);
    if !asked_hash.is_empty() && asked_hash != hash {
        return Ok(moved(&format!("/openapi/v3/{path}?hash={hash}")));
    }
    let make = move || {
        let document = topic.visit(&served, Some(OpenApi::V3), openapi::v3);
        if form == PROTOBUF_V3 { openapi::encode_v3(&document) } else { to_json(&document) }
    };
    let mut response = respond_with(headers, &hash, form, make).await?;
    if !asked_hash.is_empty() {
        response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static(LONG_LIVED));
    }
    Ok(response)
}

/// `/openapi/v2`.
async fn answer_v2(headers: &HeaderMap, served: ServedKinds) -> Result<Response<ResponseBody>, Refusal> {
    let Some(form) = negotiate(headers, &[JSON, PROTOBUF_V2]) else {
        return Ok(vary_encoding(not_acceptable()));
    };
    let mut all = digest::Context::new(&digest::SHA512);
    Topic::all(&served).for_each(|topic| all.update(topic.hash(&served).as_bytes()));
    let hash = hexadecimal(all.finish());
    let make = move || {
        let mut document = V2::new();
        Topic::all(&served)
            .for_each(|topic| topic.visit(&served, Some(OpenApi::V2), |subject| document.add(subject)));
        let document = document.finish();
        if form == PROTOBUF_V2 { openapi::encode_v2(&document) } else { to_json(&document) }
    };
    respond_with(headers, &hash, form, make).await.map(vary_encoding)
}

/// kube-apiserver names this header before `Accept` for the second version.
fn vary_encoding(mut response: Response<ResponseBody>) -> Response<ResponseBody> {
    let headers = response.headers_mut();
    headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    headers.append(header::VARY, HeaderValue::from_static("Accept"));
    response
}

/// Responds with a document, and generates it only if the client does not have it.
async fn respond_with(
    headers: &HeaderMap,
    hash: &str,
    form: Form,
    make: impl FnOnce() -> Vec<u8> + Send + 'static,
) -> Result<Response<ResponseBody>, Refusal> {
    let mut response = if is_known(headers, hash) {
        not_modified()
    } else {
        respond(generate_once(hash, form, make).await?, form.media_type)
    };
    set_tag(&mut response, hash);
    response.headers_mut().append(header::VARY, HeaderValue::from_static("Accept"));
    Ok(response)
}

/// Generates a document, unless it was just generated for a request that overlaps this one. Many clients request the
/// same document at once, and each request holds a seat until it has the document.
async fn generate_once(
    hash: &str,
    form: Form,
    make: impl FnOnce() -> Vec<u8> + Send + 'static,
) -> Result<Bytes, Refusal> {
    let request = OverlappingRequest::begin();
    // The semaphore is never closed; if it were, documents would be generated concurrently.
    let _permit = GENERATING.acquire().await.ok();
    if let Some(bytes) = request.last_document(hash, form) {
        return Ok(bytes);
    }
    let bytes = Bytes::from(Task::spawn_blocking("openapi", make).await?);
    request.set_last_document(hash, form, &bytes);
    Ok(bytes)
}

/// The last generated document, kept while requests for documents overlap.
static LAST: Mutex<LastDocument> = Mutex::new(LastDocument { requests: 0, document: None });

struct LastDocument {
    /// Requests that wait for a document.
    requests: usize,
    document: Option<(String, Form, Bytes)>,
}

impl LastDocument {
    fn lock() -> MutexGuard<'static, Self> {
        LAST.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that waits for a document. The last one to end frees the document, so an idle server holds none.
struct OverlappingRequest;

impl OverlappingRequest {
    fn begin() -> Self {
        LastDocument::lock().requests += 1;
        Self
    }

    fn last_document(&self, hash: &str, form: Form) -> Option<Bytes> {
        let last = LastDocument::lock();
        let (its_hash, its_form, bytes) = last.document.as_ref()?;
        (its_hash == hash && *its_form == form).then(|| bytes.clone())
    }

    fn set_last_document(&self, hash: &str, form: Form, bytes: &Bytes) {
        LastDocument::lock().document = Some((hash.to_owned(), form, bytes.clone()));
    }
}

impl Drop for OverlappingRequest {
    fn drop(&mut self) {
        let mut last = LastDocument::lock();
        last.requests -= 1;
        if last.requests == 0 {
            last.document = None;
        }
    }
}

/// Returns the first form that the client accepts, in the order of its preference.
fn negotiate(headers: &HeaderMap, offered: &[Form]) -> Option<Form> {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let accept = if accept.is_empty() { "*/*" } else { accept };
    let mut wishes: Vec<(&str, u16)> = accept.split(',').filter_map(wish).collect();
    wishes.sort_by_key(|(media, weight)| (std::cmp::Reverse(*weight), media.contains('*')));
    wishes.into_iter().find_map(|(media, _)| {
        let (kind, subtype) = media.split_once('/')?;
        let fits = |form: &&Form| subtype == "*" || form.subtypes.contains(&subtype);
        offered.iter().filter(|_| matches!(kind, "*" | "application")).find(fits).copied()
    })
}

/// Parses a media type and its weight in thousandths.
fn wish(text: &str) -> Option<(&str, u16)> {
    let mut parts = text.split(';').map(str::trim);
    let media = parts.next().filter(|media| !media.is_empty())?;
    let weight = parts.find_map(|part| part.strip_prefix("q=")).and_then(|text| text.parse::<f32>().ok());
    // Weights have three digits, so nothing is lost.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 1000")]
    Some((media, (weight.unwrap_or(1.0).clamp(0.0, 1.0) * 1000.0).round() as u16))
}

fn is_known(headers: &HeaderMap, hash: &str) -> bool {
    let tags = headers.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    let fits = |tag: &str| {
        let tag = tag.trim();
        tag == "*" || tag.trim_start_matches("W/").trim_matches('"') == hash
    };
    tags.is_some_and(|tags| tags.split(',').any(fits))
}

fn set_tag(response: &mut Response<ResponseBody>, hash: &str) {
    if let Ok(tag) = HeaderValue::from_str(&format!("\"{hash}\"")) {
        response.headers_mut().insert(header::ETAG, tag);
    }
}

fn empty(status: StatusCode) -> Response<ResponseBody> {
    let mut response = Response::new(full(""));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

fn not_modified() -> Response<ResponseBody> {
    empty(StatusCode::NOT_MODIFIED)
}

/// 406 without a `Status`: clients of these paths may not know Kubernetes.
fn not_acceptable() -> Response<ResponseBody> {
    let mut response = empty(StatusCode::NOT_ACCEPTABLE);
    response.headers_mut().append(header::VARY, HeaderValue::from_static("Accept"));
    response
}

fn moved(to: &str) -> Response<ResponseBody> {
    let mut response = empty(StatusCode::MOVED_PERMANENTLY);
    if let Ok(location) = HeaderValue::from_str(to) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}

fn hexadecimal(digest: digest::Digest) -> String {
    digest.as_ref().iter().map(|byte| format!("{byte:02X}")).collect()
}

/// The contents of one document.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Topic {
    CoreVersions,
    Groups,
    Group(String),
    Version,
    Resources { group: String, version: String },
}

impl Topic {
    /// All topics that are served now, the core group first.
    fn all(served: &ServedKinds) -> impl Iterator<Item = Self> + use<> {
        let mut all = vec![Self::CoreVersions, Self::Groups, Self::Version];
        for (group, version) in served.described_group_versions() {
            let about_group = Self::Group(group.to_owned());
            // For groups with custom resources kube-apiserver documents only the versions.
            if has_built_in_group(group) && !group.is_empty() && !all.contains(&about_group) {
                all.push(about_group);
            }
            all.push(Self::Resources { group: group.to_owned(), version: version.to_owned() });
        }
        all.into_iter()
    }

    /// The path of the document below `/openapi/v3`.
    fn path(&self) -> String {
        match self {
            Self::CoreVersions => "api".into(),
            Self::Groups => "apis".into(),
            Self::Group(group) => format!("apis/{group}"),
            Self::Version => "version".into(),
            Self::Resources { group, version } if group.is_empty() => format!("api/{version}"),
            Self::Resources { group, version } => format!("apis/{group}/{version}"),
        }
    }

    /// The hash of a document. Changes whenever the document does: with the served kinds and with the program.
    fn hash(&self, served: &ServedKinds) -> String {
        let custom: Vec<u64> = match self {
            Self::Resources { group, version } => {
                served.served(group, version).map(Kind::fingerprint).filter(|print| *print != 0).collect()
            }
            _ => Vec::new(),
        };
        let facts = self.visit(served, None, |subject| format!("{REVISION} {subject:?} {custom:?}"));
        hexadecimal(digest::digest(&digest::SHA512, facts.as_bytes()))
    }

    /// Calls `visitor` with the contents of the document. Definitions of the
    /// kinds are included only if `open_api` selects their form.
    fn visit<T>(
        &self,
        served: &ServedKinds,
        open_api: Option<OpenApi>,
        visitor: impl FnOnce(Subject<'_>) -> T,
    ) -> T {
        match self {
            Self::CoreVersions => visitor(Subject::CoreVersions),
            Self::Groups => visitor(Subject::Groups),
            Self::Group(group) => visitor(Subject::Group(group)),
            Self::Version => visitor(Subject::Version),
            Self::Resources { group, version } => {
                let kinds = served.served(group, version);
                let served: Vec<Served<'_>> = kinds.map(|kind| Served::of(kind, version, open_api)).collect();
                visit_resources(GroupVersion { group, version }, &served, visitor)
            }
        }
    }
}

fn visit_resources<T>(
    group_version: GroupVersion<'_>,
    served: &[Served<'_>],
    visitor: impl FnOnce(Subject<'_>) -> T,
) -> T {
    let subresources: Vec<Vec<Subresource<'_>>> = served.iter().map(Served::subresources).collect();
    let resources: Vec<Resource<'_>> = served
        .iter()
        .zip(&subresources)
        .map(|(one, subresources)| Resource {
            name: &one.declaration.plural,
            kind: &one.declaration.kind,
            namespaced: one.declaration.scope == Scope::Namespaced,
            verbs: &one.verbs,
            // For namespaces kube-apiserver documents a Status, but returns the object.
            delete_returns_object: one.declaration.deletion_returns_object
                && one.declaration.kind != "Namespace",
            subresources,
            list_kind: &one.list_kind,
            definitions: &one.definitions,
        })
        .collect();
    visitor(Subject::Resources(group_version, &resources))
}

/// Owned data of a kind that its document needs.
struct Served<'a> {
    declaration: &'a Declaration,
    verbs: Vec<&'static str>,
    /// Name, group, version, kind and verbs of each subresource.
    subresources: Vec<Part<'a>>,
    list_kind: Cow<'a, str>,
    definitions: Vec<(String, Value)>,
}

type Part<'a> = (&'a str, &'a str, &'a str, &'a str, Vec<&'static str>);

impl<'a> Served<'a> {
    fn of(kind: &'a dyn Kind, version: &'a str, open_api: Option<OpenApi>) -> Self {
        let declaration = kind.declaration();
        let subresources = declaration.subresources.iter().map(|one| {
            let (group, version) = match &one.group_version {
                Some((group, version)) => (&**group, &**version),
                None => (&*declaration.group, version),
            };
            (&*one.name, group, version, &*one.kind, one.verbs.names().collect())
        });
        Self {
            declaration,
            verbs: declaration.verbs.names().collect(),
            subresources: subresources.collect(),
            list_kind: declaration.list_kind(),
            definitions: open_api.map(|open_api| kind.definitions(open_api)).unwrap_or_default(),
        }
    }

    fn subresources(&self) -> Vec<Subresource<'_>> {
        self.subresources
            .iter()
            .map(|(name, group, version, kind, verbs)| Subresource { name, group, version, kind, verbs })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(accept: &str) -> Option<Form> {
        let headers = HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_str(accept).unwrap())]);
        negotiate(&headers, &[JSON, PROTOBUF_V2])
    }

    #[test]
    fn negotiated_form_is_the_one_the_client_prefers() {
        assert_eq!(negotiate(&HeaderMap::new(), &[JSON, PROTOBUF_V2]), Some(JSON));
        for (accept, expected) in [
            ("application/json", Some(JSON)),
            ("*/*", Some(JSON)),
            ("application/*", Some(JSON)),
            ("application/com.github.proto-openapi.spec.v2@v1.0+protobuf", Some(PROTOBUF_V2)),
            ("application/com.github.proto-openapi.spec.v2.v1.0+protobuf", Some(PROTOBUF_V2)),
            ("*/*, application/com.github.proto-openapi.spec.v2.v1.0+protobuf", Some(PROTOBUF_V2)),
            (
                "application/com.github.proto-openapi.spec.v2@v1.0+protobuf;q=0.3, application/json;q=0.7",
                Some(JSON),
            ),
            ("application/vnd.kubernetes.protobuf", None),
            ("text/html", None),
        ] {
            assert_eq!(form(accept), expected, "{accept}");
        }
    }

    #[tokio::test]
    async fn overlapping_requests_share_one_document() {
        let times = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let request = |_| {
            let times = times.clone();
            generate_once("hash", JSON, move || {
                times.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                b"document".to_vec()
            })
        };
        let documents = futures_util::future::join_all((0..10).map(request)).await;
        assert!(documents.into_iter().all(|document| document.is_ok_and(|bytes| bytes == "document")));
        assert_eq!(times.load(std::sync::atomic::Ordering::Relaxed), 1);
        assert!(LastDocument::lock().document.is_none(), "an idle server holds no document");
    }

    #[test]
    fn hashes_differ_by_topic_and_are_stable() {
        let served = ServedKinds::built_in();
        let hashes = || Topic::all(&served).map(|topic| topic.hash(&served));
        let distinct: std::collections::BTreeSet<String> = hashes().collect();
        assert_eq!(distinct.len(), Topic::all(&served).count());
        assert_eq!(distinct, hashes().collect());
    }
}
