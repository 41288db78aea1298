//! Names of operators in the syntax tree; error messages contain them.

pub(crate) const CONDITIONAL: &str = "_?_:_";
pub(crate) const AND: &str = "_&&_";
pub(crate) const OR: &str = "_||_";
pub(crate) const NOT: &str = "!_";
pub(crate) const NEGATE: &str = "-_";
pub(crate) const EQUALS: &str = "_==_";
pub(crate) const NOT_EQUALS: &str = "_!=_";
pub(crate) const LESS: &str = "_<_";
pub(crate) const LESS_EQUALS: &str = "_<=_";
pub(crate) const GREATER: &str = "_>_";
pub(crate) const GREATER_EQUALS: &str = "_>=_";
pub(crate) const IN: &str = "@in";
pub(crate) const ADD: &str = "_+_";
pub(crate) const SUBTRACT: &str = "_-_";
pub(crate) const MULTIPLY: &str = "_*_";
pub(crate) const DIVIDE: &str = "_/_";
pub(crate) const MODULO: &str = "_%_";
pub(crate) const INDEX: &str = "_[_]";
pub(crate) const OPT_INDEX: &str = "_[?_]";
pub(crate) const OPT_SELECT: &str = "_?._";
pub(crate) const NOT_STRICTLY_FALSE: &str = "@not_strictly_false";
pub(crate) const MAP_INSERT: &str = "cel.@mapInsert";
pub(crate) const SORT_BY_KEYS: &str = "@sortByAssociatedKeys";

/// Name of the accumulator of comprehensions, which no expression can spell.
pub(crate) const ACCUMULATOR: &str = "@result";
/// Its name in older versions of cel-go; still reserved.
pub(crate) const OLD_ACCUMULATOR: &str = "__result__";
/// Name of the unused variable of folds that only bind a name.
pub(crate) const UNUSED: &str = "#unused";

/// Reserved words of CEL. Fields with these names are escaped: `__namespace__`.
pub(crate) const RESERVED: &[&str] = &[
    "as",
    "break",
    "const",
    "continue",
    "else",
    "false",
    "for",
    "function",
    "if",
    "import",
    "in",
    "let",
    "loop",
    "namespace",
    "null",
    "package",
    "return",
    "true",
    "var",
    "void",
    "while",
];

/// Returns true if the text is a valid name of a variable.
pub fn is_identifier(text: &str) -> bool {
    text.starts_with(|first: char| first == '_' || first.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte == b'_' || byte.is_ascii_alphanumeric())
        && !RESERVED.contains(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_identifier_accepts_valid_cel_identifiers() {
        for (text, expected) in [("a_1", true), ("_", true), ("1a", false), ("a-b", false), ("while", false)]
        {
            assert_eq!(is_identifier(text), expected, "{text}");
        }
        assert!(RESERVED.is_sorted());
    }
}
