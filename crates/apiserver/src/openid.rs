//! The discovery endpoints of the service account issuer: its configuration and its public keys (OpenID Connect
//! Discovery 1.0; `pkg/serviceaccount/openidmetadata.go` of Kubernetes).

use http::{HeaderValue, Response, header};
use serde::Serialize;

use crate::body::{ResponseBody, full};
use crate::negotiate::to_json;
use crate::request_info::Route;
use crate::token::{JsonWebKey, TokenSigner};

/// How long clients may cache the responses. A key is published for so long before it signs tokens.
const CACHE_CONTROL: HeaderValue = HeaderValue::from_static("public, max-age=3600");

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const KEY_SET: HeaderValue = HeaderValue::from_static("application/jwk-set+json");

/// The configuration of the issuer, its members in kube-apiserver's order.
#[derive(Serialize)]
struct Metadata<'a> {
    issuer: &'a str,
    jwks_uri: &'a str,
    response_types_supported: [&'static str; 1],
    subject_types_supported: [&'static str; 1],
    id_token_signing_alg_values_supported: Vec<&'a str>,
}

#[derive(Serialize)]
struct KeySet<'a> {
    keys: Vec<JsonWebKey<'a>>,
}

/// The media types of a document, as kube-apiserver's router offers them.
pub(crate) fn representations(route: &Route) -> &'static [&'static str] {
    if *route == Route::KeySet { &["application/jwk-set+json"] } else { &["application/json"] }
}

/// Returns true if OpenID Connect discovery is possible for an issuer.
pub(crate) fn is_discoverable(issuer: &str) -> bool {
    issuer.starts_with("https://") && !issuer.contains(['?', '#'])
}

/// The discovery document of a cluster: its issuer, and the URL of its keys.
pub(crate) fn configuration(
    signer: &dyn TokenSigner,
    issuer: &str,
    jwks_uri: &str,
) -> Response<ResponseBody> {
    let mut algorithms: Vec<&str> = signer.public_keys().iter().map(|key| key.algorithm()).collect();
    algorithms.sort_unstable();
    algorithms.dedup();
    let metadata = Metadata {
        issuer,
        jwks_uri,
        response_types_supported: ["id_token"],
        subject_types_supported: ["public"],
        id_token_signing_alg_values_supported: algorithms,
    };
    answer(to_json(&metadata), JSON)
}

/// The JSON Web Key Set.
pub(crate) fn key_set(signer: &dyn TokenSigner) -> Response<ResponseBody> {
    let keys = signer.public_keys().iter().map(|key| key.jwk()).collect();
    answer(to_json(&KeySet { keys }), KEY_SET)
}

fn answer(body: Vec<u8>, media_type: HeaderValue) -> Response<ResponseBody> {
    let mut response = Response::new(full(body));
    response.headers_mut().insert(header::CONTENT_TYPE, media_type);
    response.headers_mut().insert(header::CACHE_CONTROL, CACHE_CONTROL);
    response
}
