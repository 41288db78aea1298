//! Sets of API verbs.

/// A set of API verbs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Verbs(u16);

impl Verbs {
    /// `create`: POST.
    pub const CREATE: Verbs = Verbs(1);
    /// `delete`: DELETE of one object.
    pub const DELETE: Verbs = Verbs(1 << 1);
    /// `deletecollection`: DELETE of a collection.
    pub const DELETE_COLLECTION: Verbs = Verbs(1 << 2);
    /// `get`: GET of one object.
    pub const GET: Verbs = Verbs(1 << 3);
    /// `list`: GET of a collection.
    pub const LIST: Verbs = Verbs(1 << 4);
    /// `patch`: PATCH.
    pub const PATCH: Verbs = Verbs(1 << 5);
    /// `update`: PUT.
    pub const UPDATE: Verbs = Verbs(1 << 6);
    /// `watch`: GET of changes.
    pub const WATCH: Verbs = Verbs(1 << 7);
    /// All verbs.
    pub const ALL: Verbs = Verbs(0xff);
    /// GET, PATCH and PUT: the verbs of a status subresource.
    pub const STATUS: Verbs = Verbs::GET.with(Verbs::PATCH).with(Verbs::UPDATE);

    /// Names in the order of the bits and of discovery, which is alphabetical.
    const NAMES: [&'static str; 8] =
        ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

    /// The union of two sets.
    #[must_use]
    pub const fn with(self, other: Verbs) -> Verbs {
        Verbs(self.0 | other.0)
    }

    /// The difference of two sets.
    #[must_use]
    pub const fn without(self, other: Verbs) -> Verbs {
        Verbs(self.0 & !other.0)
    }

    /// Whether the set contains all verbs of another.
    pub const fn contain(self, other: Verbs) -> bool {
        self.0 & other.0 == other.0
    }

    /// Names of the verbs, in alphabetical order.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES
            .into_iter()
            .enumerate()
            .filter(move |(bit, _)| self.0 & 1 << bit != 0)
            .map(|(_, name)| name)
    }
}

impl std::fmt::Debug for Verbs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verb_names_are_in_alphabetical_order() {
        let names: Vec<_> = Verbs::ALL.names().collect();
        assert!(names.is_sorted() && names.len() == 8);
        assert_eq!(Verbs::STATUS.names().collect::<Vec<_>>(), ["get", "patch", "update"]);
        assert!(!Verbs::ALL.without(Verbs::WATCH).contain(Verbs::WATCH));
    }
}
