//! An encoder for the parts of DER (ITU-T X.690) that certificates need. Decoding is done by x509-parser.

use coracle_base::Timestamp;
use coracle_meta::time::Time;

/// Tags of the encoded types.
const BOOLEAN: u8 = 0x01;
const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;
const OBJECT_IDENTIFIER: u8 = 0x06;
const UTF8_STRING: u8 = 0x0c;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;

/// The first year that UTCTime cannot represent (RFC 5280, 4.1.2.5), and the number of digits it omits.
const FIRST_LONG_YEAR: &str = "2050";
const CENTURY_DIGITS: usize = 2;

/// A value with this tag.
pub(super) fn tagged(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    match u8::try_from(content.len()) {
        Ok(short) if short < 0x80 => out.push(short),
        _ => {
            let length = content.len().to_be_bytes();
            let digits: Vec<u8> = length.iter().copied().skip_while(|digit| *digit == 0).collect();
            // A length has at most eight bytes.
            out.push(0x80 | digits.len() as u8);
            out.extend(digits);
        }
    }
    out.extend_from_slice(content);
    out
}

/// An explicitly tagged value.
pub(super) fn explicit(number: u8, content: &[u8]) -> Vec<u8> {
    tagged(0xa0 | number, content)
}

/// An implicitly tagged value.
pub(super) fn implicit(number: u8, content: &[u8]) -> Vec<u8> {
    tagged(0x80 | number, content)
}

pub(super) fn sequence(parts: &[Vec<u8>]) -> Vec<u8> {
    tagged(SEQUENCE, &parts.concat())
}

pub(super) fn set_of_one(part: &[u8]) -> Vec<u8> {
    tagged(SET, part)
}

pub(super) fn boolean_true() -> Vec<u8> {
    tagged(BOOLEAN, &[0xff])
}

/// A non-negative integer, most significant byte first.
pub(super) fn integer(bytes: &[u8]) -> Vec<u8> {
    let digits: Vec<u8> = bytes.iter().copied().skip_while(|byte| *byte == 0).collect();
    match digits.first() {
        Some(first) if *first < 0x80 => tagged(INTEGER, &digits),
        // The first bit would be the sign, and zero has one byte.
        _ => tagged(INTEGER, &[&[0], digits.as_slice()].concat()),
    }
}

/// A bit string of whole bytes.
pub(super) fn bit_string(bytes: &[u8]) -> Vec<u8> {
    tagged(BIT_STRING, &[&[0], bytes].concat())
}

/// A bit string of flags by number, without trailing zeros.
pub(super) fn flags(numbers: &[u8]) -> Vec<u8> {
    let Some(last) = numbers.iter().max() else { return tagged(BIT_STRING, &[0]) };
    let mut bytes = vec![0_u8; usize::from(last / 8) + 1];
    for number in numbers {
        bytes[usize::from(number / 8)] |= 0x80 >> (number % 8);
    }
    tagged(BIT_STRING, &[&[7 - last % 8], bytes.as_slice()].concat())
}

pub(super) fn octet_string(bytes: &[u8]) -> Vec<u8> {
    tagged(OCTET_STRING, bytes)
}

pub(super) fn utf8_string(text: &str) -> Vec<u8> {
    tagged(UTF8_STRING, text.as_bytes())
}

/// An object identifier; the first two arcs share a byte.
pub(super) fn oid(arcs: &[u32]) -> Vec<u8> {
    let mut content = Vec::new();
    if let [first, second, rest @ ..] = arcs {
        base128(first * 40 + second, &mut content);
        rest.iter().for_each(|arc| base128(*arc, &mut content));
    }
    tagged(OBJECT_IDENTIFIER, &content)
}

fn base128(number: u32, out: &mut Vec<u8>) {
    let digits = (0..5).rev().map(|place| (number >> (7 * place) & 0x7f) as u8);
    let mut digits: Vec<u8> = digits.skip_while(|digit| *digit == 0).collect();
    let last = digits.pop().unwrap_or(0);
    out.extend(digits.into_iter().map(|digit| digit | 0x80));
    out.push(last);
}

/// A time, in seconds.
pub(super) fn time(moment: Timestamp) -> Vec<u8> {
    let text = Time(i64::try_from(moment.as_millis() / 1000).unwrap_or(i64::MAX)).to_string();
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    match digits.split_at_checked(CENTURY_DIGITS) {
        Some((_, short)) if digits.as_str() < FIRST_LONG_YEAR => {
            tagged(UTC_TIME, format!("{short}Z").as_bytes())
        }
        _ => tagged(GENERALIZED_TIME, format!("{digits}Z").as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_have_the_shortest_encoding() {
        assert_eq!(octet_string(&[7; 3]), [4, 3, 7, 7, 7]);
        assert_eq!(octet_string(&[0; 0x7f])[..2], [4, 0x7f]);
        assert_eq!(octet_string(&[0; 0x80])[..3], [4, 0x81, 0x80]);
        assert_eq!(octet_string(&[0; 0x1234])[..4], [4, 0x82, 0x12, 0x34]);
    }

    #[test]
    fn integers_are_encoded_as_non_negative() {
        assert_eq!(integer(&[0]), [2, 1, 0]);
        assert_eq!(integer(&[0, 0x7f]), [2, 1, 0x7f]);
        assert_eq!(integer(&[0x80]), [2, 2, 0, 0x80]);
    }

    #[test]
    fn flags_have_no_trailing_zeros() {
        assert_eq!(flags(&[0]), [3, 2, 7, 0x80]);
        assert_eq!(flags(&[0, 2, 5]), [3, 2, 2, 0b1010_0100]);
        assert_eq!(flags(&[8]), [3, 3, 7, 0, 0x80]);
    }

    #[test]
    fn object_identifiers_are_encoded_in_base_128() {
        assert_eq!(oid(&[2, 5, 29, 17]), [6, 3, 0x55, 29, 17]);
        assert_eq!(oid(&[1, 2, 840, 10045, 4, 3, 2]), [6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2]);
    }

    #[test]
    fn times_from_2050_on_are_generalized_times() {
        let at = |seconds: u64| String::from_utf8(time(Timestamp::from_millis(seconds * 1000))).unwrap();
        assert_eq!(&at(0)[2..], "700101000000Z");
        assert_eq!(&at(951_827_696)[2..], "000229123456Z");
        assert_eq!(&at(2_524_607_999)[2..], "491231235959Z");
        assert_eq!(&at(2_524_608_000)[2..], "20500101000000Z");
    }
}
