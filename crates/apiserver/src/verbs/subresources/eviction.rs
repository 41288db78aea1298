//! `pods/eviction`: deletes a pod if its PodDisruptionBudget allows the disruption.

use std::sync::{Mutex, PoisonError};

use coracle_api::codec::DecodeBudget;
use coracle_meta::field::{ErrorList, FieldError, Path};
use coracle_meta::gvk::{GroupKind, GroupResource};
use coracle_meta::object::Meta;
use coracle_meta::status::{Cause, Reason, Status};
use coracle_registry::admission::Operation;
use coracle_registry::form::ObjectForm;
use coracle_registry::kinds::core::pod::eviction;
use coracle_registry::kinds::policy::disruption::{self, DisruptionError};
use coracle_registry::lifecycle::{Change, DeleteOptions, ListOptions, Write, tree};
use coracle_registry::{Error, view};
use http::{Response, StatusCode};
use serde_json::Value;

use super::super::delete::read_options;
use super::super::{ResourceRequest, warn};
use super::{conflict, known};
use crate::body::ResponseBody;
use crate::negotiate::{self, Decoding, media_type};
use crate::status::Refusal;

/// Number of attempts for a pod that keeps changing, as in kube-apiserver.
const ATTEMPTS: usize = 20;

/// `retryAfterSeconds` of the error for a pod whose budget the disruption controller has not processed yet.
const RETRY_AFTER_S: u32 = 10;

/// Field manager of the budget's status when it records a disrupted pod.
const MANAGER: &str = "kube-apiserver";

const VIOLATION: &str = "Cannot evict pod as it would violate the pod's disruption budget.";

/// Decision about the eviction of a pod.
enum Verdict {
    /// The pod may be evicted.
    Free,
    /// The pod may be evicted only at the resource version at which it was checked.
    FreeAsItIs { budget: String },
}

impl ResourceRequest {
    async fn posted_in_v1beta1(&self) -> Result<(Value, Vec<String>), Refusal> {
        let (kind, version, subresource) =
            (self.kind.clone(), self.path.version.clone(), self.path.subresource.clone());
        let (media_type, validation) = (media_type(&self.headers).to_owned(), self.validation());
        let decode = move |body: &[u8], budget: &mut DecodeBudget| {
            let form = ObjectForm::new(&*kind, &version, &subresource);
            let older = Decoding { version: "v1beta1", form: None, ..Decoding::of(form, validation) };
            negotiate::decode(&media_type, body, &older, budget)
        };
        self.read_body(decode).await?
    }

    pub(super) async fn evict(&self) -> Result<Response<ResponseBody>, Refusal> {
        let (eviction, mut warnings) = match self.posted().await {
            Ok(posted) => posted,
            // `policy/v1beta1` is accepted as well; it has the same fields.
            Err(refusal) => self.posted_in_v1beta1().await.map_err(|_| refusal)?,
        };
        match self.admit_and_evict(eviction, &mut warnings).await {
            Ok(()) => {
                let mut response = self.respond_success(StatusCode::CREATED)?;
                warn(&mut response, &warnings);
                Ok(response)
            }
            Err(refusal) => Err(refusal.warned_of(warnings)),
        }
    }

    async fn admit_and_evict(&self, mut eviction: Value, warnings: &mut Vec<String>) -> Result<(), Refusal> {
        if Meta::of(&eviction).name() != self.path.name {
            return Err(Refusal::bad_request("name in URL does not match name in Eviction object"));
        }
        let api_version = self.kind.declaration().storage_api_version();
        let write = self.write(&api_version)?;
        let name = &self.path.name;
        warnings.extend(self.cluster.admit(&write, Operation::Create, name, &mut eviction).await?);
        let body = eviction.get("deleteOptions").unwrap_or(&Value::Null);
        let (options, dry_run) = self.eviction_options(body)?;
        match self.evict_within_budgets(&options, dry_run).await? {
            Some(status) => Err(status.into()),
            None => Ok(()),
        }
    }

