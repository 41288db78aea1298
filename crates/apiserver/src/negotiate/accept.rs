//! Negotiation of the response format from the `Accept` header.

use coracle_meta::status::Status;
use coracle_meta::table::{IncludeObject, META_V1, META_V1BETA1};
use http::{HeaderMap, header};

use crate::options::{Query, is_go_true};
use crate::status::Refusal;

/// The serialization of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Json,
    Yaml,
    Protobuf,
}

impl Form {
    /// All forms in order of preference, for clauses that match several.
    const ALL: [Form; 3] = [Form::Json, Form::Yaml, Form::Protobuf];

    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Form::Json => "application/json",
            Form::Yaml => "application/yaml",
            Form::Protobuf => "application/vnd.kubernetes.protobuf",
        }
    }
}

/// The representation of an object in a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// The whole object.
    Object,
    /// A row of a `Table`.
    Table,
    /// Only its metadata (`PartialObjectMetadata`).
    Metadata,
    /// Only the metadata of the objects of a list (`PartialObjectMetadataList`).
    MetadataList,
}

/// The negotiated format of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ResponseFormat {
    pub(crate) form: Form,
    pub(crate) shape: Shape,
    /// The API version of `Table` and `PartialObjectMetadata`.
    pub(crate) meta_version: &'static str,
    /// The part of an object that is included in its row of a table.
    pub(crate) include: IncludeObject,
    /// True for indented JSON.
    pub(crate) pretty: bool,
    /// True if the client accepts gzip, which compresses large responses.
    pub(crate) gzip: bool,
    /// True for aggregated discovery.
    pub(crate) aggregated: bool,
}

/// Media types that the error 406 lists.
pub(crate) const OFFERED: [&str; 3] =
    ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];
/// Media types that the error 406 of a watch lists.
const OFFERED_STREAMS: [&str; 2] =
    ["application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch"];

/// Prefixes of the user agents of interactive clients, which get indented JSON by default.
const PRETTY_AGENTS: [&str; 3] = ["curl", "Wget", "Mozilla/5.0"];

/// The kind to which a clause of the header requests that the object is converted (`as`, `g` and `v`).
#[derive(Clone, Copy, Default)]
struct Conversion<'a> {
    kind: &'a str,
    group: &'a str,
    version: &'a str,
}

/// One clause of the header.
struct Clause<'a> {
    main: &'a str,
    sub: &'a str,
    quality: f32,
    parameters: &'a str,
}

/// A form that satisfies a clause, with the parameters of the clause.
struct Choice<'a> {
    form: Form,
    conversion: Option<Conversion<'a>>,
    pretty: bool,
}

/// The headers that determine the format of a response, kept for the encoding of errors.
#[derive(Clone, Debug, Default)]
pub(crate) struct AcceptHeaders(HeaderMap);

impl AcceptHeaders {
    /// Clones the headers; their values are shared and not copied.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let mut kept = HeaderMap::new();
        for name in [header::ACCEPT, header::ACCEPT_ENCODING, header::USER_AGENT] {
            if let Some(value) = headers.get(&name) {
                kept.insert(name, value.clone());
            }
        }
        Self(kept)
    }

    /// Returns the format of an error; `None` if the client accepts no served format.
    pub(crate) fn error_format(&self, raw_query: &str) -> Option<ResponseFormat> {
        let query = if raw_query.contains("pretty") { raw_query } else { "" };
        ResponseFormat::of_refusal(&self.0, Query::parse(query).text("pretty"))
    }
}

/// The representations that a path offers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer {
    /// True if the path is that of a collection.
    pub(crate) collection: bool,
    /// True if kube-apiserver has a route for the path, whose router checks the `Accept` header as well.
    pub(crate) routed: bool,
    /// True if the response has a protobuf type.
    pub(crate) protobuf: bool,
    /// True if the response can be a table.
    pub(crate) tables: bool,
}

