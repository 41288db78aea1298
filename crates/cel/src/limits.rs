//! Bounds on what an expression may be and do. Each is there so that hostile input costs little, whoever
//! wrote it.

/// Longest expression, in characters; upstream's parser has the same limit.
pub(crate) const MAX_EXPRESSION_CHARS: usize = 100_000;

/// How deep an expression may nest. Upstream counts this for each rule of its grammar; here it is one count,
/// which bounds the stack of everything that walks the tree afterwards.
pub(crate) const MAX_NESTING: u16 = 250;

/// How deep the tree may be after macros were expanded: a macro adds a few levels of its own.
pub(crate) const MAX_TREE_DEPTH: u16 = 400;

/// Most nodes of one tree. Macros such as `optMap` copy their target, so nested ones would double the tree
/// each time.
pub(crate) const MAX_TREE_NODES: usize = 200_000;

/// Most errors told about one expression; the rest is only counted, as upstream does.
pub(crate) const MAX_ISSUES: usize = 100;

/// Longest line shown below an error.
pub(crate) const MAX_SNIPPET_BYTES: usize = 16_384;

/// Largest compiled form of one regular expression. The default of the regex crate is 10 MiB, which is more
/// than a rule of an API needs and too much for thousands of them.
pub(crate) const MAX_REGEX_BYTES: usize = 1 << 20;

/// Longest string that evaluation makes. Strings are paid for by their length after they are made, so
/// `replace` and `join` could make far longer ones before anyone looks at the bill.
pub(crate) const MAX_STRING_BYTES: usize = 16 << 20;

/// Most elements of a list that evaluation makes. Joining lists costs one unit however long they are.
pub(crate) const MAX_LIST_ELEMENTS: usize = 4 << 20;

/// How deep values made by evaluation may nest, so that comparing and printing them stays on the stack.
pub(crate) const MAX_VALUE_DEPTH: usize = 200;
