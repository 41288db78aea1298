//! Bootstrap tokens, by which nodes join a cluster: Secrets in `kube-system` in Kubernetes' format
//! (`k8s.io/cluster-bootstrap`), created, listed and deleted through the API.
//!
//! A token has a public ID and a secret, which is shown only once.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use coracle_base::Timestamp;
use coracle_controllers::bootstrap_token::{
    self as keys, MAX_USAGE_LIMIT, NAME_PREFIX, NAMESPACE, SECRET_TYPE,
};
use coracle_meta::time::Time;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, ListParams, ObjectMeta, PostParams};
use kube::{Api, Client};
use ring::rand::{SecureRandom, SystemRandom};

/// Lengths of the ID and the secret, in characters.
const ID_LENGTH: usize = 6;
const SECRET_LENGTH: usize = 16;

/// The alphabet of both.
const CHARACTERS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";

/// Prefix of the groups of bootstrap tokens.
const GROUP_PREFIX: &str = "system:bootstrappers:";

/// Maximum length of a group after the prefix.
const MAX_GROUP_BYTES: usize = 256;

/// Supported usages.
const USAGES: &[&str] = &["signing", "authentication"];

/// Prefix of the Secret's keys for usages.
const USAGE_PREFIX: &str = "usage-bootstrap-";

/// Attempts to find an unused ID. There are two thousand million.
const ATTEMPTS: usize = 8;

/// Why a token request failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// Unknown usage.
    #[error("invalid usage {usage:?}: expected signing or authentication")]
    Usage {
        /// The usage.
        usage: String,
    },
    /// Invalid group.
    #[error("invalid group {group:?}: expected system:bootstrappers: and then a-z, 0-9, - or :")]
    Group {
        /// The group.
        group: String,
    },
    /// Groups without the usage `authentication`.
    #[error("groups need the usage authentication")]
    GroupsWithoutAuthentication,
    /// Usage limit out of range.
    #[error("invalid usage limit {limit}: expected 1 to {MAX_USAGE_LIMIT}")]
    Limit {
        /// The limit.
        limit: usize,
    },
    /// Malformed token ID.
    #[error("expected the id of a token: the six characters a-z and 0-9 before its dot")]
    Id,
    /// No token has this ID.
    #[error("there is no token with the id {id}")]
    NotFound {
        /// The ID.
        id: String,
    },
    /// The system has no randomness for a secret.
    #[error("the system has no randomness for a token")]
    NoRandomness,
    /// The request was rejected or not answered.
    #[error("request to the API server failed")]
    Api(#[source] kube::Error),
}

/// The properties of a new token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRequest {
    /// The lifetime; none for no expiry.
    pub life: Option<Duration>,
    /// The usages: `signing`, `authentication`.
    pub usages: Vec<String>,
    /// Additional groups of clients that authenticate with it.
    pub groups: Vec<String>,
    /// A description.
    pub description: String,
    /// The number of nodes that may join with it; none for any number.
    pub usage_limit: Option<usize>,
}

impl Default for TokenRequest {
    /// As in kubeadm: for a day and all usages.
    fn default() -> Self {
        Self {
            life: Some(Duration::from_hours(24)),
            usages: USAGES.iter().map(ToString::to_string).collect(),
            groups: Vec::new(),
            description: String::new(),
            usage_limit: None,
        }
    }
}

/// A new token. `Debug` does not print its secret.
pub struct Token {
    id: String,
    secret: String,
}

impl Token {
    fn random() -> Result<Self, TokenError> {
        Ok(Self { id: random(ID_LENGTH)?, secret: random(SECRET_LENGTH)? })
    }

    /// The public ID.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The whole token, to be passed to a node.
    pub fn expose(&self) -> String {
        format!("{}.{}", self.id, self.secret)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").field("id", &self.id).finish_non_exhaustive()
    }
}

/// A token without its secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TokenInfo {
    /// The public ID.
    pub id: String,
    /// The expiry as stored in the Secret; none if it does not expire.
    pub expires: Option<String>,
    /// The usages.
    pub usages: Vec<String>,
    /// Additional groups of clients that authenticate with it.
    pub groups: Vec<String>,
    /// The description.
    pub description: String,
    /// The number of nodes that may join with it; none for any number.
    pub usage_limit: Option<String>,
    /// The number of nodes that joined with it, if that is counted.
    pub used: usize,
}

