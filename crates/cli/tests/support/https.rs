//! An HTTPS client that only uses the files in a cluster's data directory.

use std::io;
use std::path::Path;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::server::Server;
use crate::tls_config::client_config;

/// Trusted CA, expected name and client certificate.
pub(crate) struct Client<'a> {
    /// Data directory of the cluster whose CA is trusted.
    pub(crate) trusts: &'a Path,
    /// Expected name of the server.
    pub(crate) expects: &'a str,
    /// Client certificate and private key in PEM.
    pub(crate) shows: Option<(String, String)>,
}

impl Client<'_> {
    /// Sends a GET; returns the whole response, status line first.
    pub(crate) async fn get(&self, server: &Server, path: &str) -> io::Result<String> {
        self.get_with(server, path, "").await
    }

    /// Sends a GET with additional header lines.
    pub(crate) async fn get_with(&self, server: &Server, path: &str, lines: &str) -> io::Result<String> {
        let name = ServerName::try_from(self.expects.to_owned()).expect("a name");
        let config = client_config(self.trusts, self.shows.as_ref());
        let stream = TcpStream::connect(server.url.trim_start_matches("https://")).await?;
        let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
        let host = self.expects;
        let request = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{lines}\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    }
}

/// Body of a successful response.
pub(crate) fn body(answer: io::Result<String>) -> String {
    let answer = answer.expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    answer.split_once("\r\n\r\n").expect("a head and a body").1.to_owned()
}
