//! kubectl against the real binary: every command that needs no running container, with a stock kubectl and without
//! `--validate=false`. Needs the path of a kubectl in `CORACLE_TEST_KUBECTL`, which `cargo xtask test` sets.

#[path = "kubectl/access.rs"]
mod access;
#[path = "kubectl/applying.rs"]
mod applying;
#[path = "kubectl/changing.rs"]
mod changing;
#[path = "kubectl/creating.rs"]
mod creating;
#[path = "kubectl/deleting.rs"]
mod deleting;
#[path = "support/dir.rs"]
mod dir;
#[path = "kubectl/discovering.rs"]
mod discovering;
#[path = "kubectl/plain_http.rs"]
mod plain_http;
#[path = "kubectl/reading.rs"]
mod reading;
#[path = "kubectl/rollouts.rs"]
mod rollouts;
#[path = "support/server.rs"]
mod server;
#[path = "kubectl/session.rs"]
mod session;
#[path = "kubectl/simulated.rs"]
mod simulated;
