//! `cargo run --release -p coracle-fuzz -- [TARGET] [ROUNDS]`: searches for new outcomes, and stores the inputs that
//! lead to them.

use anyhow::{Context, Result};
use coracle_fuzz::corpus::Corpus;
use coracle_fuzz::targets::TARGETS;

const ROUNDS: u64 = 1_000_000;

#[expect(clippy::print_stdout, reason = "the results of the run")]
fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next();
    let rounds =
        arguments.next().map_or(Ok(ROUNDS), |text| text.parse()).context("invalid number of rounds")?;
    for target in TARGETS.iter().filter(|target| name.as_deref().is_none_or(|name| name == target.name)) {
        let mut corpus = Corpus::load(target)?;
        corpus.run(fastrand::u64(..), rounds);
        println!("{}: {} outcomes, {} of them new", target.name, corpus.outcomes(), corpus.save()?);
    }
    Ok(())
}
