//! Writes to the scale subresource.

use coracle_meta::apply::{ManagedFields, ScaleOwnership};
use coracle_meta::field::{ErrorList, FieldError, Path};
use coracle_meta::gvk::{GroupKind, GroupResource};
use coracle_meta::object::ensure_namespace;
use serde_json::Value;

use super::ownership::Ownership;
use super::update::{Change, Updated, check_name, check_uid};
use super::{Write, meta_mut};
use crate::cluster::Cluster;
use crate::error::{Error, Result, Subject};
use crate::scale::{self, ScalePaths};

impl Cluster {
    /// Updates the Scale of an object. Returns the object.
    ///
    /// # Errors
    /// If the object does not exist, has changed, or the Scale is invalid.
    pub async fn update_scale(
        &self,
        write: &Write<'_>,
        name: &str,
        paths: &ScalePaths,
        change: &Change<'_>,
    ) -> Result<Updated> {
        if let Change::Replace(scale) = change {
            check_name(scale, name)?;
        }
        let whole = Write { subresource: "", ..*write };
        let rescale = |object: Value| self.rescale(write, name, paths, change, object);
        self.update(&whole, name, &Change::Tracked(&rescale)).await
    }

    fn rescale(
        &self,
        write: &Write<'_>,
        name: &str,
        paths: &ScalePaths,
        change: &Change<'_>,
        mut object: Value,
    ) -> Result<Value> {
        let now = self.now();
        let managed = object.pointer("/metadata/managedFields");
        let managed = ManagedFields::decode(managed).unwrap_or_default();
        let replicas_path = paths.spec_replicas.iter().map(|name| &**name);
        let owned = ScaleOwnership::new(managed, write.api_version, replicas_path);
        let mut live = paths.scale_of(&object);
        set_managed_fields(&mut live, owned.of_scale())?;

        let ownership = Ownership::of(write);
        let mut scale = match change {
            Change::Replace(scale) => {
                check_uid(write, name, scale, &object)?;
                ownership.track(Some(&live), normal(scale.clone()), now)
            }
            Change::Patch(patch) | Change::Tracked(patch) => {
                ownership.track(Some(&live), normal(patch(live.clone())?), now)
            }
            Change::Apply { config, force, once_merged } => {
                let applied = ownership.apply(Some(&live), config, *force, now)?;
                once_merged()?;
                applied
            }
        };
        ensure_namespace(&mut meta_mut(&mut scale)?, write.namespace)?;
        check_name(&scale, name)?;
        // A required count that was not set must be set now.
        if let Some(path) = paths.unsaid(&object)
            && scale.pointer("/spec/replicas").is_none()
            && matches!(change, Change::Patch(_) | Change::Apply { .. })
        {
            return Err(Error::BadRequest(format!("the spec replicas field {path:?} cannot be empty")));
        }
        let replicas = check(write, name, paths, &scale, &object)?;

        paths.set_replicas(&mut object, replicas);
        let managed = ManagedFields::decode(scale.pointer("/metadata/managedFields")).unwrap_or_default();
        set_managed_fields(&mut object, owned.of_object(managed))?;
        // A Scale without a resourceVersion refers to the object that was read.
        let seen = scale.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap_or_default();
        if !seen.is_empty() {
            meta_mut(&mut object)?.set_resource_version(seen);
        }
        Ok(object)
    }
}

/// Removes a count of zero, which is equal to an absent count and has no manager.
fn normal(mut scale: Value) -> Value {
    if scale::replicas(&scale) == 0
        && let Some(spec) = scale.get_mut("spec").and_then(Value::as_object_mut)
    {
        spec.remove("replicas");
    }
    scale
}

/// Validates a Scale and returns its count.
fn check(write: &Write<'_>, name: &str, paths: &ScalePaths, scale: &Value, object: &Value) -> Result<i64> {
    let replicas = scale::replicas(scale);
    // If the kind requires the count, the object is validated instead of its Scale.
    if replicas < 0 && paths.is_said.is_none() {
        let detail = "must be greater than or equal to 0";
        let error = FieldError::invalid(&Path::root("spec.replicas"), replicas, detail);
        let kind = GroupKind { group: "autoscaling".into(), kind: "Scale".into() };
        let subject = Box::new(Subject { kind, ..*write.subject(name) });
        return Err(Error::Invalid { subject, errors: ErrorList::from(error) });
    }
    let (wanted, found) = (scale::uid(scale), scale::uid(object));
    if wanted.is_empty() || wanted == found || paths.is_said.is_some() {
        return Ok(replicas);
    }
    let declaration = write.declaration();
    let resource = GroupResource {
        group: declaration.group.clone(),
        resource: format!("{}/scale", declaration.plural).into(),
    };
    Err(Error::Conflict {
        subject: Box::new(Subject { resource, ..*write.subject(name) }),
        reason: format!("Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}"),
    })
}

fn set_managed_fields(object: &mut Value, managed: ManagedFields) -> Result<()> {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
        return Err(Error::BadRequest("the object has no metadata".into()));
    };
    match managed.encode() {
        Some(entries) => metadata.insert("managedFields".to_owned(), entries),
        None => metadata.remove("managedFields"),
    };
    Ok(())
}
