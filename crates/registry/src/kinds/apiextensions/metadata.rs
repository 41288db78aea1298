//! Typed metadata for schemas, which do not contain the type of metadata.

use coracle_api::codec::{Problem, json};
use coracle_api::schema::types;
use coracle_crd::Metadata;
use serde_json::Value;

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// Decodes metadata of a custom object or an embedded resource.
pub(crate) fn read(found: &Value) -> Result<Metadata, String> {
    let id = types().named(OBJECT_META).expect("ObjectMeta is among the built-in types");
    let decoded = json::conform(found.clone(), id).map_err(|error| error.to_string())?;
    let unknown = decoded.problems.into_iter().filter_map(|problem| match problem {
        Problem::Unknown(path) => Some(path),
        _ => None,
    });
    Ok(Metadata { value: decoded.object, unknown: unknown.collect() })
}
