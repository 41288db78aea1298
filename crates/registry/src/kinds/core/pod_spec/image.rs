//! References to container images.

/// Maximum length of a repository name, as in the library with which kube-apiserver parses references.
const MAX_REPOSITORY_BYTES: usize = 255;

/// Default pull policy of an image: `Always` for the tag `latest`, which moves by convention.
pub(super) fn default_pull_policy(reference: &str) -> &'static str {
    if tag(reference) == Some("latest") { "Always" } else { "IfNotPresent" }
}

/// The tag of an image: `latest` if neither tag nor digest is given, `None` if only a digest is given or the
/// reference is malformed.
fn tag(reference: &str) -> Option<&str> {
    let (name, digest) = match reference.split_once('@') {
        Some((name, digest)) => (name, Some(digest)),
        None => (reference, None),
    };
    // A colon before a slash belongs to the port of the registry.
    let last = name.rfind('/').map_or(0, |slash| slash + 1);
    let (repository, tag) = match name[last..].split_once(':') {
        Some((base, tag)) => (&name[..last + base.len()], Some(tag)),
        None => (name, None),
    };
    if repository.len() > MAX_REPOSITORY_BYTES || is_image_id(reference) {
        return None;
    }
    if !is_repository(repository) || !tag.is_none_or(is_tag) || digest.is_some_and(|text| !is_digest(text)) {
        return None;
    }
    tag.or(if digest.is_some() { None } else { Some("latest") })
}

/// Returns true if a reference is an image ID, by which images cannot be pulled.
fn is_image_id(reference: &str) -> bool {
    reference.len() == 64 && reference.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Returns true if registries accept the form of a repository: an optional host, then path components in
/// lower case.
fn is_repository(repository: &str) -> bool {
    let path = match repository.split_once('/') {
        Some((host, path)) if is_host(host) => path,
        _ => repository,
    };
    path.split('/').all(is_path_part)
}

/// The first component is a host only if it cannot be a path component.
fn is_host(part: &str) -> bool {
    let looks_like = part == "localhost"
        || part.contains(['.', ':'])
        || part.bytes().any(|byte| byte.is_ascii_uppercase());
    let (name, port) = match part.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, Some(port)),
        _ => (part, None),
    };
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    looks_like && is_host_name(name) && port.is_none_or(is_port)
}

fn is_host_name(name: &str) -> bool {
    if let Some(address) = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return !address.is_empty() && address.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b':');
    }
    name.split('.').all(|label| {
        let bytes = label.as_bytes();
        bytes.first().is_some_and(u8::is_ascii_alphanumeric)
            && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
            && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
    })
}

/// Lower-case letters and digits, with separators between them: a dot, one or two underscores, or any number of dashes.
fn is_path_part(part: &str) -> bool {
    let is_separator = |byte: char| matches!(byte, '.' | '_' | '-');
    let words = part.split(is_separator).filter(|word| !word.is_empty());
    let separators = part.split(|byte: char| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    !part.is_empty()
        && !part.starts_with(is_separator)
        && !part.ends_with(is_separator)
        && words.flat_map(str::bytes).all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        && separators.filter(|separator| !separator.is_empty()).all(|separator| {
            matches!(separator, "." | "_" | "__") || separator.bytes().all(|byte| byte == b'-')
        })
}

fn is_tag(tag: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    (1..=128).contains(&tag.len())
        && tag.bytes().next().is_some_and(word)
        && tag.bytes().all(|byte| word(byte) || b".-".contains(&byte))
}

fn is_digest(digest: &str) -> bool {
    digest.split_once(':').is_some_and(|(algorithm, hex)| {
        !algorithm.is_empty() && hex.len() >= 32 && hex.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_tag_latest_defaults_to_always() {
        let digest = format!("nginx@sha256:{}", "0".repeat(64));
        let long = "a".repeat(256);
        for (reference, policy) in [
            ("nginx", "Always"),
            ("nginx:latest", "Always"),
            ("registry:5000/team/web", "Always"),
            ("localhost/web:latest", "Always"),
            ("nginx:1.27", "IfNotPresent"),
            ("registry:5000/team/web:v1", "IfNotPresent"),
            (digest.as_str(), "IfNotPresent"),
            ("Team/Web Site", "IfNotPresent"),
            ("../web", "IfNotPresent"),
            ("[::1]:5000/web", "Always"),
            ("", "IfNotPresent"),
            ("a..b", "IfNotPresent"),
            ("a._b", "IfNotPresent"),
            ("a___b", "IfNotPresent"),
            ("a--b__c.d", "Always"),
            ("b".repeat(64).as_str(), "IfNotPresent"),
            ("z".repeat(64).as_str(), "Always"),
            (long.as_str(), "IfNotPresent"),
        ] {
            assert_eq!(default_pull_policy(reference), policy, "{reference:?}");
        }
    }
}
