//! Canonical form of quantities, in which they are stored: `500m` for `0.5`, `1Gi` for `1024Mi`.

use coracle_meta::quantity::Quantity;

/// The canonical form of a quantity.
pub(super) fn canonical(text: &str) -> Result<String, String> {
    let amount: Quantity =
        text.parse().map_err(|error: coracle_meta::quantity::ParseQuantityError| error.to_string())?;
    Ok(amount.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_become_canonical() {
        for (text, expected) in [
            ("0", "0"),
            ("0.0", "0"),
            ("00", "0"),
            ("100m", "100m"),
            ("1000m", "1"),
            ("0.5", "500m"),
            (".5", "500m"),
            ("1.5", "1500m"),
            ("1.500", "1.500"),
            ("1024Ki", "1Mi"),
            ("1.5Gi", "1536Mi"),
            ("0.5Mi", "512Ki"),
            ("512Mi", "512Mi"),
            ("1024", "1024"),
            ("100000", "100k"),
            ("1e3", "1e3"),
            ("12e4", "120e3"),
            ("0.1n", "1n"),
            ("-1.5Ki", "-1536"),
            ("1Ki", "1Ki"),
            ("8Ki", "8Ki"),
            ("0.1Ki", "102400m"),
            ("16Ei", "9223372036854775807"),
            ("100000000000000000000", "100E"),
            ("5.", "5."),
            ("1e-12", "1e-9"),
            ("1e-2000000000", "1e-9"),
            ("1e2000000000", "100e1999999998"),
            ("-", "0"),
            ("Ki", "0"),
        ] {
            assert_eq!(canonical(text), Ok(expected.to_owned()), "{text}");
        }
    }

    const WRONG_FORMAT: &str =
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
    const WRONG_SUFFIX: &str = "unable to parse quantity's suffix";

    #[test]
    fn malformed_quantities_are_rejected_with_their_error() {
        assert_eq!(canonical(""), Err(WRONG_FORMAT.to_owned()));
        assert_eq!(canonical("1x"), Err(WRONG_FORMAT.to_owned()));
        assert_eq!(canonical("1Gm"), Err(WRONG_SUFFIX.to_owned()));
        assert_eq!(canonical("1ki"), Err(WRONG_SUFFIX.to_owned()));
        assert_eq!(canonical("e"), Err(WRONG_SUFFIX.to_owned()));
        assert_eq!(canonical("1..2"), Err(WRONG_FORMAT.to_owned()));
    }
}
