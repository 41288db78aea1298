//! Kubernetes' documented cases, its peculiarities, and arithmetic laws for random quantities.

use serde_json::json;

use super::*;

fn quantity(text: &str) -> Quantity {
    text.parse().unwrap_or_else(|error| panic!("{text:?}: {error}"))
}

#[test]
fn canonical_form_matches_kubernetes() {
    for (text, expected) in [
        ("0", "0"),
        ("0n", "0"),
        ("-0Ki", "0"),
        ("1", "1"),
        ("1.5", "1500m"),
        ("1.5Gi", "1536Mi"),
        ("0.5Gi", "512Mi"),
        ("100m", "100m"),
        ("0.1", "100m"),
        ("1000m", "1"),
        ("1000k", "1M"),
        ("1024", "1024"),
        ("1024Ki", "1Mi"),
        ("1023Mi", "1023Mi"),
        ("0.5Ki", "512"),
        ("0.0001Ki", "102400u"),
        ("1.1Ki", "1126400m"),
        ("1.0000000000001Ki", "1024000000001n"),
        ("5.1Ei", "5879899673494919577600m"),
        ("8Ei", "9223372036854775807"),
        ("16Ei", "9223372036854775807"),
        ("99999999999999999999Ki", "9223372036854775807"),
        ("-16Ei", "-9223372036854775807"),
        ("7Ei", "7Ei"),
        ("12E", "12E"),
        ("0.1n", "1n"),
        ("-0.1n", "-1n"),
        ("0.00000000000000000000000000000001", "1n"),
        ("1e-12", "1e-9"),
        ("1e3", "1e3"),
        ("1e1", "10"),
        ("1.5e3", "1500"),
        ("2000e3", "2e6"),
        ("0.001e3", "1"),
        ("1e19", "10e18"),
        ("12345e18", "12345e18"),
        ("123456789012345678901n", "123456789012345678901n"),
        ("99999999999999999999e-5", "999999999999999999990e-6"),
        ("-1.5Gi", "-1536Mi"),
        (".5Gi", "512Mi"),
        (".", "0"),
        ("-", "0"),
        ("Ki", "0"),
    ] {
        assert_eq!(quantity(text).to_string(), expected, "{text:?}");
    }
}

#[test]
fn text_that_looks_canonical_is_preserved() {
    for (text, canonical) in [
        ("1.234", "1234m"),
        ("1.500", "1500m"),
        ("+5", "5"),
        ("01", "1"),
        ("5.Gi", "5Gi"),
        ("1E3", "1e3"),
        ("1e+3", "1e3"),
        ("1e4294967296", "1"),
    ] {
        let quantity = quantity(text);
        assert_eq!((quantity.to_string(), quantity.canonical()), (text.to_owned(), canonical.to_owned()));
    }
    let sum = quantity("1.234").checked_add(&Quantity::default()).unwrap();
    assert_eq!(sum.to_string(), "1234m", "arithmetic discards the original text");
}

#[test]
fn malformed_quantity_is_rejected() {
    use ParseQuantityError::{Format, Numeric, Suffix};
    for (text, error) in [
        ("", Format),
        (" 1", Format),
        ("1 ", Format),
        ("0x", Format),
        ("1..5", Format),
        ("1e-9Ki", Format),
        ("1i", Suffix),
        ("1e", Suffix),
        ("1ee", Suffix),
        ("1K", Suffix),
        ("--1", Suffix),
        ("1e99999999999999999999", Suffix),
        ("Pi", Numeric),
        ("1000000000000000000000000000000000000000001", Numeric),
    ] {
        assert_eq!(text.parse::<Quantity>(), Err(error), "{text:?}");
    }
    let message =
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
    assert_eq!(Format.to_string(), message);
}

#[test]
fn scaled_value_rounds_away_from_zero() {
    for (text, value, milli) in [
        ("1500m", 2, 1500),
        ("-1500m", -2, -1500),
        ("1n", 1, 1),
        ("1.0001", 2, 1001),
        ("3k", 3000, 3_000_000),
        ("0", 0, 0),
        ("9223372036854775807", i64::MAX, i64::MAX),
        ("-1e30", i64::MIN, i64::MIN),
    ] {
        let quantity = quantity(text);
        assert_eq!((quantity.value(), quantity.milli_value()), (value, milli), "{text:?}");
    }
    assert_eq!(quantity("12E").checked_scaled_value(Scale::ONE), None);
    assert_eq!(quantity("1500").scaled_value(Scale::KILO), 2);
    let mut fine = quantity("1.0001");
    assert!(!fine.round_up(Scale::MILLI));
    assert_eq!(fine.to_string(), "1001m");
    assert!(fine.round_up(Scale::MILLI));
}

