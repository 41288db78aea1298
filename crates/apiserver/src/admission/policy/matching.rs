//! `MatchResources`: which writes a policy or a binding applies to.

use coracle_meta::selector::{LabelSelector, labels::Selector};
use coracle_registry::admission::Operation;
use coracle_registry::kinds::core::namespace::Namespace;
use coracle_registry::view;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::request::{PolicyRequest, Representation, labels};

/// The parsed `matchConstraints` or `matchResources`.
#[derive(Debug)]
pub(super) struct MatchResources {
    rules: Vec<NamedRule>,
    excluded: Vec<NamedRule>,
    namespaces: Result<Selector, String>,
    objects: Result<Selector, String>,
    /// True if a rule also matches requests for equivalent groups and versions (`matchPolicy: Equivalent`).
    equivalent: bool,
}

/// `NamedRuleWithOperations`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NamedRule {
    resource_names: Vec<String>,
    api_groups: Vec<String>,
    api_versions: Vec<String>,
    operations: Vec<String>,
    resources: Vec<String>,
    scope: Option<String>,
}

const ANYTHING: &str = "*";

/// The label of every namespace that repeats its name.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

impl MatchResources {
    /// Parses the field of a policy or binding. Values of a wrong type match nothing; the schema rejects them.
    pub(super) fn read(object: &Value) -> Self {
        let rules = |field| {
            let rules = view::items(object, &[field]).iter();
            rules.filter_map(|rule| NamedRule::deserialize(rule).ok()).collect()
        };
        Self {
            rules: rules("resourceRules"),
            excluded: rules("excludeResourceRules"),
            namespaces: selector(object, "namespaceSelector", "namespace"),
            objects: selector(object, "objectSelector", "object"),
            equivalent: view::text(object, &["matchPolicy"]) != "Exact",
        }
    }

    /// Returns the group and version in which the request matches; None if it does not.
    ///
    /// # Errors
    /// If the selectors are invalid, or the namespace of the request cannot be read.
    pub(super) async fn matches<'a>(
        &self,
        request: &PolicyRequest<'a>,
    ) -> Result<Option<Representation<'a>>, String> {
        let in_namespace = self.matches_namespace(request).await;
        let has_labels = self.matches_labels(request);
        if in_namespace == Ok(false)
            || has_labels == Ok(false)
            || self.matching_representation(&self.excluded, request).is_some()
        {
            return Ok(None);
        }
        let representation = match self.rules.is_empty() {
            true => Some(request.own()),
            false => self.matching_representation(&self.rules, request),
        };
        // Errors of selectors are reported only if a rule matches.
        match representation {
            Some(representation) => in_namespace.and(has_labels).map(|_| Some(representation)),
            None => Ok(None),
        }
    }

    async fn matches_namespace(&self, request: &PolicyRequest<'_>) -> Result<bool, String> {
        let name = request.namespace();
        // Objects without namespace match every namespace selector.
        if name.is_empty() && !request.is_namespace() {
            return Ok(true);
        }
        let selector = self.namespaces.as_ref().map_err(String::clone)?;
        if selector.is_everything() {
            return Ok(true);
        }
        let operation = request.attributes.operation;
        let is_written = matches!(operation, Operation::Create | Operation::Update);
        if request.is_namespace() && request.attributes.write.subresource.is_empty() && is_written {
            return Ok(request.object.is_some_and(|object| selector.matches(&labels(object))));
        }
        let found = request.attributes.cluster.find(&Namespace, "", name).await;
        match found.map_err(|error| error.to_string())? {
            Some(namespace) => Ok(selector.matches(&labels(&namespace))),
            // Objects that outlived their namespace can still be updated and deleted. Only the label that every
            // namespace has is known then.
            None if matches!(operation, Operation::Update | Operation::Delete) => {
                Ok(selector.matches(&Map::from_iter([(NAME_LABEL.to_owned(), name.into())])))
            }
            None => Err(format!("namespaces {name:?} not found")),
        }
    }

    fn matches_labels(&self, request: &PolicyRequest<'_>) -> Result<bool, String> {
        let selector = self.objects.as_ref().map_err(String::clone)?;
        let mut objects = request.object.into_iter().chain(request.old);
        Ok(selector.is_everything() || objects.any(|object| selector.matches(&labels(object))))
    }

    /// Returns the group and version in which a rule matches: that of the request, or an equivalent one.
    fn matching_representation<'a>(
        &self,
        rules: &[NamedRule],
        request: &PolicyRequest<'a>,
    ) -> Option<Representation<'a>> {
        let own = request.own();
        if rules.iter().any(|rule| rule.matches(request, own)) {
            return Some(own);
        }
        let fits = |rule: &NamedRule| {
            request.representations().find(|representation| {
                !representation.is(&own.group_version()) && rule.matches(request, *representation)
            })
        };
        rules.iter().filter(|_| self.equivalent).find_map(fits)
    }
}

/// Parses a selector; it is an error if the field is absent.
fn selector(object: &Value, field: &str, what: &str) -> Result<Selector, String> {
    let Some(found) = object.get(field) else {
        return Err(format!(
            "a nil {what} selector was passed, please ensure selectors are initialized properly"
        ));
    };
    let selector = LabelSelector::deserialize(found).map_err(|error| error.to_string())?;
    selector.to_selector().map_err(|error| error.to_string())
}

impl NamedRule {
    fn matches(&self, request: &PolicyRequest<'_>, representation: Representation<'_>) -> bool {
        let among = |pattern: &[String], found: &str| {
            pattern.iter().any(|pattern| pattern == ANYTHING || pattern == found)
        };
        self.matches_scope(request)
            && among(&self.operations, request.operation())
            && among(&self.api_groups, representation.group())
            && among(&self.api_versions, representation.version)
            && self.resources.iter().any(|resource| matches_resource(resource, request))
            && (self.resource_names.is_empty()
                || self.resource_names.iter().any(|name| name == request.attributes.name))
    }

    fn matches_scope(&self, request: &PolicyRequest<'_>) -> bool {
        let in_namespace = !request.is_namespace() && !request.namespace().is_empty();
        match self.scope.as_deref() {
            None | Some(ANYTHING) => true,
            Some("Namespaced") => in_namespace,
            Some("Cluster") => !in_namespace,
            Some(_) => false,
        }
    }
}

/// Returns true if a rule matches a resource, such as `pods`, `pods/status`, `*/scale` or `*/*`.
fn matches_resource(pattern: &str, request: &PolicyRequest<'_>) -> bool {
    let (resource, part) = pattern.split_once('/').unwrap_or((pattern, ""));
    let fits = |pattern: &str, found: &str| pattern == ANYTHING || pattern == found;
    fits(resource, request.resource()) && fits(part, request.attributes.write.subresource)
}
