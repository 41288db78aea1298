//! Lexer, parser and macro expansion.

mod builder;
mod comprehensions;
mod cursor;
mod grammar;
mod lexer;
mod literals;
mod macros;
mod primary;
mod unescape;

pub(crate) use grammar::{Dialect, parse};