/// Creates a token.
///
/// # Errors
/// If the request is invalid, or the API server rejects it.
pub async fn create(client: Client, request: &TokenRequest, now: Timestamp) -> Result<Token, TokenError> {
    check(request)?;
    let secrets = Api::<Secret>::namespaced(client, NAMESPACE);
    let mut attempts = ATTEMPTS;
    loop {
        let token = Token::random()?;
        match secrets.create(&PostParams::default(), &secret(&token, request, now)).await {
            Ok(_) => return Ok(token),
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" && attempts > 1 => {
                attempts -= 1
            }
            Err(error) => return Err(TokenError::Api(error)),
        }
    }
}

/// All tokens, sorted by ID.
///
/// # Errors
/// If the API server rejects the request.
pub async fn list(client: Client) -> Result<Vec<TokenInfo>, TokenError> {
    let secrets = Api::<Secret>::namespaced(client, NAMESPACE);
    let params = ListParams::default().fields(&format!("type={SECRET_TYPE}"));
    let found = secrets.list(&params).await.map_err(TokenError::Api)?;
    Ok(found.items.iter().filter_map(info).collect())
}

/// Deletes the token with an ID.
///
/// # Errors
/// If there is none, or the API server rejects the request.
pub async fn delete(client: Client, id: &str) -> Result<(), TokenError> {
    let fits = |byte: u8| CHARACTERS.contains(&byte);
    if id.len() != ID_LENGTH || !id.bytes().all(fits) {
        return Err(TokenError::Id);
    }
    let secrets = Api::<Secret>::namespaced(client, NAMESPACE);
    match secrets.delete(&format!("{NAME_PREFIX}{id}"), &DeleteParams::default()).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => {
            Err(TokenError::NotFound { id: id.to_owned() })
        }
        Err(error) => Err(TokenError::Api(error)),
    }
}

fn check(request: &TokenRequest) -> Result<(), TokenError> {
    if let Some(usage) = request.usages.iter().find(|usage| !USAGES.contains(&usage.as_str())) {
        return Err(TokenError::Usage { usage: usage.clone() });
    }
    if let Some(group) = request.groups.iter().find(|group| !is_group(group)) {
        return Err(TokenError::Group { group: group.clone() });
    }
    if !request.groups.is_empty() && !request.usages.iter().any(|usage| usage == "authentication") {
        return Err(TokenError::GroupsWithoutAuthentication);
    }
    match request.usage_limit {
        Some(limit) if limit == 0 || limit > MAX_USAGE_LIMIT => Err(TokenError::Limit { limit }),
        _ => Ok(()),
    }
}

/// Kubernetes' `BootstrapGroupPattern`.
fn is_group(group: &str) -> bool {
    let Some(rest) = group.strip_prefix(GROUP_PREFIX) else { return false };
    let ends_well = rest.bytes().next_back().is_some_and(|byte| CHARACTERS.contains(&byte));
    let fits = rest.bytes().all(|byte| CHARACTERS.contains(&byte) || matches!(byte, b':' | b'-'));
    ends_well && fits && rest.len() <= MAX_GROUP_BYTES
}

fn secret(token: &Token, request: &TokenRequest, now: Timestamp) -> Secret {
    let mut data = BTreeMap::from([
        ("token-id".to_owned(), token.id.clone()),
        ("token-secret".to_owned(), token.secret.clone()),
    ]);
    if let Some(life) = request.life {
        let seconds = i64::try_from((now + life).as_millis() / 1000).unwrap_or(i64::MAX);
        data.insert(keys::EXPIRATION.to_owned(), Time(seconds).to_string());
    }
    for usage in &request.usages {
        data.insert(format!("{USAGE_PREFIX}{usage}"), "true".to_owned());
    }
    if !request.groups.is_empty() {
        data.insert("auth-extra-groups".to_owned(), request.groups.join(","));
    }
    if !request.description.is_empty() {
        data.insert("description".to_owned(), request.description.clone());
    }
    if let Some(limit) = request.usage_limit {
        data.insert(keys::USAGE_LIMIT.to_owned(), limit.to_string());
    }
    let metadata = ObjectMeta { name: Some(format!("{NAME_PREFIX}{}", token.id)), ..ObjectMeta::default() };
    Secret {
        metadata,
        type_: Some(SECRET_TYPE.to_owned()),
        data: Some(data.into_iter().map(|(key, text)| (key, ByteString(text.into_bytes()))).collect()),
        ..Secret::default()
    }
}

