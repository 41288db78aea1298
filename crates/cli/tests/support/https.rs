//! A client that knows nothing but the files a cluster leaves behind.

use std::io;
use std::path::Path;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::server::Server;

/// Whom a client trusts and who it is.
pub(crate) struct Client<'a> {
    /// The data directory of the cluster whose authority is trusted.
    pub(crate) trusts: &'a Path,
    /// The name the server is expected to have.
    pub(crate) expects: &'a str,
    /// A certificate and its private key in PEM.
    pub(crate) shows: Option<(String, String)>,
}

impl Client<'_> {
    /// The whole answer to a GET, status line first.
    pub(crate) async fn get(&self, server: &Server, path: &str) -> io::Result<String> {
        self.get_with(server, path, "").await
    }

    /// The same with more lines in the head of the request.
    pub(crate) async fn get_with(&self, server: &Server, path: &str, lines: &str) -> io::Result<String> {
        let name = ServerName::try_from(self.expects.to_owned()).expect("a name");
        let stream = TcpStream::connect(server.url.trim_start_matches("https://")).await?;
        let mut stream = TlsConnector::from(Arc::new(self.config())).connect(name, stream).await?;
        let host = self.expects;
        let request = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{lines}\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    }

    fn config(&self) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        let ca = CertificateDer::from_pem_file(self.trusts.join("pki/ca.crt")).expect("a certificate");
        roots.add(ca).expect("an authority");
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider has them")
            .with_root_certificates(roots);
        match &self.shows {
            None => config.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain =
                    vec![CertificateDer::from_pem_slice(certificate.as_bytes()).expect("a certificate")];
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("a key");
                config.with_client_auth_cert(chain, key).expect("a pair")
            }
        }
    }
}

/// The body of an answer that must be a success.
pub(crate) fn body(answer: io::Result<String>) -> String {
    let answer = answer.expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    answer.split_once("\r\n\r\n").expect("a head and a body").1.to_owned()
}
