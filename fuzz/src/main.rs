//! `cargo run --release -p coracle-fuzz -- [TARGET] [ROUNDS]`: looks for new outcomes, and keeps the
//! inputs that lead there.

use anyhow::{Context, Result};
use coracle_fuzz::corpus::Corpus;
use coracle_fuzz::targets::TARGETS;

const ROUNDS: u64 = 1_000_000;

#[expect(clippy::print_stdout, reason = "what the run found is what it is for")]
fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next();
    let rounds = arguments.next().map_or(Ok(ROUNDS), |text| text.parse()).context("how many rounds")?;
    for target in TARGETS.iter().filter(|target| name.as_deref().is_none_or(|name| name == target.name)) {
        let mut corpus = Corpus::load(target)?;
        corpus.run(fastrand::u64(..), rounds);
        println!("{}: {} outcomes, {} of them new", target.name, corpus.outcomes(), corpus.save()?);
    }
    Ok(())
}
