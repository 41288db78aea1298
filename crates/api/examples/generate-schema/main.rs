//! Writes `data/schema.txt` from the source tree of a Kubernetes release:
//!
//! ```sh
//! cargo run -p coracle-api --example generate-schema -- PATH/TO/kubernetes crates/api/data
//! ```
//!
//! Three sources are joined. The published OpenAPI v3 documents contain the fields of each kind and the merge
//! attributes of its lists; the tags of the Go types contain what the documents lack: protobuf field numbers, and
//! which empty fields are written; the tables for servers contain the enumerated values of strings. Run it for each
//! new Kubernetes release, and review the diff.

mod enums;
mod go;
mod openapi;
mod types;

use std::error::Error;
use std::fs;
use std::path::Path;

use crate::enums::Enums;
use crate::go::Packages;
use crate::openapi::Definitions;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(source), Some(target)) = (arguments.next(), arguments.next()) else {
        return Err("give the path of a Kubernetes source tree and the directory to write to".into());
    };
    let (source, target) = (Path::new(&source), Path::new(&target));
    let mut definitions = Definitions::load(&source.join("api/openapi-spec/v3"))?;
    definitions.add_types_without_path();
    let mut packages = Packages::new(source.join("staging/src/k8s.io"));
    let enums = Enums::load(source)?;
    fs::write(target.join("schema.txt"), types::write(&definitions, &mut packages, &enums)?)?;
    Ok(())
}