/// None for a Secret with another name, which is not a token.
fn info(secret: &Secret) -> Option<TokenInfo> {
    let id = secret.metadata.name.as_deref()?.strip_prefix(NAME_PREFIX)?.to_owned();
    let text = |key: &str| -> Option<String> {
        let bytes = secret.data.as_ref()?.get(key)?;
        Some(String::from_utf8_lossy(&bytes.0).into_owned()).filter(|text| !text.is_empty())
    };
    let several = |key: &str| -> Vec<String> {
        text(key).map(|text| text.split(',').map(str::to_owned).collect()).unwrap_or_default()
    };
    let granted = |usage: &&&str| text(&format!("{USAGE_PREFIX}{usage}")).as_deref() == Some("true");
    Some(TokenInfo {
        id,
        expires: text(keys::EXPIRATION),
        usages: USAGES.iter().filter(granted).map(ToString::to_string).collect(),
        groups: several("auth-extra-groups"),
        description: text("description").unwrap_or_default(),
        usage_limit: text(keys::USAGE_LIMIT),
        used: several(keys::USED_BY).len(),
    })
}

/// Uniformly distributed random characters.
fn random(length: usize) -> Result<String, TokenError> {
    let source = SystemRandom::new();
    // The largest multiple of the alphabet size in a byte; larger values are drawn again.
    let fair = u8::MAX - u8::MAX % 36;
    let mut text = String::new();
    while text.len() < length {
        let mut byte = [0];
        source.fill(&mut byte).map_err(|_| TokenError::NoRandomness)?;
        if byte[0] < fair {
            text.push(char::from(CHARACTERS[usize::from(byte[0] % 36)]));
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

    #[test]
    fn token_has_the_format_of_kubernetes() {
        let token = Token::random().unwrap();
        let text = token.expose();
        let (id, secret) = text.split_once('.').unwrap();
        assert_eq!((id.len(), secret.len()), (6, 16));
        assert!(id.bytes().chain(secret.bytes()).all(|byte| CHARACTERS.contains(&byte)), "{text}");
        assert_ne!(token.expose(), Token::random().unwrap().expose());
        assert!(!format!("{token:?}").contains(secret));
    }

    #[test]
    fn created_token_is_listed_with_its_properties() {
        let token = Token { id: "abcdef".into(), secret: "0123456789abcdef".into() };
        let request = TokenRequest {
            groups: vec!["system:bootstrappers:a".into(), "system:bootstrappers:b".into()],
            description: "for a test".into(),
            usage_limit: Some(3),
            ..TokenRequest::default()
        };
        let secret = secret(&token, &request, NOW);
        assert_eq!(secret.type_.as_deref(), Some("bootstrap.kubernetes.io/token"));
        assert_eq!(secret.metadata.name.as_deref(), Some("bootstrap-token-abcdef"));
        let listed = info(&secret).unwrap();
        assert_eq!(listed.expires.as_deref(), Some("2027-01-16T08:00:00Z"));
        assert_eq!((listed.usages, listed.groups), (request.usages, request.groups));
        assert_eq!((listed.usage_limit.as_deref(), listed.used), (Some("3"), 0));
        assert_eq!(listed.description, "for a test");
        let endless = TokenRequest { life: None, ..TokenRequest::default() };
        assert_eq!(info(&super::secret(&token, &endless, NOW)).unwrap().expires, None);
    }

    #[test]
    fn invalid_token_request_is_rejected() {
        let check = |change: fn(&mut TokenRequest), expected: &str| {
            let mut request = TokenRequest::default();
            change(&mut request);
            let error = super::check(&request).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        check(|request| request.usages.push("x".into()), "invalid usage \"x\"");
        for group in ["system:masters", "system:bootstrappers:", "system:bootstrappers:A"] {
            let request = TokenRequest { groups: vec![group.into()], ..TokenRequest::default() };
            assert!(matches!(super::check(&request), Err(TokenError::Group { .. })), "{group}");
        }
        check(|request| request.usage_limit = Some(0), "invalid usage limit 0");
        check(
            |request| {
                request.usages = vec!["signing".into()];
                request.groups = vec!["system:bootstrappers:a".into()];
            },
            "need the usage authentication",
        );
    }
}
