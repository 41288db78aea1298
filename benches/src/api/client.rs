//! A client that costs little, for it shares the machine with the server it measures.
//!
//! HTTP/1.1 over TLS, one request at a time on each connection, and each connection driven by the
//! task that uses it. Answers are counted, not parsed.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use http::header::{AUTHORIZATION, HOST};
use http::{HeaderValue, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::kubeconfig::{Credential, Kubeconfig};

/// How much of a refusal is shown.
const SHOWN_BYTES: usize = 400;

/// What may be sent.
pub(crate) type Outgoing = Request<Full<Bytes>>;

/// Makes connections to one server.
pub(crate) struct Connector {
    /// Host and port.
    authority: String,
    name: ServerName<'static>,
    tls: TlsConnector,
    host: HeaderValue,
    authorization: Option<HeaderValue>,
}

impl Connector {
    pub(crate) fn new(config: &Kubeconfig) -> Result<Self> {
        let Some(authority) = config.server.strip_prefix("https://") else {
            bail!("{} is not an https URL", config.server);
        };
        let authority = authority.trim_end_matches('/');
        let uri: http::uri::Authority = authority.parse().with_context(|| config.server.clone())?;
        let name = config.tls_server_name.as_deref().unwrap_or(uri.host()).to_owned();
        let authorization = match &config.credential {
            Credential::Token(token) => Some(HeaderValue::try_from(format!("Bearer {token}"))?),
            Credential::Certificate { .. } => None,
        };
        Ok(Self {
            authority: format!("{}:{}", uri.host(), uri.port_u16().unwrap_or(443)),
            name: ServerName::try_from(name)?,
            tls: TlsConnector::from(Arc::new(tls_config(config)?)),
            host: HeaderValue::try_from(authority)?,
            authorization,
        })
    }

    pub(crate) async fn connect(&self) -> Result<Connection> {
        let stream = TcpStream::connect(&self.authority).await?;
        stream.set_nodelay(true)?;
        let stream = self.tls.connect(self.name.clone(), stream).await?;
        let (sender, driver) = http1::handshake(TokioIo::new(stream)).await?;
        Ok(Connection {
            sender,
            driver: Box::pin(driver),
            is_closed: false,
            host: self.host.clone(),
            authorization: self.authorization.clone(),
        })
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

type Driver = http1::Connection<TokioIo<TlsStream<TcpStream>>, Full<Bytes>>;

/// One connection, used by one task.
pub(crate) struct Connection {
    sender: http1::SendRequest<Full<Bytes>>,
    driver: Pin<Box<Driver>>,
    /// The driver has ended and must not be asked again.
    is_closed: bool,
    host: HeaderValue,
    authorization: Option<HeaderValue>,
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
    pub(crate) async fn fetch(&mut self, request: Outgoing) -> Result<Bytes> {
        let body = self.open(request).await?;
        self.drive(body.collect()).await?.map(|whole| whole.to_bytes()).map_err(Into::into)
    }

    /// Sends a request that must succeed, of which the answer is read later.
    pub(crate) async fn open(&mut self, request: Outgoing) -> Result<Incoming> {
        let (status, body) = self.send(request).await.map(|answer| (answer.status(), answer.into_body()))?;
        if status.is_success() {
            return Ok(body);
        }
        let text = self.drive(body.collect()).await??.to_bytes();
        bail!("{status}: {}", String::from_utf8_lossy(&text[..text.len().min(SHOWN_BYTES)]))
    }

    /// The next piece of an answer; none at its end.
    pub(crate) async fn chunk(&mut self, body: &mut Incoming) -> Result<Option<Bytes>> {
        loop {
            match self.drive(body.frame()).await? {
                None => return Ok(None),
                Some(frame) => {
                    if let Ok(data) = frame?.into_data() {
                        return Ok(Some(data));
                    }
                }
            }
        }
    }

    async fn send(&mut self, mut request: Outgoing) -> Result<Response<Incoming>> {
        let headers = request.headers_mut();
        headers.insert(HOST, self.host.clone());
        if let Some(authorization) = &self.authorization {
            headers.insert(AUTHORIZATION, authorization.clone());
        }
        let answer = self.sender.send_request(request);
        Ok(drive(&mut self.driver, &mut self.is_closed, answer).await??)
    }

    async fn drive<F: Future>(&mut self, future: F) -> Result<F::Output> {
        drive(&mut self.driver, &mut self.is_closed, future).await
    }
}

/// Moves the connection on until `future`, which waits for it, is done.
async fn drive<F: Future>(
    driver: &mut Pin<Box<Driver>>,
    is_closed: &mut bool,
    future: F,
) -> Result<F::Output> {
    let mut future = pin!(future);
    poll_fn(|context| {
        if let Poll::Ready(value) = future.as_mut().poll(context) {
            return Poll::Ready(Ok(value));
        }
        if !*is_closed && driver.as_mut().poll(context).is_ready() {
            *is_closed = true;
        }
        match future.as_mut().poll(context) {
            Poll::Ready(value) => Poll::Ready(Ok(value)),
            Poll::Pending if *is_closed => {
                Poll::Ready(Err(anyhow::anyhow!("the server closed the connection")))
            }
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}
