//! DELETE of one and of many.

use coracle_meta::gvk::GroupResource;
use coracle_meta::object::Meta;
use coracle_meta::status::{ListMeta, Status};
use coracle_registry::lifecycle::{DeleteOptions, Deletion, Propagation};
use coracle_registry::{Entry, Error, view};
use http::Response;
use serde_json::Value;

use super::ResourceRequest;
use crate::body::ResponseBody;
use crate::negotiate;
use crate::options::check_delete;
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
        write.dry_run = dry_run;
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
        Ok(negotiate::status(Some(self.wanted()?), &status))
    }

    pub(super) async fn delete_collection(self) -> Result<Response<ResponseBody>, Refusal> {
        let (options, dry_run) = self.delete_options()?;
        let mut list = self.list_options()?;
        list.limit = if list.limit == 0 { PAGE } else { list.limit };
        let api_version = self.kind.declaration().storage_api_version();
        let mut write = self.write(&api_version)?;
        write.dry_run = dry_run;
        let mut deleted: Vec<Entry> = Vec::new();
        let revision = loop {
            let page = self.cluster.list(self.kind, &self.path.namespace, &list).await?;
            for entry in page.entries {
                let object = negotiate::tree(entry.value_bytes())?;
                match self.cluster.delete(&write, view::name(&object), &options).await {
                    Ok(_) => deleted.push(entry),
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
        let metadata = ListMeta { resource_version: revision.to_string(), ..ListMeta::default() };
        negotiate::list(&self.encoding()?, &metadata, deleted)
    }

    /// Options come in the body or, if there is none, in the query. Also whether it is only tried.
    fn delete_options(&self) -> Result<(DeleteOptions, bool), Refusal> {
        if self.body.is_empty() {
            return self.delete_query();
        }
        let body = negotiate::decode_delete_options(&self.headers, &self.body)?;
        let text =
            |path: &[&str]| Some(view::text(&body, path)).filter(|text| !text.is_empty()).map(str::to_owned);
        let policy = view::text(&body, &["propagationPolicy"]);
        let orphan = view::at(&body, &["orphanDependents"]).and_then(Value::as_bool);
        let dry_run: Vec<&str> =
            view::items(&body, &["dryRun"]).iter().map(|item| item.as_str().unwrap_or_default()).collect();
        check_delete(policy, orphan, &dry_run)?;
        let options = DeleteOptions {
            uid: text(&["preconditions", "uid"]),
            resource_version: text(&["preconditions", "resourceVersion"]),
            propagation: propagation(policy, orphan),
            grace_period_s: view::integer(&body, &["gracePeriodSeconds"]),
        };
        Ok((options, !dry_run.is_empty()))
    }

    /// What the query says has been checked already.
    fn delete_query(&self) -> Result<(DeleteOptions, bool), Refusal> {
        let orphan = self.query.optional_flag("orphanDependents");
        let options = DeleteOptions {
            propagation: propagation(self.query.text("propagationPolicy"), orphan),
            grace_period_s: self.query.number("gracePeriodSeconds")?,
            ..DeleteOptions::default()
        };
        Ok((options, self.query.dry_run()))
    }
}

/// What happens to dependents, if the client says; no more than one of both is set.
fn propagation(policy: &str, orphan: Option<bool>) -> Option<Propagation> {
    match (policy, orphan) {
        ("Orphan", _) | (_, Some(true)) => Some(Propagation::Orphan),
        ("Background", _) | (_, Some(false)) => Some(Propagation::Background),
        ("Foreground", _) => Some(Propagation::Foreground),
        _ => None,
    }
}
