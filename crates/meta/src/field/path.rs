//! Paths of fields, for validation errors.

use std::fmt;

/// The path of a field, such as `spec.containers[0].ports[1].name`.
///
/// Validation builds paths for every field but prints them only for errors, so a path is a chain of
/// borrowed links and building one allocates nothing. A name may contain several elements:
/// `path.child("spec.template")`.
#[derive(Clone, Copy, Debug)]
pub struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Step<'a> {
    /// The empty path.
    Nil,
    Name(&'a str),
    Index(usize),
    Key(&'a str),
}

impl<'a> Path<'a> {
    /// The empty path. It prints as `<nil>`, and its children are roots.
    pub const NIL: Path<'static> = Path { parent: None, step: Step::Nil };

    /// Creates the path of a top-level field.
    pub const fn root(name: &'a str) -> Self {
        Self { parent: None, step: Step::Name(name) }
    }

    /// Creates the path of a field of this object.
    pub fn child<'b>(&'b self, name: &'b str) -> Path<'b>
    where
        'a: 'b,
    {
        self.with(Step::Name(name))
    }

    /// Creates the path of an item of this list.
    pub fn index<'b>(&'b self, index: usize) -> Path<'b>
    where
        'a: 'b,
    {
        self.with(Step::Index(index))
    }

    /// Creates the path of a value of this map.
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
        let parent = if matches!(self.step, Step::Nil) { None } else { Some(self) };
        Path { parent, step }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        match self.step {
            Step::Nil => f.write_str("<nil>"),
            Step::Index(index) => write!(f, "[{index}]"),
            // apimachinery stores names and keys in the same field and prints an empty name as a
            // key.
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
    fn paths_are_formatted_as_in_kube_apiserver() {
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
