//! The life of `coracle up` as a process: how it stops, what it says of a failing store, what it exits with.

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
