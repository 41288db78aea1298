//! POST.

use coracle_meta::object::Meta;
use coracle_meta::status::Status;
use coracle_registry::{Error, Scope, catalog};
use http::{Response, StatusCode};

use super::{ResourceRequest, warn, with_status};
use crate::body::ResponseBody;
use crate::negotiate::{self, Decoding};
use crate::status::Refusal;

impl ResourceRequest {
    pub(super) async fn create(self) -> Result<Response<ResponseBody>, Refusal> {
        let (object, mut warnings) = negotiate::decode(&self.headers, &self.body, &self.decoding()?)?;
        self.check_namespace().await?;
        let object = self.stored(object);
        let api_version = self.kind.declaration().storage_api_version();
        warnings.extend(self.kind.warnings(&object, None));
        let created = self.cluster.create(&self.write(&api_version)?, object).await?;
        let mut response = negotiate::object(&self.encoding()?, created.json)?;
        warn(&mut response, &warnings);
        Ok(with_status(response, StatusCode::CREATED))
    }

    pub(super) fn decoding(&self) -> Result<Decoding<'_>, Refusal> {
        let (group, version, kind) = self.body_type();
        Ok(Decoding { group, version, kind, validation: self.validation() })
    }

    /// Nothing is created in a namespace that does not exist, or is going.
    pub(super) async fn check_namespace(&self) -> Result<(), Refusal> {
        let declaration = self.kind.declaration();
        let Some(namespaces) = catalog::find("", "v1", "namespaces") else { return Ok(()) };
        if declaration.scope == Scope::Cluster {
            return Ok(());
        }
        let name = &self.path.namespace;
        match self.cluster.get(namespaces, "", name, None).await {
            Ok(namespace) => {
                let namespace = negotiate::tree(&namespace.json)?;
                if Meta::of(&namespace).is_deleting() {
                    let resource = coracle_meta::gvk::GroupResource {
                        group: declaration.group.clone(),
                        resource: declaration.plural.clone(),
                    };
                    return Err(Status::namespace_terminating(&resource, &self.path.name, name).into());
                }
                Ok(())
            }
            Err(Error::NotFound(_)) => Err(Status::namespace_not_found(name).into()),
            Err(error) => Err(error.into()),
        }
    }
}
