//! `serviceaccounts/token`: issues tokens with which pods authenticate as a service account.

use coracle_meta::field::{ErrorList, FieldError, Path, quoted};
use coracle_meta::gvk::GroupKind;
use coracle_meta::gvk::split_api_version;
use coracle_meta::object::Meta;
use coracle_meta::status::Status;
use coracle_meta::time::Time;
use coracle_registry::admission::{Attributes, Operation};
use coracle_registry::{Conditions, Error, view};
use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::super::{ResourceRequest, warn};
use super::{conflict, known};
use crate::body::ResponseBody;
use crate::credential_scope::ClusterReference;
use crate::negotiate;
use crate::status::Refusal;
use crate::token::{BoundTo, Claims, ObjectRef, TokenSigner, issue, issuer};

const GROUP: &str = "authentication.k8s.io";
const KIND: &str = "TokenRequest";

/// Default lifetime of a token in seconds, as in kube-apiserver.
const DEFAULT_EXPIRATION_S: i64 = 3600;
const MIN_EXPIRATION_S: i64 = 600;
const MAX_EXPIRATION_S: i64 = 1 << 32;

/// Lifetime requested for pods that date from before tokens expired. Their tokens are valid for [`EXTENDED_S`], and the
/// `warnafter` claim marks their use after this lifetime as stale.
const WARN_ONLY_S: i64 = 3607;
const EXTENDED_S: i64 = 365 * 24 * 3600;

impl ResourceRequest {
    pub(super) async fn issue_token(&self) -> Result<Response<ResponseBody>, Refusal> {
        let (request, mut warnings) = self.posted().await?;
        match self.issue_posted_token(request, &mut warnings).await {
            Ok(mut response) => {
                warn(&mut response, &warnings);
                Ok(response)
            }
            Err(refusal) => Err(refusal.warned_of(warnings)),
        }
    }

    async fn issue_posted_token(
        &self,
        request: Value,
        warnings: &mut Vec<String>,
    ) -> Result<Response<ResponseBody>, Refusal> {
        let mut request = self.with_token_defaults(request)?;
        let api_version = self.kind.declaration().storage_api_version();
        let (write, name) = (self.write(&api_version)?, &self.path.name);
        let (cluster, operation, conditions) = (&self.cluster, Operation::Create, &Conditions::default());
        let attributes = Attributes { cluster, write: &write, operation, name, old: None, conditions };
        cluster.mutate(&attributes, &mut request, warnings).await?;
        // Used for the whole request, even if the key is rotated meanwhile.
        let signer = self.components.tokens.as_deref().ok_or_else(no_key)?.current();
        let account = self.find(&*self.kind, &self.path.name).await?;
        self.complete(&mut request, &account)?;
        cluster.validate(&attributes, &request, warnings).await?;
        let bound = self.bound_to(&request, &account).await?;
        warnings.extend(self.shorten(&mut request));
        let claims = self.claims(&request, bound, signer);
        let token = issue(signer, &claims).map_err(Status::internal_error)?;
        let seconds = view::integer(&request, &["spec", "expirationSeconds"]).unwrap_or(DEFAULT_EXPIRATION_S);
        let expires = Time(self.now.saturating_add(seconds)).to_string();
        // kube-apiserver writes this field even if it has no value.
        view::set_default(&mut request["spec"], "boundObjectRef", || Value::Null);
        request["status"] = json!({"token": token, "expirationTimestamp": expires});
        self.respond(&request, StatusCode::CREATED)
    }

    /// Sets the defaults of a request. Rejects a name other than that of the path's service account.
    fn with_token_defaults(&self, mut request: Value) -> Result<Value, Refusal> {
        let said = Meta::of(&request).name();
        if !said.is_empty() && said != self.path.name {
            let detail = "must match the service account name if specified";
            let error = FieldError::invalid(&Path::root("metadata.name"), said, detail);
            return Err(invalid(&self.path.name, error));
        }
        view::set_default(&mut request, "spec", || json!({}));
        view::set_default(&mut request["spec"], "expirationSeconds", || DEFAULT_EXPIRATION_S.into());
        if let Value::Object(fields) = &mut request {
            fields.remove("status");
        }
        if let Value::Object(spec) = &mut request["spec"] {
            spec.retain(|_, value| !value.is_null());
        }
        let api_version = self.kind.declaration().storage_api_version();
        Ok(self.cluster.note_ownership(&self.write(&api_version)?, request))
    }

    /// Sets metadata and audiences from the service account and the server, and validates UID and expiration.
    fn complete(&self, request: &mut Value, account: &Value) -> Result<(), Refusal> {
        let (said, uid) = (Meta::of(request).uid(), Meta::of(account).uid());
        if !said.is_empty() && said != uid {
            let reason = format!(
                "the UID in the token request ({said}) does not match the UID of the service account ({uid})"
            );
            return Err(conflict(GROUP, KIND, &self.path.name, reason));
        }
        view::set_default(request, "metadata", || json!({}));
        let metadata = &mut request["metadata"];
        metadata["name"] = self.path.name.as_str().into();
        metadata["namespace"] = self.path.namespace.as_str().into();
        metadata["uid"] = uid.into();
        metadata["creationTimestamp"] = Time(self.now).to_string().into();
        if view::items(request, &["spec", "audiences"]).is_empty() {
            request["spec"]["audiences"] = json!(self.components.authentication.api_audiences(&self.cluster));
        }
        let seconds = view::integer(request, &["spec", "expirationSeconds"]).unwrap_or(0);
        let detail = if seconds < MIN_EXPIRATION_S {
            "may not specify a duration less than 10 minutes"
        } else if seconds > MAX_EXPIRATION_S {
            "may not specify a duration larger than 2^32 seconds"
        } else {
            return Ok(());
        };
        Err(invalid("", FieldError::invalid(&Path::root("spec.expirationSeconds"), seconds, detail)))
    }

