//! Kubeconfig files.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::leaf::Leaf;

/// The entries of a kubeconfig.
pub(super) struct Entries<'a> {
    /// The name of the cluster, with which the names of context and user end. Kubeconfigs of clusters with
    /// different names can be merged.
    pub(super) cluster: &'a str,
    pub(super) user: &'a str,
    pub(super) url: &'a str,
    /// The bundle of certificate authorities, in PEM.
    pub(super) ca: &'a str,
    pub(super) credential: &'a Leaf,
}

/// A kubeconfig with one cluster, one user and one context.
pub(super) fn text(entries: &Entries<'_>) -> String {
    let Entries { url, credential, .. } = entries;
    let pems = [entries.ca, &credential.certificate, credential.key.expose()];
    let [ca, certificate, key] = pems.map(|pem| STANDARD.encode(pem));
    let cluster = scalar(entries.cluster);
    let user = scalar(&format!("{}@{}", entries.user, entries.cluster));
    format!(
        "\
apiVersion: v1
kind: Config
clusters:
- name: {cluster}
  cluster:
    server: {url}
    certificate-authority-data: {ca}
users:
- name: {user}
  user:
    client-certificate-data: {certificate}
    client-key-data: {key}
contexts:
- name: {user}
  context:
    cluster: {cluster}
    user: {user}
current-context: {user}
"
    )
}

/// The server URL in a kubeconfig.
pub(super) fn server(text: &str) -> Option<&str> {
    text.lines().find_map(|line| line.trim_start().strip_prefix("server: ")).map(str::trim)
}

/// The cluster name in a kubeconfig.
pub(super) fn cluster(text: &str) -> Option<&str> {
    let clusters = text.lines().skip_while(|line| *line != "clusters:");
    let name = clusters.skip(1).find_map(|line| line.strip_prefix("- name: "))?;
    Some(name.trim_matches('"'))
}

/// A YAML scalar, quoted if needed.
fn scalar(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let starts_well = text.starts_with(|c: char| c.is_ascii_alphabetic());
    if starts_well && text.chars().all(|c| plain(c) || c == '@') && !is_word(text) {
        return text.to_owned();
    }
    let mut quoted = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// Words that YAML parses as booleans or null.
fn is_word(text: &str) -> bool {
    ["true", "false", "null", "yes", "no", "on", "off", "y", "n"]
        .iter()
        .any(|word| text.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_where_yaml_would_misread_them() {
        for (name, expected) in [
            ("jane", "jane"),
            ("jane@x.example", "jane@x.example"),
            ("system:node:a", "\"system:node:a\""),
            ("a\"b\\c", r#""a\"b\\c""#),
            ("no", "\"no\""),
            ("1", "\"1\""),
            ("a\nb", "\"a\\u000ab\""),
        ] {
            assert_eq!(scalar(name), expected);
        }
    }

    #[test]
    fn server_and_cluster_are_read_from_a_kubeconfig() {
        assert_eq!(server("clusters:\n- cluster:\n    server: https://a:1\n"), Some("https://a:1"));
        assert_eq!(server(""), None);
        assert_eq!(cluster("kind: Config\nclusters:\n- name: dev\n  cluster: {}\n- name: b\n"), Some("dev"));
        assert_eq!(cluster("clusters:\n- name: \"9\"\n"), Some("9"));
        assert_eq!(cluster("users:\n- name: a\n"), None);
    }
}
