//! Options in the query string, parsed and checked as in kube-apiserver: options that cannot be parsed are a bad
//! request (400), options that contradict each other are invalid (422).

use coracle_meta::field::{BadValue, ErrorList, FieldError, Path};
use coracle_meta::gvk::GroupKind;
use coracle_meta::patch::PatchType;
use coracle_meta::selector::{fields, labels};
use coracle_meta::status::{Reason, Status};
use coracle_meta::time::parse_go_duration;
use coracle_registry::lifecycle::Selection;
use coracle_registry::{Kind, Scope};
use http::Method;

use crate::discovery::group_version;
use crate::status::Refusal;

/// The longest name of a field manager, in bytes.
const MAX_MANAGER_BYTES: usize = 128;

/// A parsed query string: names and values in their order. Unknown parameters are ignored, as in kube-apiserver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Query(Vec<(String, String)>);

/// The `fieldValidation` option: how to treat unknown fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

/// The options of a list or a watch that select the revision.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ListQuery {
    /// Empty for the latest revision.
    pub(crate) resource_version: String,
    /// `Exact`, `NotOlderThan`, or empty.
    pub(crate) resource_version_match: String,
    pub(crate) continue_token: String,
    pub(crate) limit: i64,
    pub(crate) timeout_seconds: Option<i64>,
    pub(crate) allow_bookmarks: bool,
    pub(crate) send_initial_events: Option<bool>,
}

impl Query {
    pub(crate) fn parse(query: &str) -> Self {
        let pairs = form_urlencoded::parse(query.as_bytes());
        Self(pairs.map(|(name, value)| (name.into_owned(), value.into_owned())).collect())
    }

    /// All values of a parameter. A linear search is fastest, because there are few parameters.
    pub(crate) fn values(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// Returns true if a parameter has this among its values.
    pub(crate) fn has(&self, name: &str, value: &str) -> bool {
        self.values(name).any(|other| other == value)
    }

    /// The first value of a parameter; empty if it is absent.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.values(name).next().unwrap_or_default()
    }

    /// Returns true if a flag is set. Every value except `false` and `0` counts as true, as in kube-apiserver.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.optional_flag(name).unwrap_or(false)
    }

    /// The value of a flag, or None if it is absent.
    pub(crate) fn optional_flag(&self, name: &str) -> Option<bool> {
        let text = self.values(name).next()?;
        Some(text != "0" && !text.eq_ignore_ascii_case("false"))
    }

    pub(crate) fn number(&self, name: &str) -> Result<Option<i64>, Refusal> {
        let Some(text) = self.values(name).next() else { return Ok(None) };
        let refused = |error| Refusal::bad_request(not_a_number("ParseInt", text, &error));
        text.parse().map(Some).map_err(refused)
    }

    pub(crate) fn dry_run(&self) -> bool {
        self.values("dryRun").next().is_some()
    }

    /// Returns the mode of field validation. Unknown values have been rejected by [`Query::check_write`].
    pub(crate) fn field_validation(&self) -> FieldValidation {
        match self.text("fieldValidation") {
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            _ => FieldValidation::Warn,
        }
    }

    /// Checks the options of a write. Options of deletions are checked here only if there is no body.
    pub(crate) fn check_write(&self, method: &Method, no_body: bool) -> Result<(), Refusal> {
        let kind = match *method {
            Method::POST => "CreateOptions",
            Method::PUT => "UpdateOptions",
            Method::DELETE if no_body => return self.check_delete(),
            _ => return Ok(()),
        };
        self.check_write_options(kind, ErrorList::default())
    }

    /// Checks the options of a patch.
    pub(crate) fn check_patch(&self, patch: PatchType) -> Result<(), Refusal> {
        let mut errors = ErrorList::default();
        if patch == PatchType::Apply {
            if self.text("fieldManager").is_empty() {
                let path = Path::root("fieldManager");
                errors.push(FieldError::required(&path, "is required for apply patch"));
            }
        } else if self.optional_flag("force").is_some() {
            let why = "may not be specified for non-apply patch";
            errors.push(FieldError::forbidden(&Path::root("force"), why));
        }
        self.check_write_options("PatchOptions", errors)
    }

    fn check_write_options(&self, kind: &'static str, mut errors: ErrorList) -> Result<(), Refusal> {
        self.check_manager(&mut errors);
        let dry_run: Vec<&str> = self.values("dryRun").collect();
        check_dry_run(&dry_run, &mut errors);
        let validation = self.text("fieldValidation");
        if !matches!(validation, "" | "Ignore" | "Warn" | "Strict") {
            let known = ["", "Ignore", "Strict", "Warn"];
            errors.push(FieldError::not_supported(&Path::root("fieldValidation"), validation, &known));
        }
        invalid(kind, errors)
    }

    fn check_delete(&self) -> Result<(), Refusal> {
        self.number("gracePeriodSeconds")?;
        let dry_run: Vec<&str> = self.values("dryRun").collect();
        let policy = Some(self.text("propagationPolicy")).filter(|policy| !policy.is_empty());
        check_delete(policy, self.optional_flag("orphanDependents"), &dry_run)
    }

    fn check_manager(&self, errors: &mut ErrorList) {
        let path = Path::root("fieldManager");
        let manager = self.text("fieldManager");
        if manager.len() > MAX_MANAGER_BYTES {
            errors.push(FieldError::too_long(&path, MAX_MANAGER_BYTES));
        }
        let odd = manager.char_indices().find(|(_, character)| !is_printable(*character));
        if let Some((at, character)) = odd {
            let code = u32::from(character);
            let why = format!("invalid character U+{code:04X} (at position {at})");
            errors.push(FieldError::invalid(&path, manager, why));
        }
    }

    /// The options of a list or a watch.
    pub(crate) fn list_query(&self, watch: bool) -> Result<ListQuery, Refusal> {
        // Invalid selectors are reported before invalid numbers.
        parse_labels(self.text("labelSelector"))?;
        parse_fields(self.text("fieldSelector"))?;
        let timeout_seconds = self.number("timeoutSeconds")?;
        let mut query = ListQuery {
            resource_version: self.text("resourceVersion").to_owned(),
            resource_version_match: self.text("resourceVersionMatch").to_owned(),
            continue_token: self.text("continue").to_owned(),
            timeout_seconds,
            limit: self.number("limit")?.unwrap_or(0),
            allow_bookmarks: self.flag("allowWatchBookmarks"),
            send_initial_events: self.optional_flag("sendInitialEvents"),
        };
        if watch {
            query.set_watch_defaults();
        }
        let errors = if watch { query.watch_errors() } else { query.list_errors() };
        invalid("ListOptions", errors)?;
        Ok(query)
    }

    /// Checks that `timeout` is a valid duration. It is not applied, because no request takes long.
    pub(crate) fn check_timeout(&self, watch: bool) -> Result<(), Refusal> {
        let text = self.text("timeout");
        if watch || text.is_empty() {
            return Ok(());
        }
        let refusal = |why| format!("invalid timeout specified in the request URL - {why}");
        parse_go_duration(text).map(drop).map_err(|why| Refusal::bad_request(refusal(why)))
    }

    /// The label and field selectors of a request.
    pub(crate) fn selection(&self, kind: &dyn Kind, version: &str) -> Result<Selection, Refusal> {
        let labels = parse_labels(self.text("labelSelector"))?;
        let fields = parse_fields(self.text("fieldSelector"))?;
        for requirement in fields.requirements() {
            check_field(kind, version, &requirement.field)?;
        }
        Ok(Selection { labels, fields })
    }
}

