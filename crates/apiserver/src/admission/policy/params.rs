//! The parameters of policies.

use std::sync::Arc;

use coracle_meta::gvk::split_api_version;
use coracle_meta::selector::LabelSelector;
use coracle_meta::selector::labels::Selector;
use coracle_registry::{KindRef, Scope, view};
use serde::Deserialize;
use serde_json::Value;

use super::request::{PolicyRequest, labels};

/// The parameter objects, each for one evaluation; None for an evaluation without parameters.
pub(super) type Params = Vec<Option<Arc<Value>>>;

/// The `paramKind` of a policy.
#[derive(Debug)]
pub(super) struct ParamKind {
    api_version: String,
    kind: String,
}

impl ParamKind {
    /// Parses the `paramKind` of a policy's spec, if it has one.
    pub(super) fn read(spec: &Value) -> Option<Self> {
        let found = spec.get("paramKind")?;
        let text = |field| view::text(found, &[field]).to_owned();
        Some(Self { api_version: text("apiVersion"), kind: text("kind") })
    }
}

/// Resolves the kind of a policy's parameters, if it has any.
///
/// # Errors
/// If the kind does not exist.
pub(super) async fn resolve(
    wanted: Option<&ParamKind>,
    request: &PolicyRequest<'_>,
) -> Result<Option<KindRef>, String> {
    let Some(ParamKind { api_version, kind }) = wanted else { return Ok(None) };
    let (group, version) = split_api_version(api_version);
    let found = request.attributes.cluster.kind_named(group, version, kind).await;
    match found.map_err(|error| error.to_string())? {
        Some(found) => Ok(Some(found)),
        None => Err(format!("failed to find resource referenced by paramKind: '{api_version}, Kind={kind}'")),
    }
}

/// Returns the parameters for a request. `reference` is the `paramRef` of the binding.
///
/// # Errors
/// If the policy, the binding or the parameters are invalid.
pub(super) async fn collect(
    kind: Option<&KindRef>,
    reference: Option<&Value>,
    request: &PolicyRequest<'_>,
) -> Result<Params, String> {
    let (Some(kind), Some(reference)) = (kind, reference) else { return Ok(vec![None]) };
    let namespace = namespace(kind, view::text(reference, &["namespace"]), request)?;
    let cluster = request.attributes.cluster;
    let name = view::text(reference, &["name"]);
    let found = match (name, reference.get("selector")) {
        ("", None) => return Err("one of name or selector must be provided".into()),
        ("", Some(selector)) => {
            let selector = read_selector(selector)?;
            let all = cluster.find_all(&**kind, namespace).await.map_err(|error| error.to_string())?;
            all.into_iter().filter(|object| selector.matches(&labels(object))).map(Some).collect()
        }
        (_, Some(_)) => {
            return Err("paramRef.name and paramRef.selector are mutually exclusive".into());
        }
        (name, None) => {
            let one = cluster.find(&**kind, namespace, name).await.map_err(|error| error.to_string())?;
            one.into_iter().map(Some).collect::<Params>()
        }
    };
    if found.is_empty() && view::text(reference, &["parameterNotFoundAction"]) == "Deny" {
        return Err("no params found for policy binding with `Deny` parameterNotFoundAction".into());
    }
    Ok(found)
}

/// The namespace of the parameters.
fn namespace<'a>(kind: &KindRef, named: &'a str, request: &PolicyRequest<'a>) -> Result<&'a str, String> {
    match (kind.declaration().scope, named, request.namespace()) {
        (Scope::Cluster, "", _) => Ok(""),
        (Scope::Cluster, ..) => {
            Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`".into())
        }
        (Scope::Namespaced, "", "") => Err("cannot use namespaced paramRef in policy binding that matches \
                                            cluster-scoped resources"
            .into()),
        (Scope::Namespaced, "", own) => Ok(own),
        (Scope::Namespaced, named, _) => Ok(named),
    }
}

fn read_selector(selector: &Value) -> Result<Selector, String> {
    let selector = LabelSelector::deserialize(selector).map_err(|error| error.to_string())?;
    selector.to_selector().map_err(|error| error.to_string())
}
