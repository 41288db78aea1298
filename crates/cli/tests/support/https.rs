//! A client that knows nothing but the files a cluster leaves behind.

use std::io;
use std::path::Path;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::server::Server;
use crate::tls_config::client_config;

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

/// The body of an answer that must be a success.
pub(crate) fn body(answer: io::Result<String>) -> String {
    let answer = answer.expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    answer.split_once("\r\n\r\n").expect("a head and a body").1.to_owned()
}
