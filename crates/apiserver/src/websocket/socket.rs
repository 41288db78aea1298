//! One end of an open WebSocket.
//!
//! tungstenite reads frames, answers pings, and closes. This module writes messages directly from their buffers:
//! tungstenite would copy each message into a buffer that never shrinks, and a watch that has sent one large object
//! would hold as much memory until it ends.

use std::io;

use bytes::{Buf, Bytes};
use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::FrameHeader;
pub(crate) use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

use super::MessageType;

/// Bytes that are read at once. Clients of a watch send control frames only, of at most 125 bytes; the buffer is
/// allocated for every socket.
const READ_BUFFER_BYTES: usize = 1024;

/// The largest message that is received. A client that sends a larger one is disconnected with code 1009.
const MAX_RECEIVED_BYTES: usize = 64 * 1024;

/// An open WebSocket.
pub(crate) struct Socket<S> {
    stream: WebSocketStream<S>,
    header: FrameHeader,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Socket<S> {
    /// A socket over a connection whose handshake is done.
    pub(crate) async fn new(io: S, messages: MessageType) -> Self {
        let config = WebSocketConfig::default()
            .read_buffer_size(READ_BUFFER_BYTES)
            .write_buffer_size(0)
            .max_message_size(Some(MAX_RECEIVED_BYTES))
            .max_frame_size(Some(MAX_RECEIVED_BYTES));
        let stream = WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await;
        let data = match messages {
            MessageType::Text => Data::Text,
            MessageType::Binary => Data::Binary,
        };
        Self { stream, header: FrameHeader { opcode: OpCode::Data(data), ..FrameHeader::default() } }
    }

    /// Sends a message in one frame. `written` is called whenever the connection has accepted some bytes. Not safe to
    /// drop: the connection is unusable after half a frame.
    pub(crate) async fn send(&mut self, message: Bytes, written: impl Fn()) -> Result<(), Error> {
        // Control frames of tungstenite are sent first and completely.
        self.stream.flush().await?;
        let mut header = Vec::with_capacity(self.header.len(message.len() as u64));
        self.header.format(message.len() as u64, &mut header)?;
        let mut frame = Bytes::from(header).chain(message);
        let io = self.stream.get_mut();
        while frame.has_remaining() {
            if io.write_buf(&mut frame).await? == 0 {
                return Err(io::Error::from(io::ErrorKind::WriteZero).into());
            }
            written();
        }
        Ok(io.flush().await?)
    }

    /// Receives the next message of the client, and answers pings. Returns none after the client has closed the socket
    /// or disconnected. Safe to drop.
    pub(crate) async fn receive(&mut self) -> Option<Result<Message, Error>> {
        self.stream.next().await
    }

    /// Sends a close frame, and returns when the client has closed the socket too. Drop the socket to close it at once.
    pub(crate) async fn close(&mut self, code: CloseCode) -> Result<(), Error> {
        self.stream.close(Some(CloseFrame { code, reason: "".into() })).await?;
        while let Some(received) = self.receive().await {
            received?;
        }
        Ok(self.stream.get_mut().shutdown().await?)
    }
}
