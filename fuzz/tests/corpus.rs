//! Every input that was ever worth keeping, and some mutations of each: none breaks a promise.

use coracle_fuzz::corpus::Corpus;
use coracle_fuzz::targets::TARGETS;

/// Mutations of each target in one run; long runs are the program's.
const ROUNDS: u64 = 3_000;

#[test]
fn nothing_breaks_a_promise() {
    for target in TARGETS {
        let mut corpus = Corpus::load(target).unwrap_or_else(|error| panic!("{}: {error:#}", target.name));
        corpus.run(1, ROUNDS);
        assert!(corpus.outcomes() >= 2, "{} can fail and succeed", target.name);
    }
}