    /// Limits the expiration to the configured maximum. Returns a warning if it was longer.
    fn shorten(&self, request: &mut Value) -> Option<String> {
        let limit = self.components.token_policy.max_expiration?;
        let limit = i64::try_from(limit.as_secs()).unwrap_or(i64::MAX);
        let format = view::integer(request, &["spec", "expirationSeconds"])?;
        if format <= limit {
            return None;
        }
        request["spec"]["expirationSeconds"] = limit.into();
        Some(format!("requested expiration of {format} seconds shortened to {limit} seconds"))
    }

    /// Returns the service account of the token and the object to whose lifetime it is bound.
    async fn bound_to(&self, request: &Value, account: &Value) -> Result<BoundTo, Refusal> {
        let mut bound = BoundTo {
            cluster: ClusterReference::from(&self.cluster).into(),
            namespace: self.path.namespace.clone(),
            serviceaccount: reference(account),
            ..BoundTo::default()
        };
        let Some(format) = view::at(request, &["spec", "boundObjectRef"]).filter(|format| !format.is_null())
        else {
            return Ok(bound);
        };
        let [kind, api_version, name, uid] =
            ["kind", "apiVersion", "name", "uid"].map(|field| view::text(format, &[field]));
        let plural = match (kind, api_version.contains('/')) {
            ("Pod", false) => "pods",
            ("Secret", false) => "secrets",
            ("Node", false) => "nodes",
            _ => {
                let (group, version) = split_api_version(api_version);
                let message = format!("cannot bind token to object of type {group}/{version}, Kind={kind}");
                return Err(Refusal::bad_request(message));
            }
        };
        let object = self.find(known("", "v1", plural)?, name).await?;
        let found = reference(&object);
        match plural {
            "pods" => {
                if view::text(&object, &["spec", "serviceAccountName"]) != self.path.name {
                    return Err(Refusal::bad_request(format!(
                        "cannot bind token for serviceaccount {} to pod running with different serviceaccount name.",
                        quoted(&self.path.name)
                    )));
                }
                bound.node = self.node_of_pod(&object).await?;
                bound.pod = Some(found.clone());
            }
            "secrets" => bound.secret = Some(found.clone()),
            _ => bound.node = Some(found.clone()),
        }
        if uid.is_empty() || uid == found.uid {
            return Ok(bound);
        }
        let reason = format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been deleted and then recreated"
        );
        let kind = match plural {
            "pods" => "Pod",
            "secrets" => "Secret",
            _ => "Node",
        };
        Err(conflict("", kind, name, reason))
    }

    /// Returns the node of a pod; without a UID if the node does not exist.
    async fn node_of_pod(&self, pod: &Value) -> Result<Option<ObjectRef>, Refusal> {
        let name = view::text(pod, &["spec", "nodeName"]);
        if name.is_empty() {
            return Ok(None);
        }
        let node = match self.cluster.get(known("", "v1", "nodes")?, "", name, None).await {
            Ok(node) => reference(&negotiate::tree(&node.json)?),
            Err(Error::NotFound(_)) => ObjectRef { name: name.to_owned(), uid: String::new() },
            Err(error) => return Err(error.into()),
        };
        Ok(Some(node))
    }

    fn claims(&self, request: &Value, mut bound: BoundTo, signer: &dyn TokenSigner) -> Claims {
        let now = self.now;
        let audiences = view::items(request, &["spec", "audiences"]).iter().filter_map(Value::as_str);
        let aud: Vec<String> = audiences.map(str::to_owned).collect();
        let mut seconds =
            view::integer(request, &["spec", "expirationSeconds"]).unwrap_or(DEFAULT_EXPIRATION_S);
        let api_audiences = self.components.authentication.api_audiences(&self.cluster);
        let ours = aud.iter().all(|audience| api_audiences.contains(audience));
        if bound.pod.is_some() && seconds == WARN_ONLY_S && ours {
            bound.warnafter = Some(now.saturating_add(seconds));
            seconds = EXTENDED_S;
        }
        Claims {
            aud,
            exp: now.saturating_add(seconds),
            iat: now,
            iss: issuer::of_cluster(signer.issuer(), self.cluster.id()).into_owned(),
            jti: self.cluster.new_uid(),
            nbf: now,
            sub: format!("system:serviceaccount:{}:{}", bound.namespace, bound.serviceaccount.name),
            kubernetes: bound,
        }
    }
}

fn reference(object: &Value) -> ObjectRef {
    let meta = Meta::of(object);
    ObjectRef { name: meta.name().to_owned(), uid: meta.uid().to_owned() }
}

fn invalid(name: &str, error: FieldError) -> Refusal {
    let kind = GroupKind { group: GROUP.into(), kind: KIND.into() };
    Status::invalid(&kind, name, &ErrorList::from(error)).into()
}

/// The error of a server without a signing key.
fn no_key() -> Refusal {
    Status::service_unavailable("tokens cannot be issued: this server has no key to sign them with").into()
}