impl ListQuery {
    /// A watch without a resourceVersion, or with `0`, begins with the current objects.
    fn set_watch_defaults(&mut self) {
        let legacy = self.resource_version.is_empty() || self.resource_version.parse() == Ok(0_u64);
        if self.send_initial_events.is_none() && self.resource_version_match.is_empty() && legacy {
            self.send_initial_events = Some(true);
            self.resource_version_match = "NotOlderThan".to_owned();
        }
    }

    fn list_errors(&self) -> ErrorList {
        let mut errors = ErrorList::default();
        let path = Path::root("resourceVersionMatch");
        let matching = &*self.resource_version_match;
        if !matching.is_empty() {
            if self.resource_version.is_empty() {
                let why = "resourceVersionMatch is forbidden unless resourceVersion is provided";
                errors.push(FieldError::forbidden(&path, why));
            }
            if !self.continue_token.is_empty() {
                let why = "resourceVersionMatch is forbidden when continue is provided";
                errors.push(FieldError::forbidden(&path, why));
            }
            if !matches!(matching, "Exact" | "NotOlderThan") {
                errors.push(FieldError::not_supported(&path, matching, &["Exact", "NotOlderThan", ""]));
            }
            if matching == "Exact" && self.resource_version == "0" {
                let why = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
                errors.push(FieldError::forbidden(&path, why));
            }
        }
        if self.send_initial_events.is_some() {
            let why = "sendInitialEvents is forbidden for list";
            errors.push(FieldError::forbidden(&Path::root("sendInitialEvents"), why));
        }
        errors
    }

    fn watch_errors(&self) -> ErrorList {
        let mut errors = ErrorList::default();
        let path = Path::root("resourceVersionMatch");
        let matching = &*self.resource_version_match;
        if self.send_initial_events.is_some() && matching != "NotOlderThan" {
            let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            errors.push(FieldError::forbidden(&path, why));
        }
        if !matching.is_empty() {
            if self.send_initial_events.is_none() {
                let why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
                errors.push(FieldError::forbidden(&path, why));
            }
            if matching != "NotOlderThan" {
                errors.push(FieldError::not_supported(&path, matching, &["NotOlderThan"]));
            }
            if !self.continue_token.is_empty() {
                let why = "resourceVersionMatch is forbidden when continue is provided";
                errors.push(FieldError::forbidden(&path, why));
            }
        }
        errors
    }
}

