//! Reads server, CA and credential from a kubeconfig.
//!
//! Only client certificates and plain tokens are supported, no exec credential plugins.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use coracle_api::codec::{Target, yaml};
use serde_json::Value;

/// One context of a kubeconfig with its cluster and user. Certificates and keys are PEM.
pub(crate) struct Kubeconfig {
    /// Such as `https://127.0.0.1:6443`.
    pub(crate) server: String,
    /// Expected name in the server's certificate, if it differs from the host in the URL.
    pub(crate) tls_server_name: Option<String>,
    pub(crate) certificate_authority: Vec<u8>,
    pub(crate) credential: Credential,
}

/// The credential of the client.
pub(crate) enum Credential {
    Certificate { certificate: Vec<u8>, key: Vec<u8> },
    Token(String),
}

impl Kubeconfig {
    /// Reads one context of a file, by default the current one.
    pub(crate) fn read(path: &Path, context: Option<&str>) -> Result<Self> {
        let text = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
        Self::parse(&text, path, context).with_context(|| format!("in {}", path.display()))
    }

    fn parse(text: &[u8], path: &Path, context: Option<&str>) -> Result<Self> {
        let config = yaml::decode(text, Target::Any)?.object;
        let context = match context.or_else(|| config["current-context"].as_str()) {
            Some(name) if !name.is_empty() => named(&config, "contexts", name, "context")?,
            _ => bail!("no current context; choose one with --context"),
        };
        let part = |list, key: &str| {
            let name = context[key].as_str().with_context(|| format!("the context has no {key}"))?;
            named(&config, list, name, key)
        };
        let (cluster, user) = (part("clusters", "cluster")?, part("users", "user")?);
        let files = Files { beside: path.parent().unwrap_or(Path::new(".")) };
        let ca = files.bytes(cluster, "certificate-authority")?;
        Ok(Self {
            server: cluster["server"].as_str().context("the cluster has no server")?.to_owned(),
            tls_server_name: cluster["tls-server-name"].as_str().map(str::to_owned),
            certificate_authority: ca.context("the cluster has no certificate-authority")?,
            credential: credential(user, &files)?,
        })
    }
}

fn credential(user: &Value, files: &Files<'_>) -> Result<Credential> {
    let certificate = files.bytes(user, "client-certificate")?;
    let key = files.bytes(user, "client-key")?;
    if let (Some(certificate), Some(key)) = (certificate, key) {
        return Ok(Credential::Certificate { certificate, key });
    }
    if let Some(token) = user["token"].as_str() {
        return Ok(Credential::Token(token.to_owned()));
    }
    if let Some(path) = user["tokenFile"].as_str() {
        let token = files.read(path)?;
        return Ok(Credential::Token(String::from_utf8(token)?.trim().to_owned()));
    }
    bail!("the user has neither a client certificate nor a token")
}

/// The entry with that name in a list of `{name, <field>}`.
fn named<'a>(config: &'a Value, list: &str, name: &str, field: &str) -> Result<&'a Value> {
    let entries = config[list].as_array().map(Vec::as_slice).unwrap_or_default();
    let entry = entries.iter().find(|entry| entry["name"] == name);
    Ok(&entry.with_context(|| format!("no {name:?} in {list}"))?[field])
}

/// Resolves file names relative to the kubeconfig, as kubectl does.
struct Files<'a> {
    beside: &'a Path,
}

impl Files<'_> {
    /// The decoded `<key>-data`, or the content of the file `<key>`.
    fn bytes(&self, entry: &Value, key: &str) -> Result<Option<Vec<u8>>> {
        if let Some(data) = entry[format!("{key}-data")].as_str() {
            return Ok(Some(STANDARD.decode(data).with_context(|| format!("{key}-data"))?));
        }
        entry[key].as_str().map(|path| self.read(path)).transpose()
    }

    fn read(&self, path: &str) -> Result<Vec<u8>> {
        let path: PathBuf = self.beside.join(path);
        std::fs::read(&path).with_context(|| format!("reading {}", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
apiVersion: v1
kind: Config
clusters:
- name: one
  cluster: {server: 'https://127.0.0.1:1', certificate-authority-data: Y2E=, tls-server-name: api}
users:
- name: certified
  user: {client-certificate-data: Y2VydA==, client-key-data: a2V5}
- name: bearer
  user: {token: secret}
- name: nobody
  user: {}
contexts:
- {name: a, context: {cluster: one, user: certified}}
- {name: b, context: {cluster: one, user: bearer}}
- {name: c, context: {cluster: one, user: nobody}}
- {name: d, context: {cluster: two, user: nobody}}
current-context: a
";

    fn parse(context: Option<&str>) -> Result<Kubeconfig> {
        Kubeconfig::parse(TEXT.as_bytes(), Path::new("config"), context)
    }

    #[test]
    fn current_context_is_the_default() {
        let config = parse(None).unwrap();
        assert_eq!(config.server, "https://127.0.0.1:1");
        assert_eq!(config.tls_server_name.as_deref(), Some("api"));
        assert_eq!(config.certificate_authority, b"ca");
        let Credential::Certificate { certificate, key } = config.credential else { panic!("a certificate") };
        assert_eq!((certificate.as_slice(), key.as_slice()), (&b"cert"[..], &b"key"[..]));
    }

    #[test]
    fn named_context_selects_its_user() {
        let Credential::Token(token) = parse(Some("b")).unwrap().credential else { panic!("a token") };
        assert_eq!(token, "secret");
    }

    #[test]
    fn error_names_the_missing_entry() {
        for (context, word) in [("c", "token"), ("d", "two"), ("e", "contexts")] {
            let error = parse(Some(context)).err().unwrap().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
