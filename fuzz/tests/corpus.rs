//! Runs every stored input and some mutations of each: none may violate an invariant.

use coracle_fuzz::corpus::Corpus;
use coracle_fuzz::targets::TARGETS;

/// Mutations per target; longer runs are started with the program.
const ROUNDS: u64 = 3_000;

#[test]
fn corpus_and_mutations_violate_no_invariant() {
    for target in TARGETS {
        let mut corpus = Corpus::load(target).unwrap_or_else(|error| panic!("{}: {error:#}", target.name));
        corpus.run(1, ROUNDS);
        assert!(corpus.outcomes() >= 2, "{} has failing and succeeding inputs", target.name);
    }
}
