//! What can be done with objects.

/// What can be done with objects of a kind: a set.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Verbs(u16);

impl Verbs {
    /// POST.
    pub const CREATE: Verbs = Verbs(1);
    /// DELETE of one.
    pub const DELETE: Verbs = Verbs(1 << 1);
    /// DELETE of many.
    pub const DELETE_COLLECTION: Verbs = Verbs(1 << 2);
    /// GET of one.
    pub const GET: Verbs = Verbs(1 << 3);
    /// GET of many.
    pub const LIST: Verbs = Verbs(1 << 4);
    /// PATCH.
    pub const PATCH: Verbs = Verbs(1 << 5);
    /// PUT.
    pub const UPDATE: Verbs = Verbs(1 << 6);
    /// GET of changes.
    pub const WATCH: Verbs = Verbs(1 << 7);
    /// All of them.
    pub const ALL: Verbs = Verbs(0xff);
    /// GET, PATCH and PUT: what a status subresource offers.
    pub const STATUS: Verbs = Verbs::GET.with(Verbs::PATCH).with(Verbs::UPDATE);

    /// In the order in which discovery lists them, which is that of the alphabet.
    const NAMES: [&'static str; 8] =
        ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

    /// Both.
    #[must_use]
    pub const fn with(self, other: Verbs) -> Verbs {
        Verbs(self.0 | other.0)
    }

    /// These but not those.
    #[must_use]
    pub const fn without(self, other: Verbs) -> Verbs {
        Verbs(self.0 & !other.0)
    }

    /// Whether all of those are among these.
    pub const fn contain(self, other: Verbs) -> bool {
        self.0 & other.0 == other.0
    }

    /// Their names, ascending.
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
    fn verbs_are_listed_in_the_order_of_the_alphabet() {
        let names: Vec<_> = Verbs::ALL.names().collect();
        assert!(names.is_sorted() && names.len() == 8);
        assert_eq!(Verbs::STATUS.names().collect::<Vec<_>>(), ["get", "patch", "update"]);
        assert!(!Verbs::ALL.without(Verbs::WATCH).contain(Verbs::WATCH));
    }
}
