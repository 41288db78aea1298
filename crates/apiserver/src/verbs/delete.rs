//! DELETE of one and of many.

use coracle_api::codec::{Target, json, protobuf, yaml};
use coracle_api::schema::types;
use coracle_meta::gvk::GroupResource;
use coracle_meta::object::Meta;
use coracle_meta::status::Status;
use coracle_registry::lifecycle::{DeleteOptions, Deletion, Propagation};
use coracle_registry::{Error, view};
use http::Response;
use serde_json::{Value, json};

use super::ResourceRequest;
use crate::body::ResponseBody;
use crate::discovery::group_version;
use crate::negotiate::{self, media_type, respond, to_json};
use crate::status::Refusal;

/// Namespaces that nobody deletes.
const PROTECTED_NAMESPACES: [&str; 3] = ["default", "kube-public", "kube-system"];

/// Objects deleted by one request that are looked for at a time.
const PAGE: usize = 500;

impl ResourceRequest {
    pub(super) async fn delete(self) -> Result<Response<ResponseBody>, Refusal> {
        let is_namespace = self.path.group.is_empty() && self.path.resource == "namespaces";
        if is_namespace && PROTECTED_NAMESPACES.contains(&&*self.path.name) {
            return Err(Status::namespace_protected(&self.path.name).into());
        }
        let (options, dry_run) = self.delete_options()?;
        let api_version = self.kind.declaration().storage_api_version();
        let mut write = self.write(&api_version)?;
        write.dry_run |= dry_run;
        let deletion = self.cluster.delete(&write, &self.path.name, &options).await?;
        self.deleted(deletion)
    }

    fn deleted(&self, deletion: Deletion) -> Result<Response<ResponseBody>, Refusal> {
        let declaration = self.kind.declaration();
        if !deletion.gone || declaration.deletion_returns_object {
            return negotiate::object(&self.encoding()?, deletion.object.json);
        }
        let object = negotiate::tree(&deletion.object.json)?;
        let resource =
            GroupResource { group: declaration.group.clone(), resource: declaration.plural.clone() };
        let status = Status::deleted(&resource, &self.path.name, Meta::of(&object).uid());
        Ok(respond(to_json(&status), "application/json"))
    }

    pub(super) async fn delete_collection(self) -> Result<Response<ResponseBody>, Refusal> {
        let (options, dry_run) = self.delete_options()?;
        let mut list = self.list_options()?;
        list.limit = if list.limit == 0 { PAGE } else { list.limit };
        let api_version = self.kind.declaration().storage_api_version();
        let mut write = self.write(&api_version)?;
        write.dry_run |= dry_run;
        let mut deleted: Vec<Value> = Vec::new();
        let revision = loop {
            let page = self.cluster.list(self.kind, &self.path.namespace, &list).await?;
            for entry in &page.entries {
                let object = negotiate::tree(entry.value_bytes())?;
                match self.cluster.delete(&write, view::name(&object), &options).await {
                    Ok(_) => deleted.push(self.served(object)),
                    // Somebody else was faster.
                    Err(Error::NotFound(_)) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            list.continue_token = page.continue_token;
            if list.continue_token.is_none() {
                break page.revision;
            }
        };
        let kind = format!("{}List", self.kind.declaration().kind);
        let api_version = group_version(&self.path.group, &self.path.version);
        let answer = json!({"kind": kind, "apiVersion": api_version, "metadata": {"resourceVersion": revision.to_string()}, "items": deleted});
        Ok(respond(to_json(&answer), "application/json"))
    }

    /// Options come in the body, or in the query.
    fn delete_options(&self) -> Result<(DeleteOptions, bool), Refusal> {
        let body = self.options_body()?;
        let text =
            |path: &[&str]| Some(view::text(&body, path)).filter(|text| !text.is_empty()).map(str::to_owned);
        let wanted =
            text(&["propagationPolicy"]).unwrap_or_else(|| self.query.text("propagationPolicy").to_owned());
        let orphan = match view::at(&body, &["orphanDependents"]) {
            Some(orphan) => orphan.as_bool(),
            None => self.query.optional_flag("orphanDependents")?,
        };
        let propagation = match (&*wanted, orphan) {
            ("", None) => None,
            ("", Some(true)) | ("Orphan", None) => Some(Propagation::Orphan),
            ("", Some(false)) | ("Background", None) => Some(Propagation::Background),
            ("Foreground", None) => Some(Propagation::Foreground),
            (_, Some(_)) => {
                return Err(Refusal::bad_request(
                    "orphanDependents and deletionPropagation cannot be both set",
                ));
            }
            (other, None) => {
                let message = format!(
                    "invalid propagationPolicy {other:?}: supported values: \"Foreground\", \"Background\", \"Orphan\""
                );
                return Err(Refusal::bad_request(message));
            }
        };
        let dry_run = view::items(&body, &["dryRun"]).iter().any(|item| item == "All");
        let options = DeleteOptions {
            uid: text(&["preconditions", "uid"]),
            resource_version: text(&["preconditions", "resourceVersion"]),
            propagation,
            grace_period_s: match view::integer(&body, &["gracePeriodSeconds"]) {
                Some(seconds) => Some(seconds),
                None => self.query.integer("gracePeriodSeconds")?,
            },
        };
        Ok((options, dry_run))
    }

    fn options_body(&self) -> Result<Value, Refusal> {
        if self.body.is_empty() {
            return Ok(Value::Null);
        }
        let id = types().kind("", "v1", "DeleteOptions");
        Ok(match media_type(&self.headers) {
            _ if protobuf::is_protobuf(&self.body) => protobuf::decode(&self.body, id)?.object,
            "application/yaml" => yaml::decode(&self.body, Target::Any)?.object,
            _ => json::decode(&self.body, Target::Any)?.object,
        })
    }
}
