//! WebSockets (RFC 6455) over HTTP/1.1 connections.
//!
//! [`Handshake`] parses the request and builds the response, which carries an [`Upgrade`]. The listener removes it,
//! sends the response, and passes the connection to a [`Socket`]. The body of the response is not sent as HTTP: each of
//! its frames becomes one message. A response over a WebSocket is therefore limited and counted like any other.

mod handshake;
mod socket;

pub(crate) use handshake::{Handshake, is_requested};
pub(crate) use socket::{CloseCode, Socket};

/// Request extension: the connection can be upgraded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Upgradable;

/// Response extension: the body is sent as messages of a WebSocket.
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
