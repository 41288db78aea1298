//! Sets of indexes as ascending numbers and ranges, such as `1,3-5,7`.

use coracle_meta::field::quoted;

/// Number of indexes in a set; `completions` is one more than the largest allowed index.
///
/// # Errors
/// A message for the client if the set is malformed.
pub(super) fn count(text: &str, completions: i64) -> Result<i64, String> {
    let mut total = 0;
    let mut previous = None;
    if text.is_empty() {
        return Ok(total);
    }
    for interval in text.split(',') {
        let (first, last) = interval_of(interval, completions)?;
        if let Some(previous) = previous.filter(|previous| *previous >= first) {
            return Err(format!("non-increasing order, previous: {previous}, current: {first}"));
        }
        total += last - first + 1;
        previous = Some(last);
    }
    Ok(total)
}

/// The first index in both sets. Malformed intervals are ignored.
pub(super) fn overlap(left: &str, right: &str, completions: i64) -> Option<i64> {
    let intervals = |text: &str| -> Vec<_> {
        text.split(',').filter_map(|interval| interval_of(interval, completions).ok()).collect()
    };
    let right = intervals(right);
    intervals(left).into_iter().find_map(|(first, last)| {
        let meets =
            right.iter().find(|(other_first, other_last)| first <= *other_last && *other_first <= last);
        meets.map(|(other_first, _)| first.max(*other_first))
    })
}

fn interval_of(text: &str, completions: i64) -> Result<(i64, i64), String> {
    let parts: Vec<_> = text.split('-').collect();
    let index = |text: &str| {
        let index = text
            .parse::<i64>()
            .map_err(|_| format!("cannot convert string to integer for index: {}", quoted(text)))?;
        if index >= completions {
            return Err(format!("too large index: {}", quoted(text)));
        }
        Ok(index)
    };
    match parts.as_slice() {
        [only] => index(only).map(|only| (only, only)),
        [first, last] => {
            let (first, last) = (index(first)?, index(last)?);
            if first >= last {
                return Err(format!("non-increasing order, previous: {first}, current: {last}"));
            }
            Ok((first, last))
        }
        _ => Err(format!(
            "the fragment {} violates the requirement that an index interval can have at most two parts \
             separated by '-'",
            quoted(text)
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_must_ascend_and_be_below_completions() {
        assert_eq!(count("", 5), Ok(0));
        assert_eq!(count("1,3-5,7", 8), Ok(5));
        for (text, expected) in [
            ("8", "too large index: \"8\""),
            ("1,1", "non-increasing order, previous: 1, current: 1"),
            ("5-3", "non-increasing order, previous: 5, current: 3"),
            ("a", "cannot convert string to integer for index: \"a\""),
            (
                "1-2-3",
                "the fragment \"1-2-3\" violates the requirement that an index interval can have at most two \
                 parts separated by '-'",
            ),
        ] {
            assert_eq!(count(text, 8), Err(expected.to_owned()));
        }
    }

    #[test]
    fn overlap_is_the_first_common_index() {
        assert_eq!(overlap("0-2,5", "3,5-6", 8), Some(5));
        assert_eq!(overlap("0-2", "3,9", 8), None);
        assert_eq!(overlap("1-4", "x,2-3", 8), Some(2));
    }
}
