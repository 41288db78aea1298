//! Authentication: every authenticator, and attacks on each of them, through the whole service and over TLS where that
//! matters.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod account_tokens;
mod anonymous;
mod bootstrap_tokens;
mod certificates;
mod clusters;
mod discovery;
mod forgery;
mod secrets;
mod site;
mod smuggling;
mod static_tokens;
mod token_request;
mod wire;
