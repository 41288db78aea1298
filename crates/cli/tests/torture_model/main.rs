//! Tests the pure parts of the torture test, which has its own harness and therefore no unit tests: the model detects
//! every kind of fault, shown by histories of faulty servers.

mod bodies;
mod histories;
#[path = "../torture/model/mod.rs"]
mod model;
#[path = "../torture/objects.rs"]
mod objects;
#[path = "../torture/plan.rs"]
mod plan;
mod plans;
