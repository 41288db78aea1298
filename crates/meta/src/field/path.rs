//! The way from an object's root to one of its fields.

use std::fmt;

/// A path, such as `spec.containers[0].ports[1].name`.
///
/// Paths are built on the way down and printed only when something is wrong, so a path
/// is a chain of borrowed links and building one allocates nothing. A name may hold
/// several steps: `path.child("spec.template")`.
#[derive(Clone, Copy, Debug)]
pub struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Step<'a> {
    /// No path at all.
    Nowhere,
    Name(&'a str),
    Index(usize),
    Key(&'a str),
}

impl<'a> Path<'a> {
    /// No path. It prints as `<nil>`, and its children are roots.
    pub const NIL: Path<'static> = Path { parent: None, step: Step::Nowhere };

    /// A field of the root.
    pub const fn root(name: &'a str) -> Self {
        Self { parent: None, step: Step::Name(name) }
    }

    /// A field of what stands here.
    pub fn child<'b>(&'b self, name: &'b str) -> Path<'b>
    where
        'a: 'b,
    {
        self.with(Step::Name(name))
    }

    /// An item of the list that stands here.
    pub fn index<'b>(&'b self, index: usize) -> Path<'b>
    where
        'a: 'b,
    {
        self.with(Step::Index(index))
    }

    /// A value of the map that stands here.
    pub fn key<'b>(&'b self, key: &'b str) -> Path<'b>
    where
        'a: 'b,
    {
        self.with(Step::Key(key))
    }

    fn with<'b>(&'b self, step: Step<'b>) -> Path<'b>
    where
        'a: 'b,
    {
        let parent = if matches!(self.step, Step::Nowhere) { None } else { Some(self) };
        Path { parent, step }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        match self.step {
            Step::Nowhere => f.write_str("<nil>"),
            Step::Index(index) => write!(f, "[{index}]"),
            // Upstream keeps names and keys in one place and takes an empty name for a key.
            Step::Key(key) => write!(f, "[{key}]"),
            Step::Name("") => f.write_str("[]"),
            Step::Name(name) if self.parent.is_some() => write!(f, ".{name}"),
            Step::Name(name) => f.write_str(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_print_as_in_upstream_messages() {
        let spec = Path::root("spec");
        let containers = spec.child("containers");
        let container = containers.index(0);
        let ports = container.child("ports");
        assert_eq!(ports.index(1).child("name").to_string(), "spec.containers[0].ports[1].name");
        assert_eq!(Path::root("metadata.labels").key("foo").to_string(), "metadata.labels[foo]");
        assert_eq!(Path::NIL.to_string(), "<nil>");
        assert_eq!(Path::NIL.child("key").to_string(), "key");
    }
}
