//! System fields of metadata: the server sets them and ignores the client's values.

use super::{Meta, MetaMut};
use crate::time::Time;

/// The namespace in the body differs from the one in the URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the namespace of the provided object does not match the namespace sent on the request")]
pub struct NamespaceMismatch;

/// Sets the namespace of an object to that of the request, or removes it if that is empty.
///
/// # Errors
/// If both are set and differ.
pub fn ensure_namespace(meta: &mut MetaMut<'_>, request_namespace: &str) -> Result<(), NamespaceMismatch> {
    let namespace = meta.view().namespace();
    if namespace != request_namespace {
        if !namespace.is_empty() && !request_namespace.is_empty() {
            return Err(NamespaceMismatch);
        }
        meta.set_namespace(request_namespace);
    }
    Ok(())
}

/// Clears the system fields of an object to be created.
pub fn wipe_system_fields(meta: &mut MetaMut<'_>) {
    meta.set_creation_timestamp(None);
    meta.set_uid("");
    meta.set_deletion_timestamp(None);
    meta.set_deletion_grace_period_seconds(None);
    meta.set("selfLink", None);
}

/// Sets the system fields of a new object.
pub fn fill_system_fields(meta: &mut MetaMut<'_>, uid: &str, now: Time) {
    meta.set_creation_timestamp(Some(now));
    meta.set_uid(uid);
}

/// Copies immutable system fields from the old object to an update. A uid in the update is
/// preserved, so that validation can reject a wrong one.
pub fn keep_system_fields(new: &mut MetaMut<'_>, old: Meta<'_>) {
    new.set_generation(old.generation());
    new.set("selfLink", None);
    if new.view().uid().is_empty() {
        new.set_uid(old.uid());
    }
    for field in ["creationTimestamp", "deletionTimestamp"] {
        if let Some(value) = old.field(field) {
            new.set(field, Some(value.clone()));
        }
    }
    if new.view().deletion_grace_period_seconds().is_none() {
        new.set_deletion_grace_period_seconds(old.deletion_grace_period_seconds());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn namespace_is_taken_from_request() {
        for (found, requested, expected) in
            [("", "n", Ok("n")), ("n", "n", Ok("n")), ("n", "", Ok("")), ("m", "n", Err(NamespaceMismatch))]
        {
            let mut object = json!({"metadata": {"namespace": found}});
            let result = ensure_namespace(&mut MetaMut::of(&mut object).unwrap(), requested);
            assert_eq!(result.map(|()| Meta::of(&object).namespace()), expected);
        }
    }

    #[test]
    fn system_fields_from_client_are_ignored() {
        let mut object = json!({"metadata": {
            "name": "x", "uid": "1", "creationTimestamp": "1970-01-01T00:00:00Z", "selfLink": "/x",
            "deletionTimestamp": "1970-01-01T00:00:00Z", "deletionGracePeriodSeconds": 3,
        }});
        wipe_system_fields(&mut MetaMut::of(&mut object).unwrap());
        assert_eq!(object, json!({"metadata": {"name": "x"}}));
        fill_system_fields(&mut MetaMut::of(&mut object).unwrap(), "2", Time(1));
        let created =
            json!({"metadata": {"name": "x", "uid": "2", "creationTimestamp": "1970-01-01T00:00:01Z"}});
        assert_eq!(object, created);
        let mut update = json!({"metadata": {"generation": 9, "creationTimestamp": "2000-01-01T00:00:00Z", "selfLink": "/x"}});
        keep_system_fields(&mut MetaMut::of(&mut update).unwrap(), Meta::of(&object));
        assert_eq!(update, json!({"metadata": {"uid": "2", "creationTimestamp": "1970-01-01T00:00:01Z"}}));
    }
}
