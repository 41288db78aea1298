//! Certificates for kube-apiserver, which does not create a CA itself.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

use anyhow::Result;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, SanType,
};

/// A directory with a CA, certificates of a server and an administrator, and keys for service account tokens.
pub(super) struct Pki(PathBuf);

/// Creates everything anew: no stored object depends on it.
pub(super) fn write(dir: &Path) -> Result<Pki> {
    fs::create_dir_all(dir)?;
    let pki = Pki(dir.to_owned());
    let authority_key = KeyPair::generate()?;
    let mut params = CertificateParams::default();
    params.distinguished_name = name("benchmark", None);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign];
    fs::write(pki.path("ca.crt"), params.self_signed(&authority_key)?.pem())?;
    let issuer = Issuer::new(params, authority_key);

    let mut server = CertificateParams::default();
    server.distinguished_name = name("kube-apiserver", None);
    server.subject_alt_names = vec![SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST))];
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    pki.issue("server", server, &issuer)?;

    let mut admin = CertificateParams::default();
    admin.distinguished_name = name("admin", Some("system:masters"));
    admin.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    pki.issue("admin", admin, &issuer)?;

    let tokens = KeyPair::generate()?;
    fs::write(pki.path("service-account.key"), tokens.serialize_pem())?;
    fs::write(pki.path("service-account.pub"), tokens.public_key_pem())?;
    Ok(pki)
}

impl Pki {
    pub(super) fn path(&self, file: &str) -> PathBuf {
        self.0.join(file)
    }

    /// Writes the administrator's kubeconfig.
    pub(super) fn write_kubeconfig(&self, url: &str) -> Result<PathBuf> {
        let path = self.path("admin.kubeconfig");
        let text = format!(
            "\
apiVersion: v1
kind: Config
clusters:
- name: benchmark
  cluster: {{server: '{url}', certificate-authority: ca.crt}}
users:
- name: admin
  user: {{client-certificate: admin.crt, client-key: admin.key}}
contexts:
- name: benchmark
  context: {{cluster: benchmark, user: admin}}
current-context: benchmark
"
        );
        fs::write(&path, text)?;
        Ok(path)
    }

    fn issue(&self, file: &str, mut params: CertificateParams, issuer: &Issuer<'_, KeyPair>) -> Result<()> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, issuer)?;
        fs::write(self.path(&format!("{file}.crt")), certificate.pem())?;
        fs::write(self.path(&format!("{file}.key")), key.serialize_pem())?;
        Ok(())
    }
}

fn name(common_name: &str, organization: Option<&str>) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    if let Some(organization) = organization {
        name.push(DnType::OrganizationName, organization);
    }
    name
}
