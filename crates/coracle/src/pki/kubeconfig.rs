//! The file by which kubectl and its kin find the cluster and get in.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::authority::Authority;
use super::error::PkiError;
use super::files::{self, Access, Batch};
use super::leaf::Leaf;

/// Has the file of the administrator written, unless it is there already.
pub(super) fn write(
    path: &Path,
    url: &str,
    authority: &Authority,
    admin: &Leaf,
    batch: &mut Batch,
) -> Result<(), PkiError> {
    let text = text(url, authority.certificate(), &admin.certificate, admin.key.expose());
    if files::read(path)?.as_deref() != Some(text.as_str()) {
        batch.add(path.to_owned(), text, Access::Private);
    }
    Ok(())
}

/// Nothing in it needs quotes: a URL made from an address, and base64.
fn text(url: &str, ca: &str, certificate: &str, key: &str) -> String {
    let [ca, certificate, key] = [ca, certificate, key].map(|pem| STANDARD.encode(pem));
    format!(
        "\
apiVersion: v1
kind: Config
clusters:
- name: coracle
  cluster:
    server: {url}
    certificate-authority-data: {ca}
users:
- name: kubernetes-admin
  user:
    client-certificate-data: {certificate}
    client-key-data: {key}
contexts:
- name: kubernetes-admin@coracle
  context:
    cluster: coracle
    user: kubernetes-admin
current-context: kubernetes-admin@coracle
"
    )
}
