//! Sets of completion indexes, and their text form in the status: `1,3-5,7`.

use std::fmt;

/// A set of indexes as ascending, separate ranges. A hundred thousand indexes usually are a few ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Indexes(Vec<Range>);

/// Inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Range {
    first: i32,
    last: i32,
}

impl Indexes {
    /// Parses the indexes below `completions`; invalid ones are ignored.
    pub(super) fn parse(text: &str, completions: i32) -> Self {
        let range = |part: &str| -> Option<Range> {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (first.parse().ok()?, last.parse::<i32>().ok()?);
            (0 <= first && first < completions).then(|| Range { first, last: last.min(completions - 1) })
        };
        Self::of_ranges(text.split(',').filter_map(range).filter(|range| range.first <= range.last).collect())
    }

    fn of_ranges(mut ranges: Vec<Range>) -> Self {
        ranges.sort_unstable();
        let mut joined: Vec<Range> = Vec::with_capacity(ranges.len());
        for range in ranges {
            match joined.last_mut() {
                Some(before) if range.first <= before.last.saturating_add(1) => {
                    before.last = before.last.max(range.last);
                }
                _ => joined.push(range),
            }
        }
        Self(joined)
    }

    /// Union of two sets.
    pub(super) fn union(&self, other: &Self) -> Self {
        Self::of_ranges([&self.0[..], &other.0].concat())
    }

    pub(super) fn contains(&self, index: i32) -> bool {
        let at = self.0.partition_point(|range| range.last < index);
        self.0.get(at).is_some_and(|range| range.first <= index)
    }

    /// Number of indexes.
    pub(super) fn len(&self) -> i32 {
        self.0.iter().map(|range| range.last - range.first + 1).sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Number of indexes in both sets.
    pub(super) fn common(&self, other: &Self) -> i32 {
        let both = |one: &Range, other: &Range| one.last.min(other.last) - one.first.max(other.first) + 1;
        self.0.iter().flat_map(|one| other.0.iter().map(move |other| both(one, other).max(0))).sum()
    }

    /// The first `count` indexes below `completions` that are not in the set.
    pub(super) fn first_missing(&self, count: usize, completions: i32) -> Vec<i32> {
        let mut next = 0;
        let mut gaps = Vec::with_capacity(self.0.len() + 1);
        for range in &self.0 {
            gaps.push(next..range.first);
            next = range.last.saturating_add(1);
        }
        gaps.push(next..completions);
        gaps.into_iter().flatten().filter(|index| *index < completions).take(count).collect()
    }
}

impl FromIterator<i32> for Indexes {
    fn from_iter<I: IntoIterator<Item = i32>>(indexes: I) -> Self {
        Self::of_ranges(indexes.into_iter().map(|index| Range { first: index, last: index }).collect())
    }
}

impl fmt::Display for Indexes {
    /// Two adjacent indexes are written as two numbers, more as a range.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, Range { first, last }) in self.0.iter().enumerate() {
            let comma = if position == 0 { "" } else { "," };
            match last - first {
                0 => write!(f, "{comma}{first}")?,
                1 => write!(f, "{comma}{first},{last}")?,
                _ => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_parse_and_format() {
        for (text, completions, expected, len) in [
            ("", 10, "", 0),
            ("0", 10, "0", 1),
            ("0,1,2,4", 10, "0-2,4", 4),
            ("3-4", 10, "3,4", 2),
            ("1,3-5,7", 10, "1,3-5,7", 5),
            ("1,3-9", 6, "1,3-5", 4),
            ("1,8-9", 6, "1", 1),
            ("a,1,b-3,2-c,5-4,-1", 10, "1", 1),
        ] {
            let indexes = Indexes::parse(text, completions);
            assert_eq!((indexes.to_string(), indexes.len()), (expected.to_owned(), len), "{text}");
            assert_eq!(indexes.is_empty(), len == 0);
        }
    }

    #[test]
    fn union_contains_and_common() {
        let evens: Indexes = [4, 0, 2].into_iter().collect();
        let odds: Indexes = [1, 5, 1].into_iter().collect();
        assert_eq!(evens.union(&odds).to_string(), "0-2,4,5");
        assert!(evens.contains(4) && !evens.contains(3) && !Indexes::default().contains(0));
        assert_eq!(evens.common(&Indexes::parse("1-3,4-9", 10)), 2);
        assert_eq!(evens.common(&odds), 0);
    }

    #[test]
    fn first_missing_skips_contained_indexes() {
        let some = Indexes::parse("1-2,5", 10);
        assert_eq!(some.first_missing(3, 8), [0, 3, 4]);
        assert_eq!(some.first_missing(9, 8), [0, 3, 4, 6, 7]);
        assert_eq!(some.first_missing(9, 4), [0, 3]);
        assert!(some.first_missing(0, 8).is_empty() && some.first_missing(2, 0).is_empty());
    }
}
