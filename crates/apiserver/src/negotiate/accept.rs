//! The `Accept` header: which of the forms we have the client wants.

use coracle_meta::status::Status;
use http::{HeaderMap, header};

use crate::status::Refusal;

/// How an answer is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Json,
    Yaml,
    Protobuf,
}

/// What of an object is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// All of it.
    Object,
    /// A row of a table.
    Table,
    /// Its metadata.
    Metadata,
}

/// What the client wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) form: Form,
    pub(crate) shape: Shape,
    /// Discovery in its newer form.
    pub(crate) aggregated: bool,
}

/// What a refusal names.
const OFFERED: &[&str] = &["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];

impl Wanted {
    /// The first of the client's wishes that can be fulfilled.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Self, Refusal> {
        let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let mut wishes = accept.split(',').map(str::trim).filter(|wish| !wish.is_empty()).peekable();
        if wishes.peek().is_none() {
            return Ok(Self::plain(Form::Json));
        }
        wishes.find_map(Self::fulfil).ok_or_else(|| Status::not_acceptable(OFFERED).into())
    }

    fn plain(form: Form) -> Self {
        Self { form, shape: Shape::Object, aggregated: false }
    }

    fn fulfil(wish: &str) -> Option<Self> {
        let mut parts = wish.split(';').map(str::trim);
        let form = match parts.next()? {
            "application/json" | "application/*" | "*/*" => Form::Json,
            "application/yaml" => Form::Yaml,
            "application/vnd.kubernetes.protobuf" => Form::Protobuf,
            _ => return None,
        };
        let (mut kind, mut group, mut version) = ("", "", "");
        for (name, value) in parts.filter_map(|part| part.split_once('=')) {
            match name {
                "as" => kind = value,
                "g" => group = value,
                "v" => version = value,
                _ => {}
            }
        }
        match (kind, group, version) {
            ("", ..) => Some(Self::plain(form)),
            // Rows and metadata are told in JSON; protobuf of them nobody asks for first.
            ("Table", "meta.k8s.io", "v1" | "v1beta1") if form == Form::Json => {
                Some(Self { shape: Shape::Table, ..Self::plain(form) })
            }
            ("PartialObjectMetadata" | "PartialObjectMetadataList", "meta.k8s.io", "v1" | "v1beta1")
                if form == Form::Json =>
            {
                Some(Self { shape: Shape::Metadata, ..Self::plain(form) })
            }
            ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2") if form == Form::Json => {
                Some(Self { aggregated: true, ..Self::plain(form) })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(accept: &str) -> Option<Wanted> {
        let mut headers = HeaderMap::new();
        if !accept.is_empty() {
            headers.insert(header::ACCEPT, accept.parse().unwrap());
        }
        Wanted::of(&headers).ok()
    }

    #[test]
    fn clients_get_the_first_of_their_wishes_that_we_have() {
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        assert_eq!(wanted(kubectl).map(|wanted| wanted.shape), Some(Shape::Table));
        assert_eq!(wanted("").map(|wanted| wanted.form), Some(Form::Json));
        assert_eq!(wanted("*/*").map(|wanted| wanted.form), Some(Form::Json));
        let typed = "application/vnd.kubernetes.protobuf,application/json";
        assert_eq!(wanted(typed).map(|wanted| wanted.form), Some(Form::Protobuf));
        let discovery =
            "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
        assert!(wanted(discovery).is_some_and(|wanted| wanted.aggregated));
        assert_eq!(wanted("text/html"), None);
    }
}
