//! A write as policies match it: in equivalent groups and versions, with the stored object.

use std::borrow::Cow;
use std::sync::Arc;

use coracle_meta::object::Meta;
use coracle_registry::admission::{Attributes, Operation};
use coracle_registry::form::ObjectForm;
use coracle_registry::kinds::core::namespace::Namespace;
use coracle_registry::{Kind, Result, catalog, view};
use serde_json::{Value, json};

/// A group and version in which the objects of a request can be represented.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GroupVersion {
    group: String,
    version: String,
}

/// The same, with the kind that converts.
#[derive(Clone, Copy)]
pub(super) struct Representation<'a> {
    pub(super) kind: &'a dyn Kind,
    pub(super) version: &'a str,
}

impl<'a> Representation<'a> {
    pub(super) fn group(&self) -> &'a str {
        &self.kind.declaration().group
    }

    pub(super) fn group_version(&self) -> GroupVersion {
        GroupVersion { group: self.group().to_owned(), version: self.version.to_owned() }
    }

    pub(super) fn is(&self, group_version: &GroupVersion) -> bool {
        (self.group(), self.version) == (&*group_version.group, &*group_version.version)
    }
}

/// A write, with its objects.
#[derive(Clone, Copy)]
pub(super) struct PolicyRequest<'a> {
    pub(super) attributes: &'a Attributes<'a>,
    /// The new object; None for a deletion.
    pub(super) object: Option<&'a Value>,
    /// The stored object.
    pub(super) old: Option<&'a Value>,
}

impl<'a> PolicyRequest<'a> {
    /// Describes a write of `object`; for a deletion, it is the one to be deleted.
    pub(super) fn new(attributes: &'a Attributes<'a>, object: &'a Value) -> Self {
        match attributes.operation {
            Operation::Delete => Self { attributes, object: None, old: Some(object) },
            _ => Self { attributes, object: Some(object), old: attributes.old },
        }
    }

    pub(super) fn group(&self) -> &'a str {
        &self.attributes.write.kind.declaration().group
    }

    pub(super) fn resource(&self) -> &'a str {
        &self.attributes.write.kind.declaration().plural
    }

    /// The group and version of the request.
    pub(super) fn own(&self) -> Representation<'a> {
        Representation { kind: self.attributes.write.kind, version: self.attributes.write.served_version }
    }

    /// Finds a representation by group and version; that of the request if there is none.
    pub(super) fn representation(&self, group_version: &GroupVersion) -> Representation<'a> {
        self.representations()
            .find(|representation| representation.is(group_version))
            .unwrap_or_else(|| self.own())
    }

    /// All groups and versions in which the object can be represented: other versions, and other groups with the same
    /// objects.
    pub(super) fn representations(&self) -> impl Iterator<Item = Representation<'a>> + use<'a> {
        let kind = self.attributes.write.kind;
        let others = catalog::same_objects(kind.declaration());
        std::iter::once(kind).chain(others.map(|other| other as &'a dyn Kind)).flat_map(|kind| {
            kind.declaration().versions.iter().map(move |version| Representation { kind, version })
        })
    }

    pub(super) fn is_namespace(&self) -> bool {
        self.group().is_empty() && self.resource() == "namespaces"
    }

    /// The namespace of the request. A namespace belongs to itself, once it has a name.
    pub(super) fn namespace(&self) -> &'a str {
        match self.attributes.operation {
            Operation::Create => self.attributes.write.namespace,
            _ if self.is_namespace() => self.attributes.name,
            _ => self.attributes.write.namespace,
        }
    }

    /// The Namespace object of the request.
    pub(super) async fn namespace_object(&self) -> Result<Option<Arc<Value>>> {
        if self.is_namespace() || self.attributes.write.namespace.is_empty() {
            return Ok(None);
        }
        self.attributes.cluster.find(&Namespace, "", self.attributes.write.namespace).await
    }

    /// The operation, as in an `AdmissionRequest`.
    pub(super) fn operation(&self) -> &'static str {
        match self.attributes.operation {
            Operation::Create => "CREATE",
            Operation::Update => "UPDATE",
            Operation::Delete => "DELETE",
            Operation::Connect => "CONNECT",
        }
    }

    /// Converts an object of the request to another group and version.
    pub(super) fn convert<'o>(
        &self,
        representation: Representation<'_>,
        object: &'o Value,
    ) -> Cow<'o, Value> {
        self.form(representation).of_stored(Cow::Borrowed(object))
    }

    /// Converts an object back from another group and version.
    pub(super) fn convert_back(&self, representation: Representation<'_>, object: Value) -> Value {
        self.form(representation).to_stored(object)
    }

    /// The form of objects in a group and version.
    pub(super) fn form<'v>(&self, representation: Representation<'v>) -> ObjectForm<'v> {
        ObjectForm::new(representation.kind, representation.version, self.attributes.write.subresource)
    }

    /// The `AdmissionRequest` for a policy that matches the request in a group and version.
    pub(super) fn describe(&self, representation: Representation<'_>) -> Value {
        let Attributes { write, name, .. } = self.attributes;
        let kind = |representation: Representation<'_>| {
            let form = self.form(representation);
            json!({"group": form.group(), "version": form.version(), "kind": form.kind()})
        };
        let resource = |representation: Representation<'_>| json!({"group": representation.group(), "version": representation.version, "resource": self.resource()});
        let requester = write.requester;
        let mut user =
            json!({"username": requester.name, "groups": requester.groups, "extra": requester.extra});
        if !requester.uid.is_empty() {
            user["uid"] = requester.uid.as_str().into();
        }
        let name = if name.is_empty() { self.object.map_or("", view::name) } else { name };
        let mut request = json!({
            "kind": kind(representation),
            "resource": resource(representation),
            "requestKind": kind(self.own()),
            "requestResource": resource(self.own()),
            "name": name,
            "operation": self.operation(),
            "userInfo": user,
            "dryRun": write.dry_run,
            "options": self.options(),
        });
        for (field, value) in [
            ("subResource", write.subresource),
            ("requestSubResource", write.subresource),
            ("namespace", self.namespace()),
        ] {
            if !value.is_empty() {
                request[field] = value.into();
            }
        }
        request
    }

    /// The options of the request, without defaults.
    fn options(&self) -> Value {
        let kind = match self.attributes.operation {
            Operation::Create => "CreateOptions",
            Operation::Update => "UpdateOptions",
            Operation::Delete => "DeleteOptions",
            Operation::Connect => return Value::Null,
        };
        let mut options = json!({"kind": kind, "apiVersion": "meta.k8s.io/v1"});
        if self.attributes.write.dry_run {
            options["dryRun"] = json!(["All"]);
        }
        if self.attributes.operation != Operation::Delete {
            options["fieldManager"] = self.attributes.write.manager.into();
        }
        options
    }
}

/// The labels of an object.
pub(super) fn labels(object: &Value) -> serde_json::Map<String, Value> {
    Meta::of(object).labels().cloned().unwrap_or_default()
}
