//! What an object holds for itself alone: an address, a port.
//!
//! A claim is a key of its own, written in the same transaction as the object that holds it and
//! only if it is free. So no two objects ever hold the same, and none is left behind by a crash
//! between two writes. Kinds choose without asking the store ([`Pool::pick`]); a choice that
//! turns out to be taken is remembered, and another is made.

use std::collections::HashSet;
use std::ops::RangeInclusive;

use coracle_base::Rng;
use serde_json::Value;

use crate::keys;
use crate::kind::Kind;

/// How many free places are guessed at before a choice is given up: the store then tells all
/// that are taken.
const GUESSES: usize = 16;

/// From where services get their addresses and ports.
#[derive(Clone, Debug)]
pub struct ServiceNetwork {
    /// The ranges of addresses, at most one for each family; the first is the default one.
    pub cidrs: Vec<String>,
    /// The ports that are opened on every node.
    pub node_ports: RangeInclusive<u16>,
}

impl Default for ServiceNetwork {
    fn default() -> Self {
        // The range of kubeadm, and the ports of upstream.
        Self { cidrs: vec!["10.96.0.0/12".to_owned()], node_ports: 30_000..=32_767 }
    }
}

/// Something that only one object can hold.
#[derive(Clone)]
pub struct Claim {
    pub(crate) key: String,
    pub(crate) record: Record,
}

/// What is stored for a claim.
#[derive(Clone)]
pub(crate) enum Record {
    /// An object that clients can read.
    Object(Value),
    /// Who holds it, for nobody but ourselves.
    Note(Value),
}

impl Claim {
    /// A claim that is an object itself, such as an IPAddress. Of a kind without namespaces.
    pub fn object(kind: &dyn Kind, name: &str, object: Value) -> Self {
        Self { key: keys::key(kind.declaration(), "", name), record: Record::Object(object) }
    }

    /// A claim that no client sees, among those called `family`.
    pub fn note(family: &str, name: &str, holder: Value) -> Self {
        Self { key: format!("claims/{family}/{name}"), record: Record::Note(holder) }
    }
}

impl PartialEq for Claim {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

/// What is known to be held by others.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    keys: HashSet<String>,
    /// Families of which all that is held is known.
    complete: HashSet<String>,
    collisions: usize,
}

impl Taken {
    /// Notes that a key is taken. Returns the family that should be learnt whole, if guessing has
    /// failed too often.
    pub(crate) fn collide(&mut self, key: String) -> Option<String> {
        self.collisions += 1;
        let family = family(&key).to_owned();
        self.keys.insert(key);
        self.collisions.is_multiple_of(GUESSES).then_some(family)
    }

    /// Notes all that is taken of a family.
    pub(crate) fn learn(&mut self, family: String, keys: impl IntoIterator<Item = String>) {
        self.keys.extend(keys);
        self.complete.insert(family);
    }
}

fn family(key: &str) -> &str {
    key.rsplit_once('/').map_or("", |(family, _)| family)
}

/// From what can be chosen.
pub struct Pool<'a> {
    pub(crate) network: &'a ServiceNetwork,
    pub(crate) taken: &'a Taken,
    pub(crate) rng: &'a mut Rng,
    /// What was chosen in this attempt, for the same object.
    chosen: HashSet<String>,
}

impl<'a> Pool<'a> {
    pub(crate) fn new(network: &'a ServiceNetwork, taken: &'a Taken, rng: &'a mut Rng) -> Self {
        Self { network, taken, rng, chosen: HashSet::new() }
    }

    /// From where services get their addresses and ports.
    pub fn network(&self) -> &'a ServiceNetwork {
        self.network
    }

    /// Takes what a client asks for by name. False if it is taken.
    pub fn take(&mut self, claim: &Claim) -> bool {
        !self.taken.keys.contains(&claim.key) && self.chosen.insert(claim.key.clone())
    }

    /// Takes one of `count` places, of which `claim_of` makes claims. None if all are taken.
    pub fn pick(&mut self, count: u64, claim_of: impl Fn(u64) -> Claim) -> Option<u64> {
        if count == 0 {
            return None;
        }
        let guess = self.rng.below(count);
        let known = self.taken.complete.contains(family(&claim_of(guess).key));
        // Nothing is known for sure before a collision, and then almost everything is free.
        let tries = if known { count } else { count.min(GUESSES as u64) };
        (0..tries).map(|offset| (guess + offset) % count).find(|index| self.take(&claim_of(*index)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn claim(index: u64) -> Claim {
        Claim::note("port", &index.to_string(), json!({}))
    }

    #[test]
    fn what_is_taken_is_not_picked() {
        let network = ServiceNetwork::default();
        let mut taken = Taken::default();
        taken.learn("claims/port".into(), (0..7).map(|index| claim(index).key));
        for seed in 0..50 {
            let mut rng = Rng::seeded(seed);
            let mut pool = Pool::new(&network, &taken, &mut rng);
            assert_eq!(pool.pick(8, claim), Some(7));
            assert_eq!(pool.pick(8, claim), None, "it was picked already");
            assert!(!pool.take(&claim(7)) && !pool.take(&claim(0)) && pool.take(&claim(8)));
        }
    }

    #[test]
    fn after_many_collisions_the_whole_family_is_learnt() {
        let mut taken = Taken::default();
        let asked: Vec<_> = (0..GUESSES as u64).filter_map(|index| taken.collide(claim(index).key)).collect();
        assert_eq!(asked, ["claims/port"]);
    }
}
