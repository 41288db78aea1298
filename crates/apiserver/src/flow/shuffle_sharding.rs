//! Shuffle sharding: each flow gets a hand of queues, and any two flows rarely share all of theirs.
//!
//! A flow that fills its hand leaves some queue to nearly every other flow, without a queue for each flow.

use std::hash::{DefaultHasher, Hash, Hasher};

/// The largest hand. Validation limits a hand to 60 bits of the hash, and 15 queues of 16 take as many.
pub(super) const MAX_HAND_SIZE: usize = 15;

/// The hash of a flow, by the name of its schema and its distinguisher. It is the same in every process.
pub(super) fn flow_hash(schema: &str, distinguisher: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (schema, distinguisher).hash(&mut hasher);
    hasher.finish()
}

/// Deals a hand of `hand_size` different queues out of `queues`, at most [`MAX_HAND_SIZE`].
///
/// The hash is read as a number whose digits are choices: the first among all queues, the second among those left,
/// and so on.
pub(super) fn deal(hash: u64, queues: u64, hand_size: usize) -> impl Iterator<Item = u64> {
    let size = hand_size.min(MAX_HAND_SIZE).min(usize::try_from(queues).unwrap_or(usize::MAX));
    let mut hand = [0; MAX_HAND_SIZE];
    // The cards dealt so far, in rising order, to find the n-th of those left.
    let mut dealt = [0; MAX_HAND_SIZE];
    let mut rest = hash;
    let mut left = queues;
    for (count, dealt_card) in hand.iter_mut().enumerate().take(size) {
        let mut card = rest % left;
        rest /= left;
        left -= 1;
        let mut index = 0;
        while index < count && dealt[index] <= card {
            card += 1;
            index += 1;
        }
        dealt.copy_within(index..count, index + 1);
        dealt[index] = card;
        *dealt_card = card;
    }
    hand.into_iter().take(size)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn hand_has_different_queues() {
        for (queues, hand_size) in [(1, 1), (2, 2), (64, 6), (16, 15), (10_000_000, 2), (3, 9)] {
            for flow in 0..200 {
                let hash = flow_hash("schema", &flow.to_string());
                let hand: Vec<u64> = deal(hash, queues, hand_size).collect();
                let different: BTreeSet<u64> = hand.iter().copied().collect();
                assert_eq!(hand.len() as u64, queues.min(hand_size as u64));
                assert_eq!(different.len(), hand.len());
                assert!(different.iter().all(|queue| *queue < queues));
            }
        }
    }

    #[test]
    fn every_hand_can_be_dealt() {
        let hands: BTreeSet<Vec<u64>> = (0..60).map(|hash| deal(hash, 5, 3).collect()).collect();
        assert_eq!(hands.len(), 60);
    }

    #[test]
    fn flows_rarely_share_a_hand() {
        let hand =
            |flow: usize| -> BTreeSet<u64> { deal(flow_hash("s", &flow.to_string()), 64, 6).collect() };
        let elephant = hand(0);
        let squished = (1..1000).filter(|mouse| hand(*mouse).is_subset(&elephant)).count();
        assert_eq!(squished, 0);
        assert_ne!(flow_hash("a", "b"), flow_hash("ab", ""));
    }
}
