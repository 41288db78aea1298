//! A client that costs little, for it shares the machine with the server it measures.
//!
//! HTTP/1.1 over TLS, one request at a time on each connection, used by one task. Requests are written into one
//! buffer and answers read out of another, both kept for the next; what comes is counted, not parsed.

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

/// How much of a refusal is shown.
const SHOWN_BYTES: usize = 400;

/// What is read at once, at most: four records of TLS.
const BUFFER_BYTES: usize = 64 * 1024;

/// More headers than any server sends.
const MAX_HEADERS: usize = 64;

/// What may be sent.
pub(crate) type Outgoing = Request<Bytes>;

/// Makes connections to one server.
pub(crate) struct Connector {
    /// Host and port.
    authority: String,
    name: ServerName<'static>,
    tls: TlsConnector,
    /// The headers that all requests have, as they are sent.
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

/// One connection, used by one task.
pub(crate) struct Connection {
    stream: TlsStream<TcpStream>,
    headers: Arc<[u8]>,
    output: Vec<u8>,
    input: Input,
}

/// What has come and was not looked at yet.
struct Input {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Input {
    fn unread(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Where more may be put, behind what is unread.
    fn room(&mut self) -> &mut [u8] {
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        &mut self.bytes[self.end..]
    }
}

impl Connection {
    /// Sends a request that must succeed and returns how many bytes the answer has.
    pub(crate) async fn count(&mut self, request: Outgoing) -> Result<u64> {
        let mut body = self.open(request).await?;
        let mut bytes = 0;
        while let Some(chunk) = self.chunk(&mut body).await? {
            bytes += chunk.len() as u64;
        }
        Ok(bytes)
    }

    /// Sends a request that must succeed and returns the whole answer.
    pub(crate) async fn fetch(&mut self, request: Outgoing) -> Result<Vec<u8>> {
        let mut body = self.open(request).await?;
        self.rest(&mut body).await
    }

    /// Sends a request that must succeed, of which the answer is read later.
    pub(crate) async fn open(&mut self, request: Outgoing) -> Result<Body> {
        self.send(&request).await?;
        let (status, mut body) = self.head().await?;
        if status.is_success() {
            return Ok(body);
        }
        let text = self.rest(&mut body).await?;
        bail!("{status}: {}", String::from_utf8_lossy(&text[..text.len().min(SHOWN_BYTES)]))
    }

    /// The next piece of an answer; none at its end.
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

    /// Sends a request without reading the answer.
    pub(crate) async fn send(&mut self, request: &Outgoing) -> Result<()> {
        self.send_announcing(request, request.body().len()).await
    }

    /// Sends a request that announces a body of some length, which may be longer than the one that is sent.
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

    /// The beginning of an answer.
    async fn head(&mut self) -> Result<(StatusCode, Body)> {
        loop {
            let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
            let mut head = httparse::Response::new(&mut headers);
            if let httparse::Status::Complete(length) = head.parse(self.input.unread())? {
                let status = StatusCode::from_u16(head.code.context("an answer has no code")?)?;
                let body = Body::of(status, head.headers)?;
                self.input.start += length;
                return Ok((status, body));
            }
            ensure!(self.receive().await?, "the server closed the connection");
        }
    }

    /// Waits for more. Whether there is.
    async fn receive(&mut self) -> Result<bool> {
        let Self { stream, input, .. } = self;
        let room = input.room();
        ensure!(!room.is_empty(), "an answer begins with too much");
        let received = stream.read(room).await?;
        input.end += received;
        Ok(received > 0)
    }
}
