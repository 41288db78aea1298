//! The compiled schema of one version of a custom kind.

use coracle_api::codec::{DecodeError, Decoded, Problem};
use coracle_api::schema::{TypeId, graph, types};
use coracle_crd::Structural;
use coracle_meta::schema::{NodeId, Schema};
use serde_json::Value;

use crate::form::ObjectSchema;
use crate::kinds::apiextensions::metadata;

/// The type of the metadata of all objects.
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// The schema of one version.
pub(super) struct Compiled {
    pub(super) structural: Structural,
    schema: Schema,
    node: NodeId,
}

impl Compiled {
    /// Compiles a schema, which was validated when it was written.
    pub(super) fn of(schema: &Value) -> Option<Self> {
        let structural = Structural::parse(schema).ok()?;
        let metadata = object_meta()?;
        let (schema, node) = structural.to_schema((graph().schema(), graph().node(metadata)));
        Some(Self { structural, schema, node })
    }

    pub(super) fn object_schema(&self) -> ObjectSchema<'_> {
        ObjectSchema { schema: &self.schema, node: self.node }
    }

    /// Prunes unknown fields, and converts the metadata into its typed form.
    pub(super) fn conform(&self, mut object: Value, stored: bool) -> Result<Decoded, DecodeError> {
        match self.structural.conform(&mut object, &metadata::read, stored) {
            Ok(unknown) => {
                Ok(Decoded { object, problems: unknown.into_iter().map(Problem::Unknown).collect() })
            }
            Err(error) => Err(DecodeError::Value { message: error.to_string() }),
        }
    }
}

fn object_meta() -> Option<TypeId> {
    types().named(OBJECT_META)
}
