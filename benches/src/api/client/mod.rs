//! A lightweight HTTP client, because it shares the machine with the server under test.
//!
//! HTTP/1.1 over TLS, one request at a time per connection, one task per connection. Requests and responses use two
//! buffers that are reused; response bytes are counted, not parsed.

mod body;

use std::io::Write;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use http::{Request, StatusCode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::kubeconfig::{Credential, Kubeconfig};
pub(crate) use body::Body;

/// Maximum bytes of an error response in messages.
const SHOWN_BYTES: usize = 400;

/// Maximum bytes per read: four TLS records.
const BUFFER_BYTES: usize = 64 * 1024;

/// Maximum number of response headers; no server sends as many.
const MAX_HEADERS: usize = 64;

/// A request of the benchmark.
pub(crate) type Outgoing = Request<Bytes>;

/// Opens connections to one server.
pub(crate) struct Connector {
    /// Host and port of the URL.
    authority: String,
    name: ServerName<'static>,
    tls: TlsConnector,
    /// Encoded headers that all requests have.
    headers: Arc<[u8]>,
}

impl Connector {
    pub(crate) fn new(config: &Kubeconfig) -> Result<Self> {
        let Some(authority) = config.server.strip_prefix("https://") else {
            bail!("{} is not an https URL", config.server);
        };
        let authority = authority.trim_end_matches('/');
        let uri: http::uri::Authority = authority.parse().with_context(|| config.server.clone())?;
        let name = config.tls_server_name.as_deref().unwrap_or(uri.host()).to_owned();
        let mut headers = format!("host: {authority}\r\n");
        if let Credential::Token(token) = &config.credential {
            headers += &format!("authorization: Bearer {token}\r\n");
        }
        Ok(Self {
            authority: format!("{}:{}", uri.host(), uri.port_u16().unwrap_or(443)),
            name: ServerName::try_from(name)?,
            tls: TlsConnector::from(Arc::new(tls_config(config)?)),
            headers: headers.into_bytes().into(),
        })
    }

    pub(crate) async fn connect(&self) -> Result<Connection> {
        let stream = TcpStream::connect(&self.authority).await?;
        stream.set_nodelay(true)?;
        let stream = self.tls.connect(self.name.clone(), stream).await?;
        let input = Input { bytes: vec![0; BUFFER_BYTES].into(), start: 0, end: 0 };
        Ok(Connection { stream, headers: Arc::clone(&self.headers), output: Vec::new(), input })
    }
}

fn tls_config(config: &Kubeconfig) -> Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&config.certificate_authority) {
        roots.add(certificate?)?;
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots);
    Ok(match &config.credential {
        Credential::Token(_) => builder.with_no_client_auth(),
        Credential::Certificate { certificate, key } => {
            let chain = CertificateDer::pem_slice_iter(certificate).collect::<Result<Vec<_>, _>>()?;
            builder.with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(key)?)?
        }
    })
}

/// A connection, used by one task.
pub(crate) struct Connection {
    stream: TlsStream<TcpStream>,
    headers: Arc<[u8]>,
    output: Vec<u8>,
    input: Input,
}

/// Received bytes that are not processed yet.
struct Input {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Input {
    fn unread(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Free space behind the unread bytes.
    fn room(&mut self) -> &mut [u8] {
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        &mut self.bytes[self.end..]
    }
}

impl Connection {
    /// Sends a request that must succeed; returns the number of bytes of the response body.
    pub(crate) async fn count(&mut self, request: Outgoing) -> Result<u64> {
        let mut body = self.open(request).await?;
        let mut bytes = 0;
        while let Some(chunk) = self.chunk(&mut body).await? {
            bytes += chunk.len() as u64;
        }
        Ok(bytes)
    }

    /// Sends a request that must succeed; returns the response body.
    pub(crate) async fn fetch(&mut self, request: Outgoing) -> Result<Vec<u8>> {
        let mut body = self.open(request).await?;
        self.rest(&mut body).await
    }

    /// Sends a request that must succeed; the response body is read later.
    pub(crate) async fn open(&mut self, request: Outgoing) -> Result<Body> {
        self.send(&request).await?;
        let (status, mut body) = self.head().await?;
        if status.is_success() {
            return Ok(body);
        }
        let text = self.rest(&mut body).await?;
        bail!("{status}: {}", String::from_utf8_lossy(&text[..text.len().min(SHOWN_BYTES)]))
    }

    /// The next piece of a response body; none at its end.
    pub(crate) async fn chunk(&mut self, body: &mut Body) -> Result<Option<&[u8]>> {
        loop {
            if body.is_over() {
                return Ok(None);
            }
            let taken = body.take(self.input.unread())?;
            let from = self.input.start + taken.skipped;
            self.input.start = from + taken.data;
            if taken.data > 0 {
                return Ok(Some(&self.input.bytes[from..from + taken.data]));
            }
            if !body.is_over() && !self.receive().await? {
                body.ended()?;
            }
        }
    }

    async fn rest(&mut self, body: &mut Body) -> Result<Vec<u8>> {
        let mut all = Vec::new();
        while let Some(chunk) = self.chunk(body).await? {
            all.extend_from_slice(chunk);
        }
        Ok(all)
    }

    /// Sends a request without reading the response.
    pub(crate) async fn send(&mut self, request: &Outgoing) -> Result<()> {
        self.send_announcing(request, request.body().len()).await
    }

    /// Sends a request with the given content length, which may exceed the body that is sent.
    pub(crate) async fn send_announcing(&mut self, request: &Outgoing, length: usize) -> Result<()> {
        let Self { output, headers, .. } = self;
        output.clear();
        write!(output, "{} {} HTTP/1.1\r\n", request.method(), request.uri())?;
        output.extend_from_slice(headers);
        for (name, value) in request.headers() {
            output.extend_from_slice(name.as_str().as_bytes());
            output.extend_from_slice(b": ");
            output.extend_from_slice(value.as_bytes());
            output.extend_from_slice(b"\r\n");
        }
        if length > 0 {
            write!(output, "content-length: {length}\r\n")?;
        }
        output.extend_from_slice(b"\r\n");
        output.extend_from_slice(request.body());
        self.stream.write_all(&self.output).await?;
        Ok(self.stream.flush().await?)
    }

    /// Reads the head of a response.
    async fn head(&mut self) -> Result<(StatusCode, Body)> {
        loop {
            let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
            let mut head = httparse::Response::new(&mut headers);
            if let httparse::Status::Complete(length) = head.parse(self.input.unread())? {
                let status = StatusCode::from_u16(head.code.context("a response has no status code")?)?;
                let body = Body::of(status, head.headers)?;
                self.input.start += length;
                return Ok((status, body));
            }
            ensure!(self.receive().await?, "the server closed the connection");
        }
    }

    /// Reads more bytes; returns false if the connection has ended.
    async fn receive(&mut self) -> Result<bool> {
        let Self { stream, input, .. } = self;
        let room = input.room();
        ensure!(!room.is_empty(), "a response head is too long");
        let received = stream.read(room).await?;
        input.end += received;
        Ok(received > 0)
    }
}
