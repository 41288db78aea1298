//! WebSockets (RFC 6455) over HTTP/1.1 connections.
//!
//! [`Handshake`] reads the request and makes the response, which carries an [`Upgrade`]. The listener takes that, sends
//! the response, and hands the connection over to a [`Socket`]. The body of the response is not sent as HTTP: each of its
//! frames becomes one message. So a response over a WebSocket is limited and counted as any other.

mod handshake;
mod socket;

pub(crate) use handshake::{Handshake, is_requested};
pub(crate) use socket::{CloseCode, Socket};

/// Marks a request, in its extensions, whose connection can be handed over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Upgradable;

/// Marks a response, in its extensions, whose body goes out as messages of a WebSocket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Upgrade {
    pub(crate) messages: MessageType,
}

/// The type of the messages that are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessageType {
    Text,
    Binary,
}
