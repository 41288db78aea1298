//! Incremental gzip (RFC 1952) compression.

use crc32fast::Hasher;
use miniz_oxide::deflate::core::{CompressorOxide, create_comp_flags_from_zip_params};
use miniz_oxide::deflate::stream::deflate;
use miniz_oxide::{MZFlush, MZStatus};

/// The level of kube-apiserver: the fastest, with a somewhat larger output.
const LEVEL: i32 = 1;
/// The largest window; the negative sign omits the zlib header.
const WINDOW_BITS: i32 = -15;
/// A header without file name and time, from an unknown operating system.
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 255];
/// Size of the output buffer of one compressor call.
const PIECE_BYTES: usize = 16 * 1024;

/// The state of a gzip stream.
pub(super) struct Gzip {
    deflate: Box<CompressorOxide>,
    checksum: Hasher,
    bytes: u32,
    begun: bool,
}

impl Default for Gzip {
    fn default() -> Self {
        let flags = create_comp_flags_from_zip_params(LEVEL, WINDOW_BITS, 0);
        Self {
            deflate: Box::new(CompressorOxide::new(flags)),
            checksum: Hasher::new(),
            bytes: 0,
            begun: false,
        }
    }
}

impl Gzip {
    /// Compresses more input. Returns the output that is ready, which may be empty.
    pub(super) fn compress(&mut self, input: &[u8]) -> Vec<u8> {
        self.checksum.update(input);
        // The format stores the size modulo 2^32.
        self.bytes = self.bytes.wrapping_add(input.len() as u32);
        self.run(input, MZFlush::None)
    }

    /// Returns the remaining output and the trailer.
    pub(super) fn finish(&mut self) -> Vec<u8> {
        let mut out = self.run(&[], MZFlush::Finish);
        let checksum = std::mem::take(&mut self.checksum).finalize();
        out.extend_from_slice(&checksum.to_le_bytes());
        out.extend_from_slice(&self.bytes.to_le_bytes());
        out
    }

    fn run(&mut self, mut input: &[u8], flush: MZFlush) -> Vec<u8> {
        let mut out = Vec::new();
        if !std::mem::replace(&mut self.begun, true) {
            out.extend_from_slice(&HEADER);
        }
        loop {
            let begin = out.len();
            out.resize(begin + PIECE_BYTES, 0);
            let result = deflate(&mut self.deflate, input, &mut out[begin..], flush);
            out.truncate(begin + result.bytes_written);
            input = &input[result.bytes_consumed..];
            let room_left = result.bytes_written < PIECE_BYTES;
            // An error means that the compressor has neither input nor output left.
            if !matches!(result.status, Ok(MZStatus::Ok)) || input.is_empty() && room_left {
                return out;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use coracle_base::Rng;

    use super::*;

    #[test]
    fn compressed_stream_decompresses_to_its_input() {
        let mut rng = Rng::seeded(7);
        for pieces in [0, 1, 7, 40] {
            let (mut gzip, mut plain, mut packed) = (Gzip::default(), Vec::new(), Vec::new());
            for _ in 0..pieces {
                let piece: Vec<u8> = (0..rng.below(70_000)).map(|_| b'a' + rng.below(5) as u8).collect();
                packed.extend(gzip.compress(&piece));
                plain.extend(piece);
            }
            packed.extend(gzip.finish());
            let (body, end) = packed[HEADER.len()..].split_at(packed.len() - HEADER.len() - 8);
            assert_eq!(miniz_oxide::inflate::decompress_to_vec(body).unwrap(), plain);
            assert_eq!(end[..4], crc32fast::hash(&plain).to_le_bytes());
            assert_eq!(end[4..], (plain.len() as u32).to_le_bytes());
        }
    }
}
