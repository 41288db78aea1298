//! Identities of objects in the graph, in little memory: common values are shared.

use std::borrow::Borrow;
use std::collections::HashSet;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use coracle_runtime::informer::OwnerReference;

/// Number of interned values that triggers the first removal of unused ones.
const FIRST_PRUNE: usize = 1024;

/// Uid of an object. Servers use UUIDs, but references may contain any text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Uid {
    Uuid([u8; 16]),
    Other(Arc<str>),
}

impl Uid {
    pub(crate) fn new(text: &str) -> Self {
        uuid(text).map_or_else(|| Self::Other(text.into()), Self::Uuid)
    }
}

/// Parses a UUID that would be formatted in the same way.
fn uuid(text: &str) -> Option<[u8; 16]> {
    let groups = [8, 13, 18, 23];
    let bytes = text.as_bytes();
    if bytes.len() != 36 || groups.iter().any(|at| bytes[*at] != b'-') {
        return None;
    }
    let mut digits = bytes.iter().enumerate().filter(|(at, _)| !groups.contains(at)).map(|(_, byte)| *byte);
    let mut digit = || match digits.next()? {
        byte @ b'0'..=b'9' => Some(byte - b'0'),
        byte @ b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut uuid = [0; 16];
    for byte in &mut uuid {
        *byte = digit()? << 4 | digit()?;
    }
    Some(uuid)
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Other(text) => f.write_str(text),
            Self::Uuid(bytes) => {
                for (index, byte) in bytes.iter().enumerate() {
                    if matches!(index, 4 | 6 | 8 | 10) {
                        f.write_str("-")?;
                    }
                    write!(f, "{byte:02x}")?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// API version and kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Type {
    pub(crate) api_version: Box<str>,
    pub(crate) kind: Box<str>,
}

impl Type {
    pub(crate) fn new(api_version: &str, kind: &str) -> Self {
        Self { api_version: api_version.into(), kind: kind.into() }
    }
}

fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// Identity of an object, or of an assumed one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) uid: Uid,
    pub(crate) r#type: Arc<Type>,
    /// Empty for cluster-scoped objects.
    pub(crate) namespace: Arc<str>,
    pub(crate) name: Box<str>,
}

impl Identity {
    /// The identity that a reference in an object in `namespace` points to.
    pub(crate) fn named(namespace: &str, reference: &OwnerReference) -> Self {
        Self {
            uid: Uid::new(&reference.uid),
            r#type: Arc::new(Type::new(&reference.api_version, &reference.kind)),
            namespace: namespace.into(),
            name: reference.name.clone(),
        }
    }

    /// True if a reference has the same API version, kind and name.
    pub(crate) fn is_named_by(&self, reference: &OwnerReference) -> bool {
        *self.r#type.api_version == *reference.api_version
            && *self.r#type.kind == *reference.kind
            && self.name == reference.name
    }

    /// True if it is the object that `named`, a reference of an object in `namespace`, points to. The version does
    /// not matter, because it is the same object in each.
    pub(crate) fn is_meant(&self, named: &Self, namespace: &str) -> bool {
        self.r#type.kind == named.r#type.kind
            && group(&self.r#type.api_version) == group(&named.r#type.api_version)
            && self.name == named.name
            && self.is_reachable_from(namespace)
    }

    /// True if an object in this namespace may have it as its owner.
    pub(crate) fn is_reachable_from(&self, namespace: &str) -> bool {
        self.namespace.is_empty() || *self.namespace == *namespace
    }

    /// True if both have the same type and name.
    pub(crate) fn is_alike(&self, other: &Self) -> bool {
        self.r#type == other.r#type && self.name == other.name
    }
}

impl fmt::Display for Identity {
    /// As Kubernetes formats it in events.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { uid, r#type, namespace, name } = self;
        let Type { api_version, kind } = &**r#type;
        write!(f, "[{api_version}/{kind}, namespace: {namespace}, name: {name}, uid: {uid}]")
    }
}

/// Stores each value once, as long as it is used.
#[derive(Debug)]
pub(super) struct Interner<T: ?Sized> {
    values: HashSet<Arc<T>>,
    prune_at: usize,
}

impl<T: ?Sized + Eq + Hash> Default for Interner<T> {
    fn default() -> Self {
        Self { values: HashSet::new(), prune_at: FIRST_PRUNE }
    }
}

impl<T: ?Sized + Eq + Hash> Interner<T> {
    pub(super) fn intern<Q: ?Sized + Eq + Hash>(
        &mut self,
        value: &Q,
        create: impl FnOnce() -> Arc<T>,
    ) -> Arc<T>
    where
        Arc<T>: Borrow<Q>,
    {
        if let Some(values) = self.values.get(value) {
            return Arc::clone(values);
        }
        if self.values.len() >= self.prune_at {
            self.values.retain(|value| Arc::strong_count(value) > 1);
            self.prune_at = (self.values.len() * 2).max(FIRST_PRUNE);
        }
        let created = create();
        self.values.insert(Arc::clone(&created));
        created
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uids_format_as_written() {
        for text in ["5a7b1c00-0000-4000-8000-0123456789ab", "5A7B1C00-0000-4000-8000-0123456789AB", "", "x"]
        {
            assert_eq!(Uid::new(text).to_string(), text);
        }
        assert!(matches!(Uid::new("5a7b1c00-0000-4000-8000-0123456789ab"), Uid::Uuid(_)));
        assert!(matches!(Uid::new("5A7B1C00-0000-4000-8000-0123456789AB"), Uid::Other(_)));
        assert!(matches!(Uid::new("5a7b1c00+0000-4000-8000-0123456789ab"), Uid::Other(_)));
        assert_eq!(size_of::<Uid>(), 24);
    }

    #[test]
    fn unused_values_are_pruned() {
        let mut names = Interner::<str>::default();
        let kept = names.intern("kept", || "kept".into());
        for index in 0..FIRST_PRUNE {
            let name = index.to_string();
            names.intern(&*name, || name.as_str().into());
        }
        assert!(names.values.len() < FIRST_PRUNE);
        assert!(Arc::ptr_eq(&kept, &names.intern("kept", || unreachable!("it is known"))));
    }
}
