//! Persistent connections of the administrator, over HTTP/1.1 or HTTP/2. Failures are returned, because tests kill or
//! stop the server meanwhile.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use coracle_base::Task;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::tls_config::client_config;

/// Longer than a server needs to respond while its etcd starts. After that the outcome is unknown.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);

/// Address of a server, and the CA and client certificate for it.
#[derive(Clone)]
pub(crate) struct Target {
    address: String,
    tls: Arc<ClientConfig>,
}

impl Target {
    /// The server at `url`, whose certificates are in `data_dir`.
    pub(crate) fn new(url: &str, data_dir: &Path) -> Result<Self> {
        let read = |name: &str| {
            let path = data_dir.join("pki").join(name);
            std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
        };
        let shows = (read("admin.crt")?, read("admin.key")?);
        let address = url.trim_start_matches("https://").to_owned();
        Ok(Self { address, tls: Arc::new(client_config(data_dir, Some(&shows))) })
    }
}

/// HTTP version of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Protocol {
    Http1,
    Http2,
}

impl Protocol {
    /// Alternates between the versions.
    pub(crate) fn of(number: usize) -> Self {
        if number.is_multiple_of(2) { Protocol::Http2 } else { Protocol::Http1 }
    }
}

/// An open connection.
pub(crate) struct Connection {
    sender: Sender,
    _running: Task<hyper::Result<()>>,
}

enum Sender {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

impl Connection {
    pub(crate) async fn open(target: &Target, protocol: Protocol) -> Result<Self> {
        timeout(ANSWER_LIMIT, Self::handshake(target, protocol)).await.context("no handshake in time")?
    }

    async fn handshake(target: &Target, protocol: Protocol) -> Result<Self> {
        let mut config = ClientConfig::clone(&target.tls);
        config.alpn_protocols = match protocol {
            Protocol::Http1 => vec![b"http/1.1".to_vec()],
            Protocol::Http2 => vec![b"h2".to_vec()],
        };
        let stream = TcpStream::connect(&target.address).await?;
        let name = ServerName::try_from("localhost")?;
        let stream = TokioIo::new(TlsConnector::from(Arc::new(config)).connect(name, stream).await?);
        Ok(match protocol {
            Protocol::Http1 => {
                let (sender, connection) = http1::handshake(stream).await?;
                Self { sender: Sender::Http1(sender), _running: Task::spawn("connection", connection) }
            }
            Protocol::Http2 => {
                let (sender, connection) = http2::handshake(TokioExecutor::new(), stream).await?;
                Self { sender: Sender::Http2(sender), _running: Task::spawn("connection", connection) }
            }
        })
    }

    /// Sends a request; returns the response head. The body may stream for long.
    pub(crate) async fn send(
        &mut self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Response<Incoming>> {
        let content_type =
            if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let bytes = body.map(|body| Bytes::from(body.to_string())).unwrap_or_default();
        let request = Request::builder()
            .method(method)
            .uri(format!("https://localhost{path}"))
            .header(header::HOST, "localhost")
            .header(header::CONTENT_TYPE, content_type)
            .body(Full::new(bytes))?;
        let sending = async {
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
        };
        Ok(timeout(ANSWER_LIMIT, sending).await.context("no answer in time")??)
    }

    /// Sends a request; returns the status code and the whole body.
    pub(crate) async fn json(
        &mut self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<(StatusCode, Value)> {
        let response = self.send(method, path, body).await?;
        let code = response.status();
        let collected = timeout(ANSWER_LIMIT, response.into_body().collect()).await;
        let bytes = collected.context("no body in time")??.to_bytes();
        // Responses of filters, such as 429, are not JSON.
        Ok((code, serde_json::from_slice(&bytes).unwrap_or_default()))
    }

    /// Body of a GET that must succeed.
    pub(crate) async fn get(&mut self, path: &str) -> Result<Value> {
        let (code, body) = self.json(Method::GET, path, None).await?;
        ensure!(code.is_success(), "GET {path}: {code}: {body}");
        if body.is_null() {
            bail!("GET {path}: no JSON");
        }
        Ok(body)
    }
}
