//! GET of one and of many.

use coracle_meta::status::Status;
use coracle_registry::lifecycle::ListOptions;
use coracle_registry::{Error, Revision};
use http::Response;

use super::ResourceRequest;
use crate::body::ResponseBody;
use crate::negotiate;
use crate::status::Refusal;

impl ResourceRequest {
    pub(super) async fn get(self) -> Result<Response<ResponseBody>, Refusal> {
        let not_older_than = self.revision()?;
        let ResourceRequest { cluster, path, kind, .. } = &self;
        let object = cluster.get(*kind, &path.namespace, &path.name, not_older_than).await?;
        negotiate::object(&self.encoding()?, object.json)
    }

    pub(super) async fn list(self) -> Result<Response<ResponseBody>, Refusal> {
        let options = self.list_options()?;
        let page = match self.cluster.list(self.kind, &self.path.namespace, &options).await {
            Err(Error::Expired { .. }) => return Err(Status::list_expired().into()),
            outcome => outcome?,
        };
        negotiate::page(&self.encoding()?, &page)
    }

    /// The revision asked for; `0` and none at all are any.
    pub(super) fn revision(&self) -> Result<Option<Revision>, Refusal> {
        let number = self.query.number("resourceVersion")?;
        Ok(number.filter(|number| *number != 0).map(Revision::new))
    }

    pub(super) fn list_options(&self) -> Result<ListOptions, Refusal> {
        let revision = self.revision()?;
        let continue_token =
            Some(self.query.text("continue")).filter(|token| !token.is_empty()).map(str::to_owned);
        let limit = self.query.number("limit")?.unwrap_or(0);
        let matching = self.query.text("resourceVersionMatch");
        self.check_match(matching, continue_token.is_some())?;
        let exact = match matching {
            "Exact" => true,
            // As before there was a choice: a page of a certain revision is of exactly that.
            "" => limit > 0,
            _ => false,
        };
        Ok(ListOptions {
            selection: self.query.selection(self.kind)?,
            limit: usize::try_from(limit).unwrap_or(usize::MAX),
            continue_token,
            exact: revision.filter(|_| exact),
            not_older_than: revision.filter(|_| !exact),
        })
    }

    fn check_match(&self, matching: &str, continued: bool) -> Result<(), Refusal> {
        let has_revision = !self.query.text("resourceVersion").is_empty();
        let problem = match matching {
            _ if continued && has_revision => "resourceVersion is forbidden for continue",
            "" => return Ok(()),
            _ if continued => "resourceVersionMatch is forbidden for continue",
            _ if !has_revision => "resourceVersionMatch is forbidden unless resourceVersion is provided",
            "Exact" if self.query.text("resourceVersion") == "0" => {
                "resourceVersionMatch \"Exact\" is forbidden for resourceVersion \"0\""
            }
            "Exact" | "NotOlderThan" => return Ok(()),
            _ => "resourceVersionMatch: supported values: \"Exact\", \"NotOlderThan\"",
        };
        Err(Refusal::bad_request(problem))
    }
}
