//! The file by which kubectl and its kin find the cluster and get in.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::leaf::Leaf;

/// What the cluster is called in it.
const CLUSTER: &str = "coracle";

/// The whole file: where the server is, by what it is recognized, and what its user shows.
pub(super) fn text(url: &str, ca: &str, user: &str, shown: &Leaf) -> String {
    let [ca, certificate, key] = [ca, &shown.certificate, shown.key.expose()].map(|pem| STANDARD.encode(pem));
    let (context, user) = (scalar(&format!("{user}@{CLUSTER}")), scalar(user));
    format!(
        "\
apiVersion: v1
kind: Config
clusters:
- name: {CLUSTER}
  cluster:
    server: {url}
    certificate-authority-data: {ca}
users:
- name: {user}
  user:
    client-certificate-data: {certificate}
    client-key-data: {key}
contexts:
- name: {context}
  context:
    cluster: {CLUSTER}
    user: {user}
current-context: {context}
"
    )
}

/// Where such a file says that the server is.
pub(super) fn server(text: &str) -> Option<&str> {
    text.lines().find_map(|line| line.trim_start().strip_prefix("server: ")).map(str::trim)
}

/// A text in YAML. In double quotes everything can be said that a name can hold.
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

/// What YAML takes for something else than text.
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
    fn the_server_is_found_again() {
        assert_eq!(server("clusters:\n- cluster:\n    server: https://a:1\n"), Some("https://a:1"));
        assert_eq!(server(""), None);
    }
}