/// Checks the options of a deletion, from the query or the body.
pub(crate) fn check_delete(
    policy: Option<&str>,
    orphan: Option<bool>,
    dry_run: &[&str],
) -> Result<(), Refusal> {
    let mut errors = ErrorList::default();
    let path = Path::root("propagationPolicy");
    if let (Some(policy), Some(_)) = (policy, orphan) {
        let why = "orphanDependents and deletionPropagation cannot be both set";
        errors.push(FieldError::invalid(&path, policy, why));
    }
    if let Some(policy) = policy.filter(|policy| !matches!(*policy, "Foreground" | "Background" | "Orphan")) {
        let known = ["Foreground", "Background", "Orphan", "nil"];
        errors.push(FieldError::not_supported(&path, policy, &known));
    }
    check_dry_run(dry_run, &mut errors);
    invalid("DeleteOptions", errors)
}

fn check_dry_run(values: &[&str], errors: &mut ErrorList) {
    if values.iter().any(|value| *value != "All") {
        let bad = BadValue::json(&serde_json::json!(values));
        errors.push(FieldError::not_supported(&Path::root("dryRun"), bad, &["All"]));
    }
}

/// Parses a resourceVersion; None for `0` and for an empty text, which mean any. Errors have kube-apiserver's text.
pub(crate) fn revision_number(text: &str) -> Result<Option<u64>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    // Rust would accept a plus sign, Go does not.
    let number: u64 = text.strip_prefix('+').map_or(text, |_| "+").parse().map_err(|error| {
        format!("resourceVersion: Invalid value: {text:?}: {}", not_a_number("ParseUint", text, &error))
    })?;
    Ok(Some(number).filter(|number| *number != 0))
}

/// The texts that Go's `strconv.ParseBool` accepts as true.
pub(crate) fn is_go_true(text: &str) -> bool {
    matches!(text, "1" | "t" | "T" | "TRUE" | "true" | "True")
}

/// Rejects options that have errors, with 422.
pub(crate) fn invalid(kind: &'static str, errors: ErrorList) -> Result<(), Refusal> {
    if errors.is_empty() {
        return Ok(());
    }
    let kind = GroupKind { group: "meta.k8s.io".into(), kind: kind.into() };
    Err(Status::invalid(&kind, "", &errors).into())
}

/// Go's error message for text that is not a number.
fn not_a_number(function: &str, text: &str, error: &std::num::ParseIntError) -> String {
    use std::num::IntErrorKind::{NegOverflow, PosOverflow};
    let why = if matches!(error.kind(), PosOverflow | NegOverflow) {
        "value out of range"
    } else {
        "invalid syntax"
    };
    format!("strconv.{function}: parsing {text:?}: {why}")
}

fn parse_labels(text: &str) -> Result<labels::Selector, Refusal> {
    text.parse().map_err(|error: labels::ParseError| Refusal::bad_request(error.to_string()))
}

fn parse_fields(text: &str) -> Result<fields::Selector, Refusal> {
    text.parse().map_err(|error: fields::ParseError| Refusal::bad_request(error.to_string()))
}

/// Checks that a field can be selected. All kinds have common selectable fields; kinds with further ones have their own
/// error messages.
fn check_field(kind: &dyn Kind, version: &str, field: &str) -> Result<(), Refusal> {
    let declaration = kind.declaration();
    let selectable = &declaration.selectable_fields;
    // Built-in kinds without selectable fields of their own have kube-apiserver's default rule, which allows the
    // namespace for every scope.
    let is_default = selectable.is_empty() && !declaration.is_custom;
    let has_namespace = is_default || declaration.scope == Scope::Namespaced;
    let is_known = match field {
        "metadata.name" => true,
        "metadata.namespace" => has_namespace,
        field => selectable.iter().any(|known| known == field),
    };
    if is_known {
        return Ok(());
    }
    let message = match &*declaration.kind {
        _ if is_default => {
            format!("{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
        }
        "Job" => format!("field label {field:?} not supported for Job"),
        "ResourceSlice" => format!(
            "field label not supported for {}, Kind=ResourceSlice: {field}",
            group_version(&declaration.group, version)
        ),
        _ => format!("field label not supported: {field}"),
    };
    Err(Refusal::bad_request(message))
}

/// Go's `unicode.IsPrint`: letters, marks, numbers, symbols, and the plain space.
fn is_printable(character: char) -> bool {
    let unseen = matches!(character, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    let private = matches!(u32::from(character), 0xe000..=0xf8ff | 0xf_0000..);
    character == ' ' || !character.is_control() && !character.is_whitespace() && !unseen && !private
}

/// A rejection without a reason, as kube-apiserver sends it.
pub(crate) fn unexplained(message: String) -> Refusal {
    Status { code: 500, ..Status::failure(Reason::Unknown, message) }.into()
}
