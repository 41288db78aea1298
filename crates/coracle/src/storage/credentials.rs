//! Files with what etcd asks for, read when the store is opened.

use std::path::Path;

use coracle_store::etcd::{ClientIdentity, Options, Password, Tls};

use crate::config::{ClientCertificate, EtcdConfig, EtcdTls, EtcdUser};
use crate::error::StorageError;

/// The settings with the contents of the files they name.
pub(super) async fn etcd_options(etcd: &EtcdConfig) -> Result<Options, StorageError> {
    let mut options = Options::new(&etcd.endpoints);
    if let Some(tls) = &etcd.tls {
        options.tls = Some(read_tls(tls).await?);
    }
    if let Some(EtcdUser { name, password_file }) = &etcd.user {
        options.auth = Some((name.clone(), read_password(password_file).await?));
    }
    Ok(options)
}

async fn read_tls(tls: &EtcdTls) -> Result<Tls, StorageError> {
    let identity = match &tls.client_certificate {
        Some(ClientCertificate { cert_file, key_file }) => {
            Some(ClientIdentity { cert_pem: read(cert_file).await?, key_pem: read(key_file).await? })
        }
        None => None,
    };
    Ok(Tls { ca_pem: read(&tls.ca_file).await?, identity, domain: None })
}

async fn read_password(file: &Path) -> Result<Password, StorageError> {
    let text = tokio::fs::read_to_string(file).await.map_err(|source| unreadable(file, source))?;
    // Editors end every file with a newline; no password does.
    Ok(Password::new(text.trim_end_matches(['\r', '\n'])))
}

async fn read(file: &Path) -> Result<Vec<u8>, StorageError> {
    tokio::fs::read(file).await.map_err(|source| unreadable(file, source))
}

fn unreadable(path: &Path, source: std::io::Error) -> StorageError {
    StorageError::Credentials { path: path.to_owned(), source }
}