    fn eviction_options(&self, body: &Value) -> Result<(DeleteOptions, bool), Refusal> {
        if view::is_true(body, &["ignoreStoreReadErrorWithClusterBreakingPotential"]) {
            let path = Path::root("deleteOptions.ignoreStoreReadErrorWithClusterBreakingPotential");
            let detail = "can not be set for pod eviction, try after removing the option";
            let kind = GroupKind { group: "policy".into(), kind: "Eviction".into() };
            let errors = ErrorList::from(FieldError::invalid(&path, true, detail));
            return Err(Status::invalid(&kind, &self.path.name, &errors).into());
        }
        let format: Vec<&str> = view::items(body, &["dryRun"]).iter().filter_map(Value::as_str).collect();
        let asked = self.query.dry_run();
        if asked && !format.is_empty() && format != ["All"] {
            let format = format.join(" ");
            let message =
                format!("Non-matching dry-run options in request and content: [All] and [{format}]");
            return Err(Status::failure(Reason::Unknown, message).into());
        }
        Ok((read_options(body)?, asked || !format.is_empty()))
    }

    async fn evict_within_budgets(
        &self,
        options: &DeleteOptions,
        dry_run: bool,
    ) -> Result<Option<Status>, Refusal> {
        let own_revision = options.preconditions.resource_version.is_some();
        let mut attempts = ATTEMPTS;
        let pod = loop {
            let pod = self.find(&*self.kind, &self.path.name).await?;
            if !eviction::can_ignore_budgets(&pod) {
                break pod;
            }
            let mut exact = options.clone();
            if !eviction::is_ending(&pod) && !own_revision {
                exact.preconditions.resource_version = Some(Meta::of(&pod).resource_version().to_owned());
            }
            attempts -= 1;
            match self.disrupt_pod(&exact, dry_run).await {
                Ok(()) => return Ok(None),
                Err(refusal) if !own_revision && attempts > 0 && refusal.is_conflict() => {}
                Err(refusal) => return Err(refusal),
            }
        };
        let budgets = self.budgets_of(&pod).await?;
        let verdict = match budgets.as_slice() {
            [] => Verdict::Free,
            [budget] => self.ask(budget, &pod, dry_run).await?,
            _ => {
                let message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
                return Ok(Some(Status::failure(Reason::Unknown, message)));
            }
        };
        match verdict {
            Verdict::Free => self.disrupt_pod(options, dry_run).await?,
            Verdict::FreeAsItIs { budget } => {
                let mut exact = options.clone();
                exact.preconditions.resource_version = Some(Meta::of(&pod).resource_version().to_owned());
                match self.disrupt_pod(&exact, dry_run).await {
                    Err(refusal) if refusal.is_conflict() && !own_revision => {
                        let cause =
                            format!("The disruption budget {budget} is still being processed by the server.");
                        return Err(violation(cause, Some(RETRY_AFTER_S)));
                    }
                    outcome => outcome?,
                }
            }
        }
        Ok(None)
    }

    async fn budgets_of(&self, pod: &Value) -> Result<Vec<Value>, Refusal> {
        let kind = known("policy", "v1", "poddisruptionbudgets")?;
        let page = self.cluster.list(kind, &self.path.namespace, &ListOptions::default()).await?;
        let mut budgets = Vec::new();
        for entry in &page.entries {
            let budget = tree(entry)?;
            if disruption::selects(&budget, pod) {
                budgets.push(budget);
            }
        }
        Ok(budgets)
    }

