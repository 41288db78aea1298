//! The corpus of a target: one input for each outcome seen so far.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result};
use coracle_base::deep_stack;
use fastrand::Rng;

use crate::mutate::mutate;
use crate::targets::Target;

/// Maximum number of outcomes per target. More would distinguish inputs, not behaviour.
const MAX_OUTCOMES: usize = 40;

/// The corpus of a target.
pub struct Corpus {
    target: &'static Target,
    by_outcome: BTreeMap<String, Vec<u8>>,
    added: Vec<Vec<u8>>,
}

impl Corpus {
    /// Loads the stored inputs and the seeds of a target, and runs all of them.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn load(target: &'static Target) -> Result<Self> {
        let mut corpus = Self { target, by_outcome: BTreeMap::new(), added: Vec::new() };
        for input in stored(target)? {
            corpus.take(input);
        }
        corpus.added.clear();
        for seed in target.seeds {
            corpus.take(seed.to_vec());
        }
        Ok(corpus)
    }

    /// Number of known outcomes.
    pub fn outcomes(&self) -> usize {
        self.by_outcome.len()
    }

    /// Runs this many mutations. The same seed leads to the same inputs.
    pub fn run(&mut self, seed: u64, rounds: u64) {
        let mut rng = Rng::with_seed(seed);
        let mut inputs: Vec<Vec<u8>> = self.by_outcome.values().cloned().collect();
        for _ in 0..rounds {
            let input = &inputs[rng.usize(..inputs.len())];
            let other = &inputs[rng.usize(..inputs.len())];
            let mutated = mutate(&mut rng, input, other);
            if self.take(mutated.clone()) {
                inputs.push(mutated);
            }
        }
    }

    fn take(&mut self, input: Vec<u8>) -> bool {
        // The same stack as for requests.
        let outcome = deep_stack::run(|| (self.target.run)(&input));
        let new = !self.by_outcome.contains_key(&outcome) && self.by_outcome.len() < MAX_OUTCOMES;
        if new {
            self.by_outcome.insert(outcome, input.clone());
            self.added.push(input);
        }
        new
    }

    /// Stores the inputs with new outcomes; returns their number.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn save(&self) -> Result<usize> {
        let directory = directory(self.target);
        std::fs::create_dir_all(&directory).with_context(|| format!("making {}", directory.display()))?;
        for input in &self.added {
            let path = directory.join(format!("{:016x}", fingerprint(input)));
            std::fs::write(&path, input).with_context(|| format!("writing {}", path.display()))?;
        }
        Ok(self.added.len())
    }
}

fn directory(target: &Target) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.name)
}

fn stored(target: &Target) -> Result<Vec<Vec<u8>>> {
    let directory = directory(target);
    if !directory.is_dir() {
        return Ok(Vec::new());
    }
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(&directory).with_context(|| format!("reading {}", directory.display()))? {
        paths.push(entry?.path());
    }
    // Directories list files in any order; runs must be reproducible.
    paths.sort();
    paths
        .iter()
        .map(|path| std::fs::read(path).with_context(|| format!("reading {}", path.display())))
        .collect()
}

/// FNV-1a, used only for file names.
fn fingerprint(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
