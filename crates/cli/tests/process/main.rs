//! `coracle up` as a process: shutdown, a failing store, exit codes.

#[path = "../support/connection.rs"]
mod connection;
#[path = "../support/dir.rs"]
mod dir;
#[path = "../support/server.rs"]
mod server;
mod shutdown;
mod store_failure;
#[path = "../support/tls_config.rs"]
mod tls_config;
