//! Build script: compresses the data on the API that the binary embeds. These are the types, from the text under
//! `data/`, which stays readable in the repository, and their descriptions, from k8s-openapi.

mod descriptions;
mod kinds;

use std::error::Error;
use std::hash::{DefaultHasher, Hasher as _};
use std::path::{Path, PathBuf};
use std::{env, fs};

/// Higher levels save only a few bytes and double the build time.
const COMPRESSION_LEVEL: u8 = 8;

/// Sources of OpenAPI documents, besides the served resources.
const MADE_FROM: [&str; 3] = ["build", "data", "src/openapi"];

fn main() -> Result<(), Box<dyn Error>> {
    for source in MADE_FROM {
        println!("cargo::rerun-if-changed={source}");
    }
    let out = out_dir()?;
    let types = fs::read_to_string("data/schema.txt")?;
    write(&out.join("schema.deflate"), &types)?;
    let descriptions = descriptions::of_types(&types, &fs::read_to_string("data/descriptions.json")?)?;
    write(&out.join("descriptions.deflate"), &descriptions)?;
    println!("cargo::rustc-env=OPENAPI_REVISION={:016x}", revision(&descriptions)?);
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<(), Box<dyn Error>> {
    Ok(fs::write(path, miniz_oxide::deflate::compress_to_vec(text.as_bytes(), COMPRESSION_LEVEL))?)
}

/// A hash that changes when the same kinds give other documents.
fn revision(descriptions: &str) -> Result<u64, Box<dyn Error>> {
    let mut hasher = DefaultHasher::new();
    hasher.write(descriptions.as_bytes());
    for source in MADE_FROM {
        let mut paths: Vec<PathBuf> =
            fs::read_dir(source)?.map(|entry| Ok(entry?.path())).collect::<Result<_, std::io::Error>>()?;
        paths.sort();
        for path in paths.iter().filter(|path| path.is_file()) {
            hasher.write(&fs::read(path)?);
        }
    }
    Ok(hasher.finish())
}

#[expect(clippy::disallowed_methods, reason = "cargo tells a build script its directory no other way")]
fn out_dir() -> Result<PathBuf, Box<dyn Error>> {
    Ok(env::var_os("OUT_DIR").ok_or("cargo did not set OUT_DIR")?.into())
}
