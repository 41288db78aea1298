//! Routes of paths, above all of paths that name no resource.

/// The document or resource that is served at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// `/`: the list of paths.
    Index,
    /// `/version`.
    Version,
    /// `/api`: the versions of the core group.
    CoreVersions,
    /// `/apis`: all other groups.
    Groups,
    /// `/apis/GROUP`.
    Group(String),
    /// `/api/v1` or `/apis/GROUP/VERSION`: the resources of a version.
    Resources { group: String, version: String },
    /// `/openapi/v2`: one document for all kinds.
    OpenApiV2,
    /// `/openapi/v3`: the index of the documents.
    OpenApiIndex,
    /// `/openapi/v3/PATH`: the document of a group version, such as `api/v1`.
    OpenApi(String),
    /// `/.well-known/openid-configuration`: the issuer of tokens.
    OpenIdConfiguration,
    /// `/openid/v1/jwks`: the keys that verify tokens.
    KeySet,
    /// `/admin/clusters`, or one cluster below it. See [`crate::admin`].
    Clusters(Option<String>),
    /// A collection, an object, or a subresource, which `RequestInfo::resource` names.
    Resource,
}

impl Route {
    /// The route of decoded segments that name no resource.
    pub(super) fn of_segments(segments: &[&str]) -> Option<Self> {
        Some(match segments {
            ["version"] => Self::Version,
            ["admin", "clusters"] => Self::Clusters(None),
            ["admin", "clusters", id] => Self::Clusters(Some((*id).to_owned())),
            [".well-known", "openid-configuration"] => Self::OpenIdConfiguration,
            ["openid", "v1", "jwks"] => Self::KeySet,
            ["openapi", "v3"] => Self::OpenApiIndex,
            ["openapi", "v3", path @ ..] => Self::OpenApi(path.join("/")),
            ["openapi", "v2"] => Self::OpenApiV2,
            ["api"] => Self::CoreVersions,
            ["apis"] => Self::Groups,
            ["apis", group] => Self::Group((*group).to_owned()),
            ["api", version] => Self::Resources { group: String::new(), version: (*version).to_owned() },
            ["apis", group, version] => {
                Self::Resources { group: (*group).to_owned(), version: (*version).to_owned() }
            }
            _ => return None,
        })
    }
}