impl ResponseFormat {
    /// Negotiates the format of a response with resources.
    pub(crate) fn of_resource(headers: &HeaderMap, query: &Query, offer: Offer) -> Result<Self, Refusal> {
        let accept = accept(headers);
        if offer.routed {
            check_offered(headers, offer.collection)?;
        }
        let allowed = |choice: &Choice<'_>| match choice.conversion {
            None => offer.protobuf || choice.form != Form::Protobuf,
            Some(conversion) => match shape(conversion) {
                Some((Shape::Table, _)) => offer.tables && choice.form != Form::Protobuf,
                Some(_) => true,
                None => false,
            },
        };
        let choice = choose(accept, allowed).ok_or_else(|| Status::not_acceptable(&OFFERED))?;
        let (shape, meta_version) = choice.conversion.and_then(shape).unwrap_or((Shape::Object, META_V1));
        let include = match shape {
            Shape::Table => IncludeObject::parse(query.text("includeObject")).ok_or_else(|| {
                let message = format!(
                    "Unable to convert to Table as requested: includeObject: Invalid value: {:?}: must be 'Metadata', 'Object', 'None', or empty",
                    query.text("includeObject")
                );
                Refusal::bad_request(message)
            })?,
            _ => IncludeObject::Metadata,
        };
        Ok(Self {
            form: choice.form,
            shape,
            meta_version,
            include,
            pretty: choice.pretty || prettily(headers, query.text("pretty")),
            gzip: takes_gzip(headers),
            aggregated: false,
        })
    }

    /// Returns the format of a watch. Rejects YAML, which has no framing for events.
    pub(crate) fn of_stream(self) -> Result<Self, Refusal> {
        if self.form == Form::Yaml { Err(Status::not_acceptable(&OFFERED_STREAMS).into()) } else { Ok(self) }
    }

    /// Negotiates the format of a discovery document. Only some paths offer aggregated discovery.
    pub(crate) fn of_discovery(headers: &HeaderMap, offers_aggregated: bool) -> Result<Self, Refusal> {
        let aggregated = |conversion: Conversion<'_>| {
            offers_aggregated
                && matches!(
                    (conversion.kind, conversion.group, conversion.version),
                    ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2")
                )
        };
        let allowed = |choice: &Choice<'_>| match choice.conversion {
            None => true,
            Some(conversion) => aggregated(conversion) && choice.form == Form::Json,
        };
        let choice = choose(accept(headers), allowed).ok_or_else(|| Status::not_acceptable(&OFFERED))?;
        let plain = Self::plain(choice.form, choice.pretty || prettily(headers, ""), headers);
        Ok(Self { aggregated: choice.conversion.is_some(), ..plain })
    }

    /// Negotiates the format of an error; `None` if the client accepts no served format.
    pub(crate) fn of_refusal(headers: &HeaderMap, pretty: &str) -> Option<Self> {
        let choice = choose(accept(headers), |choice| choice.conversion.is_none())?;
        Some(Self::plain(choice.form, choice.pretty || prettily(headers, pretty), headers))
    }

    /// Indented JSON, regardless of the `Accept` header.
    pub(crate) fn indented_json() -> Self {
        Self::plain(Form::Json, true, &HeaderMap::new())
    }

    fn plain(form: Form, pretty: bool, headers: &HeaderMap) -> Self {
        Self {
            form,
            shape: Shape::Object,
            meta_version: META_V1,
            include: IncludeObject::Metadata,
            pretty,
            gzip: takes_gzip(headers),
            aggregated: false,
        }
    }
}

fn accept(headers: &HeaderMap) -> &str {
    headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// Rejects a request for a resource whose `Accept` header matches no media type of its route.
fn check_offered(headers: &HeaderMap, collection: bool) -> Result<(), Refusal> {
    let mut offered = OFFERED.to_vec();
    if collection {
        offered.extend(OFFERED_STREAMS);
    }
    check_representation(headers, &offered)
}

/// Rejects a request that accepts none of the representations of its route, as kube-apiserver's router does. The
/// router does not support `application/*`.
pub(crate) fn check_representation(headers: &HeaderMap, offered: &[&str]) -> Result<(), Refusal> {
    let accept = accept(headers);
    let fits = |clause: &str| {
        let media_type = clause.split(';').next().unwrap_or_default().trim_matches(' ');
        media_type == "*/*" || offered.contains(&media_type)
    };
    if accept.is_empty() || accept.split(',').any(fits) {
        return Ok(());
    }
    Err(Refusal::not_representable(offered))
}

/// Returns the first choice that is allowed, in order of quality and then of specificity.
fn choose<'a>(accept: &'a str, allowed: impl Fn(&Choice<'a>) -> bool) -> Option<Choice<'a>> {
    if accept.is_empty() {
        return Some(Choice { form: Form::Json, conversion: None, pretty: false });
    }
    let mut clauses: Vec<Clause<'_>> = accept.split(',').filter_map(Clause::parse).collect();
    if clauses.len() > 1 {
        clauses.sort_by(|a, b| {
            let wild = |clause: &Clause<'_>| u8::from(clause.main == "*") + u8::from(clause.sub == "*");
            b.quality.total_cmp(&a.quality).then_with(|| wild(a).cmp(&wild(b)))
        });
    }
    clauses.iter().find_map(|clause| {
        Form::ALL.into_iter().filter(|form| clause.covers(*form)).find_map(|form| {
            let choice = clause.choice(form)?;
            allowed(&choice).then_some(choice)
        })
    })
}

impl<'a> Clause<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let text = text.trim_matches(' ');
        let (media, parameters) = text.split_once(';').unwrap_or((text, ""));
        let (main, sub) = match media.split_once('/') {
            Some((main, sub)) if !sub.contains('/') => (main.trim_matches(' '), sub.trim_matches(' ')),
            None if media.trim_matches(' ') == "*" => ("*", "*"),
            _ => return None,
        };
        let quality = parameter_pairs(parameters).find(|(name, _)| *name == "q");
        let quality = quality.map_or(1.0, |(_, value)| value.parse().unwrap_or(0.0));
        Some(Self { main, sub, quality, parameters })
    }

    fn covers(&self, form: Form) -> bool {
        let (main, sub) = form.media_type().split_once('/').unwrap_or_default();
        (self.main == main && (self.sub == sub || self.sub == "*")) || (self.main == "*" && self.sub == "*")
    }

    fn choice(&self, form: Form) -> Option<Choice<'a>> {
        let mut choice = Choice { form, conversion: None, pretty: false };
        for (name, value) in parameter_pairs(self.parameters) {
            match name {
                "as" => choice.conversion.get_or_insert_default().kind = value,
                "g" => choice.conversion.get_or_insert_default().group = value,
                "v" => choice.conversion.get_or_insert_default().version = value,
                "stream" if !value.is_empty() && (form == Form::Yaml || value != "watch") => return None,
                "sv" if !matches!(value, "" | "v1") => return None,
                "pretty" => choice.pretty = value == "1",
                _ => {}
            }
        }
        Some(choice)
    }
}

