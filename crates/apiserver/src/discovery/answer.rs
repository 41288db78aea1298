//! Responses to discovery requests.

use http::request::Parts;
use http::{HeaderValue, Method, Response, header};
use serde::Serialize;

use crate::body::ResponseBody;
use crate::negotiate::{self, OFFERED, ResponseFormat, check_representation};
use crate::request_info::Route;
use crate::served_kinds::ServedKinds;
use crate::service::VERSION;
use crate::status::Refusal;

/// Responds to a discovery request. `address` is the external address of the server.
pub(crate) fn answer(
    route: &Route,
    parts: &Parts,
    served: &ServedKinds,
    address: Option<&str>,
) -> Result<Response<ResponseBody>, Refusal> {
    match route {
        Route::Index => respond(route, parts, Some(super::index(served))),
        Route::Version => respond(route, parts, Some(super::version(VERSION))),
        Route::CoreVersions if wants_aggregated(parts) => {
            check_get(parts).map(|()| aggregated(parts, served, true))
        }
        // kube-apiserver serves aggregated discovery at `/api/`, too, but not at `/apis/`.
        Route::Groups if !parts.uri.path().ends_with('/') && wants_aggregated(parts) => {
            Ok(aggregated(parts, served, false))
        }
        Route::CoreVersions => respond(route, parts, Some(super::core_versions(served, address))),
        Route::Groups => respond(route, parts, Some(super::group_list(served))),
        Route::Group(group) => respond(route, parts, super::group(served, group)),
        Route::Resources { group, version } if served.is_remote(group, version) => {
            Err(Refusal::unavailable())
        }
        Route::Resources { group, version } => {
            respond(route, parts, super::resource_list(served, group, version))
        }
        Route::OpenApiV2
        | Route::OpenApiIndex
        | Route::OpenApi(_)
        | Route::OpenIdConfiguration
        | Route::KeySet
        | Route::Clusters(_)
        | Route::Resource => Err(Refusal::not_found()),
    }
}

/// Returns true if the client accepts aggregated discovery.
fn wants_aggregated(parts: &Parts) -> bool {
    ResponseFormat::of_discovery(&parts.headers, true).is_ok_and(|format| format.aggregated)
}

/// `/api` or `/apis` as aggregated discovery.
fn aggregated(parts: &Parts, served: &ServedKinds, core: bool) -> Response<ResponseBody> {
    let document = super::document(served, core);
    let mut response = document.respond(&parts.headers, super::AGGREGATED);
    let headers = response.headers_mut();
    headers.append(header::VARY, HeaderValue::from_static("Accept"));
    // As in kube-apiserver (`ServeHTTPWithETag`): clients revalidate by the ETag.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public"));
    response
}

/// A document of discovery, or 404 without one.
fn respond(
    route: &Route,
    parts: &Parts,
    document: Option<impl Serialize>,
) -> Result<Response<ResponseBody>, Refusal> {
    let document = document.ok_or_else(|| Refusal::unserved(parts.uri.path()))?;
    let format = match route {
        // kube-apiserver answers these for any method, the index always in indented JSON.
        Route::Index => ResponseFormat::indented_json(),
        Route::Groups | Route::Group(_) => ResponseFormat::of_discovery(&parts.headers, false)?,
        Route::Version => {
            check_get(parts)?;
            check_representation(&parts.headers, &["application/json"])?;
            ResponseFormat::indented_json()
        }
        _ => {
            check_get(parts)?;
            check_representation(&parts.headers, &OFFERED)?;
            ResponseFormat::of_discovery(&parts.headers, false)?
        }
    };
    Ok(negotiate::document(format, &document))
}

/// Rejects all methods but GET: kube-apiserver's router has no HEAD.
pub(crate) fn check_get(parts: &Parts) -> Result<(), Refusal> {
    if parts.method == Method::GET { Ok(()) } else { Err(Refusal::method_not_allowed()) }
}
