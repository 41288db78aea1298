//! Connections after their last HTTP response: WebSockets whose messages are the body of that response.

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::{Request, Response, Version};
use http_body_util::BodyExt;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use super::activity::Running;
use crate::body::{ResponseBody, full};
use crate::flow::Unread;
use crate::websocket::{CloseCode, MessageType, Socket, Upgradable, Upgrade};

/// Time for a client to answer the close frame of a WebSocket. Then the connection is closed; the client has received
/// every event that was sent before.
const CLOSE_GRACE: Duration = Duration::from_secs(2);

/// Removes hyper's [`OnUpgrade`] from an HTTP/1.1 request, and marks the request as upgradable.
pub(super) fn prepare<B>(request: &mut Request<B>) -> Option<OnUpgrade> {
    let upgrade = request.extensions_mut().remove::<OnUpgrade>()?;
    if request.version() != Version::HTTP_11 {
        return None;
    }
    request.extensions_mut().insert(Upgradable);
    Some(upgrade)
}

/// Holds the upgrade of a connection. HTTP/1.1 has one request at a time, and an upgrade is the last one.
#[derive(Clone, Default)]
pub(super) struct Slot(Arc<Mutex<Option<Upgraded>>>);

impl Slot {
    /// Stores the body of a response that upgrades the connection, and returns the response with an empty body.
    pub(super) fn keep(
        &self,
        upgrade: OnUpgrade,
        response: Response<ResponseBody>,
        unread: Arc<Unread>,
        running: Running,
    ) -> Response<ResponseBody> {
        let Some(Upgrade { messages }) = response.extensions().get().copied() else { return response };
        let (parts, body) = response.into_parts();
        let upgraded = Upgraded { upgrade, body, messages, unread, _running: running };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(upgraded);
        Response::from_parts(parts, full(""))
    }

    pub(super) fn take(&self) -> Option<Upgraded> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// A connection after its upgrade.
pub(super) struct Upgraded {
    upgrade: OnUpgrade,
    body: ResponseBody,
    messages: MessageType,
    unread: Arc<Unread>,
    _running: Running,
}

impl Upgraded {
    /// Sends the body as messages until the body ends or the client disconnects. At shutdown it sends a close frame.
    pub(super) async fn serve(self, shutdown: &CancellationToken) {
        let Ok(io) = self.upgrade.await else { return };
        let mut socket = Socket::new(TokioIo::new(io), self.messages).await;
        let code = send_all(&mut socket, self.body, &self.unread).await;
        self.unread.release_turn();
        let code = match code {
            Some(CloseCode::Normal) if shutdown.is_cancelled() => CloseCode::Away,
            Some(code) => code,
            None => return,
        };
        // Dropped when the client does not answer.
        let closed = tokio::time::timeout(CLOSE_GRACE, socket.close(code)).await;
        if let Ok(Err(error)) = closed {
            tracing::debug!(%error, "WebSocket ended");
        }
    }
}

/// Sends messages until the body ends. Returns the close code, or none if the client has disconnected.
async fn send_all<S>(
    socket: &mut Socket<S>,
    mut body: ResponseBody,
    unread: &Arc<Unread>,
) -> Option<CloseCode>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    loop {
        let frame = tokio::select! {
            // Safe to drop: the body loses no frame.
            frame = body.frame() => frame,
            // Safe to drop: the socket loses no message.
            received = socket.receive() => match received {
                // A watch takes no messages; kube-apiserver ignores them, too.
                Some(Ok(_)) => continue,
                Some(Err(tokio_tungstenite::tungstenite::Error::Capacity(_))) => return Some(CloseCode::Size),
                Some(Err(_)) | None => return None,
            },
        };
        let Some(frame) = frame else { return Some(CloseCode::Normal) };
        let frame = frame.unwrap_or_else(|never| match never {});
        let Ok(message) = frame.into_data() else { continue };
        let charge = unread.charge(message.len());
        let sent = pin!(socket.send(message, || charge.note_progress()));
        if sent.await.is_err() {
            return None;
        }
    }
}