fn parameter_pairs(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split(';')
        .filter_map(|part| part.split_once('='))
        .filter(|(_, value)| !value.is_empty() && !value.contains('='))
        .map(|(name, value)| (name.trim_matches(' '), value.trim_matches(' ')))
}

fn shape(conversion: Conversion<'_>) -> Option<(Shape, &'static str)> {
    let version = match (conversion.group, conversion.version) {
        ("meta.k8s.io", "v1") => META_V1,
        ("meta.k8s.io", "v1beta1") => META_V1BETA1,
        _ => return None,
    };
    match conversion.kind {
        "Table" => Some((Shape::Table, version)),
        "PartialObjectMetadata" => Some((Shape::Metadata, version)),
        "PartialObjectMetadataList" => Some((Shape::MetadataList, version)),
        _ => None,
    }
}

fn prettily(headers: &HeaderMap, asked: &str) -> bool {
    if !asked.is_empty() {
        return is_go_true(asked);
    }
    let agent = headers.get(header::USER_AGENT).map_or(&b""[..], |value| value.as_bytes());
    PRETTY_AGENTS.iter().any(|name| agent.starts_with(name.as_bytes()))
}

fn takes_gzip(headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok());
    accepted.is_some_and(|accepted| accepted.split(',').any(|coding| coding.trim() == "gzip"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(accept: &str) -> Option<ResponseFormat> {
        let mut headers = HeaderMap::new();
        if !accept.is_empty() {
            headers.insert(header::ACCEPT, accept.parse().unwrap());
        }
        let offer = Offer { collection: true, routed: true, protobuf: true, tables: true };
        ResponseFormat::of_resource(&headers, &Query::parse(""), offer).ok()
    }

    #[test]
    fn accept_header_selects_the_first_served_format() {
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        assert_eq!(wanted(kubectl).map(|format| format.shape), Some(Shape::Table));
        let typed = "application/vnd.kubernetes.protobuf,application/json";
        for (accept, form) in [
            ("", Form::Json),
            ("*/*", Form::Json),
            (typed, Form::Protobuf),
            ("application/json;q=0.1, application/yaml;q=0.9", Form::Yaml),
            ("*/*, application/yaml", Form::Yaml),
            ("application/json;as=Table;g=meta.k8s.io;v=v9,application/yaml", Form::Yaml),
        ] {
            assert_eq!(wanted(accept).map(|format| format.form), Some(form), "{accept}");
        }
        for accept in ["text/html", "application/*", "application/json;stream=x", "application/json;as=Table"]
        {
            assert_eq!(wanted(accept), None, "{accept}");
        }
        let table = "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io";
        assert_eq!(wanted(table), None, "tables have no protobuf");
        let metadata = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
        assert_eq!(wanted(metadata).map(|format| format.shape), Some(Shape::Metadata));
    }

    #[test]
    fn aggregated_discovery_is_returned_only_where_offered() {
        let mut headers = HeaderMap::new();
        let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
        headers.insert(header::ACCEPT, accept.parse().unwrap());
        assert!(ResponseFormat::of_discovery(&headers, true).is_ok_and(|format| format.aggregated));
        assert!(ResponseFormat::of_discovery(&headers, false).is_ok_and(|format| !format.aggregated));
        headers.insert(header::ACCEPT, accept.split(',').next().unwrap().parse().unwrap());
        assert!(ResponseFormat::of_discovery(&headers, false).is_err());
    }
}
