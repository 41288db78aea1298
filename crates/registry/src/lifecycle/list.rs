//! Listing objects, in pages of one snapshot.

use base64::Engine as _;
use base64::alphabet::URL_SAFE;
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD};
use coracle_api::codec::{Target, json};
use coracle_store::{At, Entry, RangeRequest, Revision};
use serde::{Deserialize, Serialize};

use super::read::WAIT_FOR_REVISION;
use super::select::Selection;
use crate::cluster::Cluster;
use crate::error::{Error, Result};
use crate::keys;
use crate::kind::{Declaration, Kind, Scope};

/// Number of entries that are scanned at a time for a list with a selector.
const SCAN_PAGE: usize = 500;

/// Options of a list.
#[derive(Clone, Debug, Default)]
pub struct ListOptions {
    /// Label and field selectors.
    pub selection: Selection,
    /// Maximum number of objects; 0 for all.
    pub limit: usize,
    /// The continue token of the previous page.
    pub continue_token: Option<String>,
    /// The exact revision to read.
    pub exact: Option<Revision>,
    /// The minimum revision to read.
    pub not_older_than: Option<Revision>,
}

/// One page of a list.
#[derive(Clone, Debug)]
pub struct Page {
    /// The objects.
    pub entries: Vec<Entry>,
    /// The revision of the snapshot.
    pub revision: Revision,
    /// The token for the next page, if there is one.
    pub continue_token: Option<String>,
    /// Number of objects after this page; unknown with a selector.
    pub remaining: Option<u64>,
}

#[derive(Serialize, Deserialize)]
struct Token {
    #[serde(rename = "v", default)]
    version: String,
    /// Negative for the latest revision.
    #[serde(default)]
    rv: i64,
    #[serde(default)]
    start: String,
}

const TOKEN_VERSION: &str = "meta.k8s.io/v1";

/// Decodes base64 as Go does, which ignores unused bits of the last character.
const LENIENT: GeneralPurpose = GeneralPurpose::new(&URL_SAFE, NO_PAD.with_decode_allow_trailing_bits(true));

impl Cluster {
    /// Lists one page of the objects of a kind, in one namespace or in all.
    ///
    /// # Errors
    /// If the revision is compacted or is not reached in time, or the token is malformed.
    pub async fn list(&self, kind: &dyn Kind, namespace: &str, options: &ListOptions) -> Result<Page> {
        match self.list_now(kind, namespace, options).await {
            Err(Error::TooLargeRevision { requested, .. }) => {
                self.wait_for(requested, WAIT_FOR_REVISION).await?;
                self.list_now(kind, namespace, options).await
            }
            outcome => outcome,
        }
    }

    async fn list_now(&self, kind: &dyn Kind, namespace: &str, options: &ListOptions) -> Result<Page> {
        let declaration = kind.declaration();
        let prefix = keys::prefix(declaration, namespace);
        let (start, at) = place(options)?;
        let within = within(declaration, namespace, &options.selection).unwrap_or_else(|| prefix.clone());
        let mut request = RangeRequest { prefix: within.into_bytes(), at, ..RangeRequest::default() };
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

    /// Number of objects of a kind in all namespaces.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn count(&self, kind: &dyn Kind) -> Result<u64> {
        Ok(self.store.count(keys::prefix(kind.declaration(), ""), At::Latest).await?.count)
    }

    async fn page(&self, mut request: RangeRequest, limit: usize, prefix: &str) -> Result<Page> {
        request.limit = limit;
        request.count_remaining = limit > 0;
        let range = self.store.range(request).await?;
        let continue_token = next_token(range.more, range.revision, range.entries.last(), prefix);
        let remaining = range.remaining.filter(|_| range.more);
        Ok(Page { entries: range.entries, revision: range.revision, continue_token, remaining })
    }

    /// Scans portions of the range until enough objects are selected.
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
                if index + 1 == seen {
                    request.start = Some([entry.key(), b"\0"].concat());
                }
                if options.selection.selects(kind, &entry)? {
                    entries.push(entry);
                }
                if entries.len() >= wanted {
                    let more = range.more || index + 1 < seen;
                    let continue_token = next_token(more, revision, entries.last(), prefix);
                    return Ok(Page { entries, revision, continue_token, remaining: None });
                }
            }
            if !range.more {
                return Ok(Page { entries, revision, continue_token: None, remaining: None });
            }
            request.at = At::Revision(revision);
        }
    }
}

/// The common prefix of the keys of all selected objects, if it is longer than the prefix of the list: with a field
/// selector on the name, the list is a lookup.
pub(super) fn within(declaration: &Declaration, namespace: &str, selection: &Selection) -> Option<String> {
    let name = selection.fields.requires_exact_match("metadata.name").filter(|name| !name.is_empty())?;
    let one_place = declaration.scope == Scope::Cluster || !namespace.is_empty();
    one_place.then(|| keys::key(declaration, namespace, name))
}

/// The start key and the revision of a list.
fn place(options: &ListOptions) -> Result<(Option<String>, At)> {
    let Some(text) = &options.continue_token else {
        let current = options.not_older_than.map_or(At::Latest, At::NotOlderThan);
        return Ok((None, options.exact.map_or(current, At::Revision)));
    };
    let token = read_token(text).map_err(|why| {
        Error::BadRequest(format!("invalid continue token: continue key is not valid: {why}"))
    })?;
    let at = u64::try_from(token.rv).map_or(At::Latest, |rv| At::Revision(Revision::new(rv)));
    Ok((Some(token.start), at))
}

/// Decodes a continue token; errors have the messages of kube-apiserver.
fn read_token(text: &str) -> Result<Token, String> {
    let bytes = LENIENT.decode(text).map_err(|error| {
        let at = match error {
            base64::DecodeError::InvalidByte(at, _) | base64::DecodeError::InvalidLastSymbol(at, _) => at,
            // Go reports the start of the last, incomplete group of four.
            _ => text.len() / 4 * 4,
        };
        format!("illegal base64 data at input byte {at}")
    })?;
    let value = json::decode(&bytes, Target::Any).map_err(|error| error.to_string())?.object;
    let token: Token = serde_json::from_value(value).map_err(|error| error.to_string())?;
    if token.version != TOKEN_VERSION {
        return Err(format!("server does not recognize this encoded version {}", token.version));
    }
    if token.rv == 0 {
        return Err(format!("incorrect encoded start resourceVersion (version {TOKEN_VERSION})"));
    }
    if token.start.is_empty() {
        return Err(format!("encoded start key empty (version {TOKEN_VERSION})"));
    }
    // A path that would leave the prefix.
    if token.start.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Err(token.start);
    }
    Ok(token)
}

fn token(rv: i64, start: &str) -> String {
    let token = Token { version: TOKEN_VERSION.into(), rv, start: start.into() };
    LENIENT.encode(serde_json::to_vec(&token).expect("a token has a JSON"))
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