#[test]
fn sum_has_format_of_first_nonzero_operand() {
    for (a, b, sum, difference) in [
        ("1Gi", "1", "1073741825", "1073741823"),
        ("1Gi", "1Gi", "2Gi", "0"),
        ("0", "1Gi", "1Gi", "-1Gi"),
        ("1500m", "0.5", "2", "1"),
        ("1e3", "500m", "1000500e-3", "999500e-3"),
    ] {
        let (a, b) = (quantity(a), quantity(b));
        assert_eq!(a.checked_add(&b).unwrap().to_string(), sum);
        assert_eq!(a.checked_sub(&b).unwrap().to_string(), difference);
    }
    assert_eq!(quantity("1e2000000000").checked_add(&quantity("1")), None);
    assert_eq!(quantity("500m").checked_mul(3), Some(quantity("1.5")));
}

#[test]
fn quantities_compare_by_value() {
    let ordered = [
        "-1e2147483647",
        "-1Ki",
        "-1.5",
        "-1",
        "-1n",
        "0",
        "1n",
        "1m",
        "999m",
        "1",
        "1.1",
        "1k",
        "1Ki",
        "1M",
        "1Mi",
        "1e20",
        "170141183460469231731687303715884105727",
        "9e38",
        "1e39",
        "1e2147483647",
    ];
    for (i, a) in ordered.iter().enumerate() {
        for (j, b) in ordered.iter().enumerate() {
            assert_eq!(quantity(a).cmp(&quantity(b)), i.cmp(&j), "{a} and {b}");
        }
    }
    assert_eq!(quantity("1Ki"), quantity("1.024k"));
}

#[test]
fn from_json_accepts_numbers() {
    assert_eq!(Quantity::from_json(&json!(" 1Gi ")).unwrap().to_string(), "1Gi");
    assert_eq!(Quantity::from_json(&json!(1.5)).unwrap().to_string(), "1500m");
    assert_eq!(Quantity::from_json(&json!(null)).unwrap(), Quantity::default());
    assert!(Quantity::from_json(&json!([])).is_err());
    assert_eq!(serde_json::to_value(quantity("0.1")).unwrap(), json!("100m"));
}

#[test]
fn random_quantities_obey_arithmetic_laws() {
    for seed in 0..20_000 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let (a, b) = (random(&mut rng), random(&mut rng));
        let again = quantity(&a.to_string());
        assert_eq!((&again, again.sign()), (&a, a.sign()), "seed {seed}: {a:?}");
        assert_eq!(quantity(&a.canonical()).canonical(), a.canonical(), "seed {seed}: {a:?}");
        assert_eq!(a.cmp(&b), b.cmp(&a).reverse(), "seed {seed}: {a:?} {b:?}");
        assert_eq!(a == b, a.cmp(&b).is_eq(), "seed {seed}: {a:?} {b:?}");
        let (Some(sum), Some(difference)) = (a.checked_add(&b), a.checked_sub(&b)) else { continue };
        assert_eq!(difference.sign(), i32::from(a > b) - i32::from(a < b), "seed {seed}: {a:?} {b:?}");
        assert_eq!(sum.checked_sub(&b).unwrap(), a, "seed {seed}: {a:?} {b:?}");
    }
}

fn random(rng: &mut fastrand::Rng) -> Quantity {
    let number = rng.u64(..) >> rng.u32(0..64);
    let fraction = "0".repeat(rng.usize(0..4)) + &rng.u16(..).to_string();
    let sign = ["", "-", "+"][rng.usize(0..3)];
    let suffix = ["", "n", "u", "m", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti", "Pi", "e3", "e-4", "E12"]
        [rng.usize(0..16)];
    let text = match rng.u8(0..3) {
        0 => format!("{sign}{number}{suffix}"),
        1 => format!("{sign}{}{suffix}", number % 2000),
        _ => format!("{sign}{}.{fraction}{suffix}", number % 5000),
    };
    quantity(&text)
}
