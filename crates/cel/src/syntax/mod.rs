//! From text to trees.

mod builder;
mod comprehensions;
mod grammar;
mod lexer;
mod literals;
mod macros;
mod unescape;

pub(crate) use grammar::{Dialect, parse};
