//! Files with etcd credentials, read when the store is opened.

use std::io;
use std::path::Path;

use coracle_base::Task;
use coracle_store::etcd::{ClientIdentity, Options, Password, Tls};

use crate::config::{ClientCertificate, EtcdConfig, EtcdTls, EtcdUser};
use crate::error::StorageError;
use crate::trusted_files::{self, OpenError};

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
    let text = String::from_utf8(read(file).await?);
    let text =
        text.map_err(|_| unreadable(file, io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8")))?;
    // Editors end files with a newline; passwords do not end with one.
    Ok(Password::new(text.trim_end_matches(['\r', '\n'])))
}

async fn read(file: &Path) -> Result<Vec<u8>, StorageError> {
    let path = file.to_owned();
    let reading = Task::spawn_blocking("credentials", move || trusted_files::read_named(&path)).await;
    match reading.map_err(|error| unreadable(file, io::Error::other(error)))? {
        Ok(bytes) => Ok(bytes),
        Err(OpenError::Untrusted(untrusted)) => Err(untrusted.into()),
        Err(OpenError::Io(source)) => Err(unreadable(file, source)),
    }
}

fn unreadable(path: &Path, source: io::Error) -> StorageError {
    StorageError::Credentials { path: path.to_owned(), source }
}
