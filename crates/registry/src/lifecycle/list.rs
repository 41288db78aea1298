//! Reading many objects, in pages of one snapshot.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use coracle_meta::object::Meta;
use coracle_meta::selector::{fields, labels};
use coracle_store::{At, Entry, RangeRequest, Revision};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::tree;
use crate::cluster::Cluster;
use crate::error::{Error, Result};
use crate::keys;
use crate::kind::Kind;

/// Entries looked at in one go while looking for those that are selected.
const SCAN_PAGE: usize = 500;

/// Which objects count.
#[derive(Clone, Debug)]
pub struct Selection {
    /// By labels.
    pub labels: labels::Selector,
    /// By fields.
    pub fields: fields::Selector,
}

impl Default for Selection {
    fn default() -> Self {
        Self { labels: labels::Selector::everything(), fields: fields::Selector::everything() }
    }
}

impl Selection {
    /// Whether all objects count.
    pub fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_everything()
    }

    /// Whether an object counts.
    pub fn matches(&self, kind: &dyn Kind, object: &Value) -> bool {
        let meta = Meta::of(object);
        let by_labels = self.labels.is_everything() || self.labels.matches(&meta.labels());
        by_labels
            && self.fields.requirements().iter().all(|requirement| {
                let value = match &*requirement.field {
                    "metadata.name" => meta.name().into(),
                    "metadata.namespace" => meta.namespace().into(),
                    field => kind.selectable_value(object, field),
                };
                (*value == *requirement.value) == requirement.equal
            })
    }
}

/// What to list.
#[derive(Clone, Debug, Default)]
pub struct ListOptions {
    /// Which objects.
    pub selection: Selection,
    /// At most so many; 0: all.
    pub limit: usize,
    /// Where the last page ended.
    pub continue_token: Option<String>,
    /// At exactly this revision.
    pub exact: Option<Revision>,
    /// The store must have come this far.
    pub not_older_than: Option<Revision>,
}

/// One page of a list.
#[derive(Clone, Debug)]
pub struct Page {
    /// The objects.
    pub entries: Vec<Entry>,
    /// The revision all of them are read at.
    pub revision: Revision,
    /// For the next page, if there is one.
    pub continue_token: Option<String>,
    /// How many are beyond this page; unknown with a selection.
    pub remaining: Option<u64>,
}

#[derive(Serialize, Deserialize)]
struct Token {
    #[serde(rename = "v")]
    version: String,
    /// -1: at the latest revision.
    rv: i64,
    start: String,
}

const TOKEN_VERSION: &str = "meta.k8s.io/v1";

impl Cluster {
    /// One page of the objects of a kind, in one namespace or in all.
    ///
    /// # Errors
    /// If the revision is no longer kept or not yet made, or the token is malformed.
    pub async fn list(&self, kind: &dyn Kind, namespace: &str, options: &ListOptions) -> Result<Page> {
        let prefix = keys::prefix(kind.declaration(), namespace);
        let (start, at) = place(options)?;
        let mut request = RangeRequest { prefix: prefix.clone().into_bytes(), at, ..RangeRequest::default() };
        request.start = start.as_ref().map(|start| format!("{prefix}{start}").into_bytes());
        let outcome = if options.selection.is_everything() {
            self.page(request, options.limit, &prefix).await
        } else {
            self.selected_page(kind, request, options, &prefix).await
        };
        match (outcome, start) {
            (Err(Error::Expired { .. }), Some(start)) => {
                Err(Error::ContinueExpired { fresh: token(-1, &start) })
            }
            (Ok(page), _) => check_age(page, options),
            (Err(error), _) => Err(error),
        }
    }

    async fn page(&self, mut request: RangeRequest, limit: usize, prefix: &str) -> Result<Page> {
        request.limit = limit;
        request.count_remaining = limit > 0;
        let range = self.store.range(request).await?;
        let continue_token = next_token(range.more, range.revision, range.entries.last(), prefix);
        let remaining = range.remaining.filter(|_| range.more);
        Ok(Page { entries: range.entries, revision: range.revision, continue_token, remaining })
    }

    /// Looks at one portion after another until enough are selected.
    async fn selected_page(
        &self,
        kind: &dyn Kind,
        mut request: RangeRequest,
        options: &ListOptions,
        prefix: &str,
    ) -> Result<Page> {
        let wanted = if options.limit == 0 { usize::MAX } else { options.limit };
        let mut entries: Vec<Entry> = Vec::new();
        request.limit = SCAN_PAGE;
        loop {
            let range = self.store.range(request.clone()).await?;
            let revision = range.revision;
            let seen = range.entries.len();
            for (index, entry) in range.entries.into_iter().enumerate() {
                let last = entry.key().to_vec();
                if options.selection.matches(kind, &tree(&entry)?) {
                    entries.push(entry);
                }
                if entries.len() >= wanted {
                    let more = range.more || index + 1 < seen;
                    let continue_token = next_token(more, revision, entries.last(), prefix);
                    return Ok(Page { entries, revision, continue_token, remaining: None });
                }
                request.start = Some([&last[..], b"\0"].concat());
            }
            if !range.more {
                return Ok(Page { entries, revision, continue_token: None, remaining: None });
            }
            request.at = At::Revision(revision);
        }
    }
}

/// Where to begin, and when.
fn place(options: &ListOptions) -> Result<(Option<String>, At)> {
    let Some(text) = &options.continue_token else {
        return Ok((None, options.exact.map_or(At::Latest, At::Revision)));
    };
    let malformed = || Error::BadRequest("continue key is not valid".into());
    let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| malformed())?;
    let token: Token = serde_json::from_slice(&bytes).map_err(|_| malformed())?;
    if token.version != TOKEN_VERSION || token.start.is_empty() {
        return Err(malformed());
    }
    let at = match token.rv {
        -1 => At::Latest,
        rv => At::Revision(Revision::new(u64::try_from(rv).map_err(|_| malformed())?)),
    };
    Ok((Some(token.start), at))
}

fn token(rv: i64, start: &str) -> String {
    let token = Token { version: TOKEN_VERSION.into(), rv, start: start.into() };
    URL_SAFE_NO_PAD.encode(serde_json::to_vec(&token).expect("a token has a JSON"))
}

fn next_token(more: bool, revision: Revision, last: Option<&Entry>, prefix: &str) -> Option<String> {
    let last = last.filter(|_| more)?;
    let name = String::from_utf8_lossy(&last.key()[prefix.len()..]);
    Some(token(i64::try_from(revision.get()).unwrap_or(i64::MAX), &format!("{name}\0")))
}

fn check_age(page: Page, options: &ListOptions) -> Result<Page> {
    match options.not_older_than.filter(|requested| *requested > page.revision) {
        Some(requested) => Err(Error::TooLargeRevision { requested, current: page.revision }),
        None => Ok(page),
    }
}
