//! The pure parts of the torture test, which has a harness of its own and therefore no unit tests: its model finds every
//! kind of fault, shown by histories of faulty servers.

mod bodies;
mod histories;
#[path = "../torture/model/mod.rs"]
mod model;
#[path = "../torture/objects.rs"]
mod objects;
#[path = "../torture/plan.rs"]
mod plan;
mod plans;