    /// Checks whether a budget allows the eviction of a pod, and records the disruption in its status.
    async fn ask(&self, budget: &Value, pod: &Value, dry_run: bool) -> Result<Verdict, Refusal> {
        let name = view::name(budget);
        if !eviction::is_ready(pod) && disruption::lets_unready_go(budget) {
            return Ok(Verdict::FreeAsItIs { budget: name.to_owned() });
        }
        let kind = known("policy", "v1", "poddisruptionbudgets")?;
        let api_version = kind.declaration().storage_api_version();
        let write =
            Write { kind, subresource: "status", manager: MANAGER, dry_run, ..self.write(&api_version)? };
        let now = self.cluster.now().to_string();
        let refused: Mutex<Option<DisruptionError>> = Mutex::default();
        let count = |mut budget: Value| match disruption::disrupt(&mut budget, view::name(pod), &now) {
            Ok(()) => Ok(budget),
            Err(error) => {
                *refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                Err(Error::BadRequest("the budget does not allow it".into()))
            }
        };
        let outcome = self.cluster.update(&write, name, &Change::Patch(&count)).await;
        match refused.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(DisruptionError::Unprocessed(cause)) => Err(violation(cause, Some(RETRY_AFTER_S))),
            Some(DisruptionError::Exhausted(cause)) => Err(violation(cause, None)),
            Some(DisruptionError::Forbidden(why)) => {
                let resource =
                    GroupResource { group: "policy".into(), resource: "poddisruptionbudget".into() };
                Err(Status::forbidden(&resource, name, why).into())
            }
            Some(_) => Err(violation(String::new(), None)),
            None => {
                outcome?;
                Ok(Verdict::Free)
            }
        }
    }

    /// Sets the `DisruptionTarget` condition of the pod, and deletes the pod.
    async fn disrupt_pod(&self, options: &DeleteOptions, dry_run: bool) -> Result<(), Refusal> {
        let mut options = options.clone();
        let api_version = self.kind.declaration().storage_api_version();
        let write = Write { subresource: "", dry_run, ..self.write(&api_version)? };
        if !dry_run {
            let updated = self.mark(&write, &options).await?;
            if let Some(revision) = &mut options.preconditions.resource_version {
                *revision = updated;
            }
        }
        self.cluster.delete(&write, &self.path.name, &options).await?;
        Ok(())
    }

    /// Sets the `DisruptionTarget` condition of the pod. Returns its new revision.
    async fn mark(&self, write: &Write<'_>, options: &DeleteOptions) -> Result<String, Refusal> {
        let now = self.cluster.now().to_string();
        let refused: Mutex<Option<String>> = Mutex::default();
        let mark = |mut pod: Value| {
            if let Some(reason) = mismatch(&pod, options) {
                *refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason);
                return Err(Error::BadRequest("another pod is meant".into()));
            }
            eviction::mark_as_target(&mut pod, &now);
            Ok(pod)
        };
        let status = Write { subresource: "status", ..*write };
        let outcome = self.cluster.update(&status, &self.path.name, &Change::Tracked(&mark)).await;
        if let Some(reason) = refused.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(conflict("", "Pod", &self.path.name, reason));
        }
        Ok(outcome?.object.revision.to_string())
    }
}

/// Returns why a pod does not match the preconditions, if it does not.
fn mismatch(pod: &Value, options: &DeleteOptions) -> Option<String> {
    let meta = Meta::of(pod);
    let format = &options.preconditions;
    if let Some(uid) = format.uid.as_deref().filter(|uid| !uid.is_empty() && *uid != meta.uid()) {
        let found = meta.uid();
        return Some(format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({found}). The object might have been deleted and then recreated"
        ));
    }
    let found = meta.resource_version();
    let revision = format.resource_version.as_deref();
    revision.filter(|revision| !revision.is_empty() && *revision != found).map(|revision| {
        format!(
            "the ResourceVersion in the precondition ({revision}) does not match the ResourceVersion in record ({found}). The object might have been modified"
        )
    })
}

fn violation(cause: String, retry_after_s: Option<u32>) -> Refusal {
    let status = Status::too_many_requests(VIOLATION, retry_after_s.unwrap_or(0));
    status.with_cause(Cause::new(Cause::DISRUPTION_BUDGET, cause, "")).into()
}
