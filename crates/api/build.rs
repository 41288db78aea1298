//! Compresses the text under `data/`, which stays readable in the repository, for the binary.

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

/// Beyond this level the data shrinks by a few bytes and the build takes twice as long.
const COMPRESSION_LEVEL: u8 = 8;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=data");
    let out = out_dir()?;
    let types = fs::read_to_string("data/schema.txt")?;
    let compressed = miniz_oxide::deflate::compress_to_vec(types.as_bytes(), COMPRESSION_LEVEL);
    fs::write(out.join("schema.deflate"), compressed)?;
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "cargo tells a build script its directory no other way")]
fn out_dir() -> Result<PathBuf, Box<dyn Error>> {
    Ok(env::var_os("OUT_DIR").ok_or("cargo did not set OUT_DIR")?.into())
}
