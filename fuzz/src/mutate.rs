//! Mutations of inputs.

use fastrand::Rng;

/// Tokens that are meaningful to at least one target.
const WORDS: &[&[u8]] = &[
    b"null",
    b"true",
    b"{}",
    b"[]",
    b"\"\"",
    b"-1",
    b"1e999",
    b"9223372036854775808",
    b"\\u0000",
    b"\xff",
    b"\0",
    b"$patch",
    b"$retainKeys",
    b"$setElementOrder/",
    b"$deleteFromPrimitiveList/",
    b"delete",
    b"replace",
    b"merge",
    b"/-",
    b"~0",
    b"~1",
    b"/spec/containers/0",
    b"metadata",
    b"name",
    b"managedFields",
    b"f:",
    b"k:{}",
    b"v:1",
    b"i:0",
    b" in (",
    b"notin",
    b"!",
    b"==",
    b",",
    b"\\",
    b"&a ",
    b"*a",
    b"<<: ",
    b"--- ",
    b"!!binary ",
    b"? ",
    b"|\n",
    b"Ki",
    b"e-9",
    b"T24:00:00Z",
    b"+14:00",
    b".all(e, ",
    b".map(e, ",
    b".?",
    b"self.",
    b" ? 1 : ",
    b" && ",
    b"[0]",
    b"'a'",
];

/// Maximum size of a mutated input: large enough for every kind of error, small enough to be fast.
const MAX_BYTES: usize = 4096;

/// Mutates an input, or combines two.
pub fn mutate(rng: &mut Rng, input: &[u8], other: &[u8]) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for _ in 0..rng.usize(1..5) {
        change(rng, &mut bytes, other);
    }
    bytes.truncate(MAX_BYTES);
    bytes
}

fn change(rng: &mut Rng, bytes: &mut Vec<u8>, other: &[u8]) {
    let at = rng.usize(..=bytes.len());
    match rng.u8(..8) {
        0 if at < bytes.len() => bytes[at] ^= 1 << rng.u8(..8),
        1 => bytes.truncate(at),
        2 if at < bytes.len() => drop(bytes.remove(at)),
        3 => bytes.insert(at, rng.u8(..)),
        4 | 5 => drop(bytes.splice(at..at, WORDS[rng.usize(..WORDS.len())].iter().copied())),
        6 => {
            // Repeats a part of the input, which produces nesting and repetition.
            let end = (at + rng.usize(..64)).min(bytes.len());
            let part = bytes[at..end].to_vec();
            let to = rng.usize(..=bytes.len());
            drop(bytes.splice(to..to, part));
        }
        _ => {
            let from = rng.usize(..=other.len());
            let end = (from + rng.usize(..128)).min(other.len());
            drop(bytes.splice(at..at, other[from..end].iter().copied()));
        }
    }
}
