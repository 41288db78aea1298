//! DELETE of one object, and of a collection.

use coracle_api::codec::DecodeBudget;
use coracle_meta::gvk::GroupResource;
use coracle_meta::object::Meta;
use coracle_meta::status::Status;
use coracle_registry::lifecycle::{
    DeleteOptions, ListOptions, Page, Preconditions, Propagation, Write, tree,
};
use coracle_registry::{Entry, Error, view};
use futures_util::stream::{FuturesUnordered, StreamExt};
use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::{ResourceRequest, warn, with_status};
use crate::body::ResponseBody;
use crate::negotiate;
use crate::options::check_delete;
use crate::status::Refusal;

/// Page size of the list from which one request deletes objects.
const PAGE: usize = 500;

/// Number of objects that one request deletes concurrently.
const AT_A_TIME: usize = 64;

impl ResourceRequest {
    pub(super) async fn delete(self) -> Result<Response<ResponseBody>, Refusal> {
        let body = self.options_body().await?;
        let options = read_options(&body)?;
        let outcome = self.delete_with(&body, &options).await;
        self.warned_of_deletion(&options, outcome)
    }

    /// Adds the kind's deletion warning if the client sets no propagation policy.
    fn warned_of_deletion(
        &self,
        options: &DeleteOptions,
        outcome: Result<Response<ResponseBody>, Refusal>,
    ) -> Result<Response<ResponseBody>, Refusal> {
        let warning = if options.propagation.is_none() { self.kind.deletion_warning() } else { None };
        let Some(warning) = warning else { return outcome };
        let mut response = outcome.map_err(|refusal| refusal.warned(warning))?;
        warn(&mut response, &[warning.to_owned()]);
        Ok(response)
    }

    async fn delete_with(
        &self,
        body: &Value,
        options: &DeleteOptions,
    ) -> Result<Response<ResponseBody>, Refusal> {
        let api_version = self.kind.declaration().storage_api_version();
        let write = Write { dry_run: is_dry_run(body), ..self.write(&api_version)? };
        let deletion = self.cluster.delete(&write, &self.path.name, options).await?;
        if deletion.gone && !write.dry_run {
            self.note_change(false);
        }
        let declaration = self.kind.declaration();
        if !deletion.gone || declaration.deletion_returns_object {
            let response = negotiate::object(&self.encoding()?, &deletion.object)?;
            // 202 for clients of the older `orphanDependents: false` while the object waits for its dependents.
            let waits = !deletion.gone && view::at(body, &["orphanDependents"]) == Some(&Value::Bool(false));
            return Ok(with_status(response, if waits { StatusCode::ACCEPTED } else { StatusCode::OK }));
        }
        let object = negotiate::tree(&deletion.object.json)?;
        let resource =
            GroupResource { group: declaration.group.clone(), resource: declaration.plural.clone() };
        let status = Status::deleted(&resource, &self.path.name, Meta::of(&object).uid());
        Ok(negotiate::status(Some(self.response_format()?), &status))
    }

    pub(super) async fn delete_collection(self) -> Result<Response<ResponseBody>, Refusal> {
        let body = self.options_body().await?;
        let options = read_options(&body)?;
        let list = self.list_options()?;
        let outcome = self.delete_listed(&body, &options, list).await;
        self.warned_of_deletion(&options, outcome)
    }

    async fn delete_listed(
        &self,
        body: &Value,
        options: &DeleteOptions,
        mut list: ListOptions,
    ) -> Result<Response<ResponseBody>, Refusal> {
        let only_one_page = list.limit > 0;
        if !only_one_page {
            list.limit = PAGE;
        }
        let api_version = self.kind.declaration().storage_api_version();
        let write = Write { dry_run: is_dry_run(body), ..self.write(&api_version)? };
        let mut deleted: Option<Page> = None;
        loop {
            let page = self.cluster.list(&*self.kind, &self.path.namespace, &list).await?;
            self.delete_all(&write, options, &page).await?;
            list.continue_token = page.continue_token.clone();
            list.exact = None;
            list.not_older_than = None;
            match &mut deleted {
                Some(deleted) => deleted.entries.extend(page.entries),
                None => deleted = Some(page),
            }
            if only_one_page || list.continue_token.is_none() {
                break;
            }
        }
        let mut deleted = deleted.ok_or_else(Refusal::not_found)?;
        if !only_one_page {
            (deleted.continue_token, deleted.remaining) = (None, None);
        }
        negotiate::page(&self.encoding()?, deleted, &self.shared.messages)
    }

