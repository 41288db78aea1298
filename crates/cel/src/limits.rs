//! Limits on the size of expressions and values, so that hostile input has a low cost.

/// Maximum length of an expression, in characters; the same as in cel-go's parser.
pub(crate) const MAX_EXPRESSION_CHARS: usize = 100_000;

/// Maximum nesting of an expression. cel-go counts for each grammar rule; this is a single count,
/// which bounds the stack of all recursion over the tree.
pub(crate) const MAX_NESTING: u16 = 250;

/// Maximum depth of the tree after macro expansion: a macro adds a few levels.
pub(crate) const MAX_TREE_DEPTH: u16 = 400;

/// Maximum number of nodes of a tree. Macros such as `optMap` copy their target, so nested ones
/// would double the tree each time.
pub(crate) const MAX_TREE_NODES: usize = 200_000;

/// Maximum number of errors reported per expression; the rest is only counted, as in cel-go.
pub(crate) const MAX_ISSUES: usize = 100;

/// Maximum length of a source line shown below an error.
pub(crate) const MAX_SNIPPET_BYTES: usize = 16_384;

/// Maximum size of a compiled regular expression. The default of the regex crate is 10 MiB, which
/// is more than an API validation rule needs and too much for thousands of rules.
pub(crate) const MAX_REGEX_BYTES: usize = 1 << 20;

/// Maximum length of a string created by evaluation. The cost of a string is charged after its
/// creation, so `replace` and `join` could create far longer ones before the budget stops them.
pub(crate) const MAX_STRING_BYTES: usize = 16 << 20;

/// Maximum number of elements of a list created by evaluation. Concatenation costs one unit
/// regardless of the length.
pub(crate) const MAX_LIST_ELEMENTS: usize = 4 << 20;

/// Maximum nesting of values created by evaluation, so that recursive comparison and formatting do
/// not exhaust the stack.
pub(crate) const MAX_VALUE_DEPTH: usize = 200;
