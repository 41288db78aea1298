//! Connections of the administrator that stay open, over HTTP/1.1 or HTTP/2.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use coracle_base::Task;
use http::{Method, Request, Response, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::server::Server;
use crate::tls_config::client_config;

/// The versions of HTTP that a client may choose, by their names in ALPN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http1,
    Http2,
}

/// One connection as the administrator. Ends when it is dropped.
pub(crate) struct Connection {
    sender: Sender,
    _running: Task<hyper::Result<()>>,
}

enum Sender {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

impl Connection {
    pub(crate) async fn open(server: &Server, data_dir: &Path, protocol: Protocol) -> Self {
        let stream = TokioIo::new(handshake(server, data_dir, protocol).await);
        match protocol {
            Protocol::Http1 => {
                let (sender, connection) = http1::handshake(stream).await.expect("a connection");
                Self { sender: Sender::Http1(sender), _running: Task::spawn("connection", connection) }
            }
            Protocol::Http2 => {
                let executor = TokioExecutor::new();
                let (sender, connection) = http2::handshake(executor, stream).await.expect("a connection");
                Self { sender: Sender::Http2(sender), _running: Task::spawn("connection", connection) }
            }
        }
    }

    pub(crate) async fn send(
        &mut self,
        method: Method,
        path: &str,
        body: &Value,
    ) -> hyper::Result<Response<Incoming>> {
        let bytes = if body.is_null() { Bytes::new() } else { body.to_string().into() };
        let request = Request::builder()
            .method(method)
            .uri(format!("https://localhost{path}"))
            .header(header::HOST, "localhost")
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(bytes))
            .expect("a request");
        match &mut self.sender {
            Sender::Http1(sender) => {
                sender.ready().await?;
                sender.send_request(request).await
            }
            Sender::Http2(sender) => {
                sender.ready().await?;
                sender.send_request(request).await
            }
        }
    }

    /// The code and the object of an answer.
    pub(crate) async fn json(
        &mut self,
        method: Method,
        path: &str,
        body: &Value,
    ) -> hyper::Result<(u16, Value)> {
        let response = self.send(method, path, body).await?;
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await?.to_bytes();
        Ok((code, serde_json::from_slice(&bytes).unwrap_or_default()))
    }
}

async fn handshake(server: &Server, data_dir: &Path, protocol: Protocol) -> TlsStream<TcpStream> {
    let read =
        |name: &str| fs::read_to_string(data_dir.join("pki").join(name)).expect("a file of the server");
    let shows = (read("admin.crt"), read("admin.key"));
    let mut config = client_config(data_dir, Some(&shows));
    config.alpn_protocols = match protocol {
        Protocol::Http1 => vec![b"http/1.1".to_vec()],
        Protocol::Http2 => vec![b"h2".to_vec()],
    };
    let name = ServerName::try_from("localhost").expect("a name");
    let stream = TcpStream::connect(server.url.trim_start_matches("https://")).await.expect("a connection");
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.expect("a handshake")
}