    /// Deletes the objects of a page, [`AT_A_TIME`] concurrently, so that the store can make many durable at once.
    async fn delete_all(
        &self,
        write: &Write<'_>,
        options: &DeleteOptions,
        page: &Page,
    ) -> Result<(), Refusal> {
        let (mut entries, mut deletions) = (page.entries.iter(), FuturesUnordered::new());
        loop {
            deletions.extend(
                entries
                    .by_ref()
                    .take(AT_A_TIME - deletions.len())
                    .map(|entry| self.delete_entry(write, options, entry)),
            );
            match deletions.next().await {
                Some(deleted) => deleted?,
                None => return Ok(()),
            }
        }
    }

    async fn delete_entry(
        &self,
        write: &Write<'_>,
        options: &DeleteOptions,
        entry: &Entry,
    ) -> Result<(), Refusal> {
        let object = tree(entry)?;
        match self.cluster.delete(write, view::name(&object), options).await {
            Ok(deletion) => {
                if deletion.gone && !write.dry_run {
                    self.note_change(false);
                }
                Ok(())
            }
            // Another request has deleted it first.
            Err(Error::NotFound(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns `DeleteOptions` from the body or, if there is none, from the query.
    async fn options_body(&self) -> Result<Value, Refusal> {
        if !self.body.is_empty() {
            let media_type = negotiate::media_type(&self.headers).to_owned();
            let decode = move |body: &[u8], budget: &mut DecodeBudget| {
                negotiate::decode_delete_options(&media_type, body, budget)
            };
            return self.read_body(decode).await?;
        }
        let mut options = json!({});
        if let Some(seconds) = self.query.number("gracePeriodSeconds")? {
            options["gracePeriodSeconds"] = seconds.into();
        }
        if let Some(orphan) = self.query.optional_flag("orphanDependents") {
            options["orphanDependents"] = orphan.into();
        }
        match self.query.text("propagationPolicy") {
            "" => {}
            policy => options["propagationPolicy"] = policy.into(),
        }
        if self.query.dry_run() {
            options["dryRun"] = json!(["All"]);
        }
        Ok(options)
    }
}

fn is_dry_run(options: &Value) -> bool {
    !view::items(options, &["dryRun"]).is_empty()
}

/// Validates and converts `DeleteOptions`.
pub(super) fn read_options(options: &Value) -> Result<DeleteOptions, Refusal> {
    let text = |path: &[&str]| view::at(options, path).and_then(Value::as_str).map(str::to_owned);
    let dry_run: Vec<&str> =
        view::items(options, &["dryRun"]).iter().map(|item| item.as_str().unwrap_or_default()).collect();
    let policy = view::at(options, &["propagationPolicy"]).and_then(Value::as_str);
    let orphan = view::at(options, &["orphanDependents"]).and_then(Value::as_bool);
    check_delete(policy, orphan, &dry_run)?;
    Ok(DeleteOptions {
        preconditions: Preconditions {
            uid: text(&["preconditions", "uid"]),
            resource_version: text(&["preconditions", "resourceVersion"]),
        },
        propagation: propagation(policy.unwrap_or_default(), orphan),
        grace_period_s: view::integer(options, &["gracePeriodSeconds"]),
    })
}

/// The propagation policy that the client requests, if any; at most one of the two fields is set.
fn propagation(policy: &str, orphan: Option<bool>) -> Option<Propagation> {
    match (policy, orphan) {
        ("Orphan", _) | (_, Some(true)) => Some(Propagation::Orphan),
        ("Background", _) | (_, Some(false)) => Some(Propagation::Background),
        ("Foreground", _) => Some(Propagation::Foreground),
        _ => None,
    }
}
