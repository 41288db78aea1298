//! Parser state: access to the tokens, and syntax errors for unexpected ones.

use crate::ast::{ExprId, Tree};
use crate::source::Issues;

use super::grammar::Dialect;
use super::lexer::{Kind, Token};

/// Parsing stopped; the error has been reported.
pub(super) struct Halt;

pub(super) type Parsed<T = ExprId> = Result<T, Halt>;

pub(super) struct Parser<'a> {
    pub(super) text: &'a str,
    pub(super) tokens: Vec<Token>,
    pub(super) at: usize,
    pub(super) depth: u16,
    pub(super) tree: Tree,
    pub(super) issues: Issues,
    pub(super) dialect: Dialect,
}

/// Tokens that can start an expression, in the order of cel-go's token numbers.
const STARTS: [&str; 15] = [
    "'['",
    "'{'",
    "'('",
    "'.'",
    "'-'",
    "'!'",
    "'true'",
    "'false'",
    "'null'",
    "NUM_FLOAT",
    "NUM_INT",
    "NUM_UINT",
    "STRING",
    "BYTES",
    "IDENTIFIER",
];

impl Parser<'_> {
    pub(super) fn token(&self) -> Token {
        self.tokens[self.at]
    }

    /// Returns the token after the current one, or the end.
    pub(super) fn following(&self) -> Token {
        self.tokens[(self.at + 1).min(self.tokens.len() - 1)]
    }

    pub(super) fn advance(&mut self) -> Token {
        let token = self.token();
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        token
    }

    pub(super) fn is(&self, fixed: &str) -> bool {
        matches!(self.token().kind, Kind::Fixed(found) if found == fixed)
    }

    pub(super) fn eat(&mut self, fixed: &str) -> Option<Token> {
        self.is(fixed).then(|| self.advance())
    }

    pub(super) fn text_of(&self, token: Token) -> &str {
        &self.text[token.start as usize..token.end as usize]
    }

    /// Returns the text of a token for error messages.
    pub(super) fn token_text(&self, token: Token) -> String {
        if token.kind == Kind::End { "<EOF>".to_owned() } else { self.text_of(token).to_owned() }
    }

    pub(super) fn syntax_error(&mut self, token: Token, message: &str) {
        self.issues.report(token.start, format!("Syntax error: {message}"));
    }

    /// Consumes the only token that may be here.
    pub(super) fn expect(&mut self, fixed: &str, expected: &str) -> Parsed<Token> {
        if let Some(token) = self.eat(fixed) {
            return Ok(token);
        }
        let token = self.token();
        let text = self.token_text(token);
        if matches!(self.following().kind, Kind::Fixed(next) if next == fixed) {
            self.syntax_error(token, &format!("extraneous input '{text}' expecting {expected}"));
            self.advance();
            return Ok(self.advance());
        }
        let insertable = match fixed {
            ")" | "]" => token.kind == Kind::End && !expected.starts_with('{'),
            ":" => begins_primary(token.kind),
            _ => false,
        };
        if insertable {
            self.syntax_error(token, &format!("missing {expected} at '{text}'"));
        } else {
            self.syntax_error(token, &format!("mismatched input '{text}' expecting {expected}"));
        }
        Err(Halt)
    }
}

pub(super) fn begins_primary(kind: Kind) -> bool {
    match kind {
        Kind::Fixed(fixed) => ["[", "{", "(", ".", "-", "!", "true", "false", "null"].contains(&fixed),
        Kind::EscapedIdent | Kind::End => false,
        _ => true,
    }
}

/// Lists the tokens that can start an expression, as in cel-go's messages.
pub(super) fn starts(also: &str) -> String {
    // Positions according to cel-go's token numbers, inserted from the end so that they do not
    // shift each other.
    let more: &[(usize, &str)] = match also {
        ")" => &[(3, "')'")],
        "?" => &[(6, "'?'")],
        "]" => &[(6, "'?'"), (4, "','"), (1, "']'")],
        "}" => &[(6, "'?'"), (4, "','"), (2, "'}'")],
        _ => &[],
    };
    let mut all = STARTS.to_vec();
    for (position, token) in more {
        all.insert(*position, token);
    }
    format!("{{{}}}", all.join(", "))
}
