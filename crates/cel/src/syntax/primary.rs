//! Parsing of primary expressions: names, literals, lists, maps and objects.

use crate::ast::{Element, Entry, Expr, ExprId, Field};
use crate::names::RESERVED;

use super::cursor::{Halt, Parsed, Parser, begins_primary, starts};
use super::lexer::{Kind, Token};
use super::literals::literal;

impl Parser<'_> {
    pub(super) fn primary(&mut self, also: &str) -> Parsed {
        let mut token = self.token();
        if !begins_primary(token.kind) && begins_primary(self.following().kind) && token.kind != Kind::End {
            let message = format!("extraneous input '{}' expecting {}", self.token_text(token), starts(also));
            self.syntax_error(token, &message);
            self.advance();
            token = self.token();
        }
        match token.kind {
            Kind::Ident => self.name(token, ""),
            Kind::Fixed(".") if self.following().kind == Kind::Ident => {
                self.advance();
                let name = self.token();
                self.name(name, ".")
            }
            Kind::Fixed("(") => {
                self.advance();
                let inner = self.expr("")?;
                self.expect(")", "')'")?;
                Ok(inner)
            }
            Kind::Fixed("[") => self.list(),
            Kind::Fixed("{") => self.map(),
            Kind::Fixed("-") => {
                self.advance();
                self.constant(token, true).or_else(|Halt| self.no_negative())
            }
            _ => self.constant(token, false).or_else(|Halt| self.no_primary(also)),
        }
    }

    /// Reports a minus sign that is neither an operator here nor part of a number.
    fn no_negative(&mut self) -> Parsed {
        let token = self.token();
        let message = format!("no viable alternative at input '-{}'", self.token_text(token));
        self.syntax_error(token, &message);
        Err(Halt)
    }

    pub(super) fn no_primary(&mut self, also: &str) -> Parsed {
        let token = self.token();
        let message = format!("mismatched input '{}' expecting {}", self.token_text(token), starts(also));
        self.syntax_error(token, &message);
        Err(Halt)
    }

    fn constant(&mut self, first: Token, negative: bool) -> Parsed {
        let token = self.token();
        match literal(token.kind, self.text_of(token), negative) {
            None => Err(Halt),
            Some(Ok(value)) => {
                self.advance();
                Ok(self.tree.add(first.start, Expr::Literal(value)))
            }
            Some(Err(message)) => {
                self.advance();
                self.issues.report(first.start, message);
                Ok(self.tree.add(first.start, Expr::Unspecified))
            }
        }
    }

    /// Parses an identifier, a call, or an object literal.
    fn name(&mut self, token: Token, leading: &str) -> Parsed {
        if let Some(name) = self.object_name() {
            return self.object(leading, &name);
        }
        self.advance();
        let text = self.text_of(token).to_owned();
        let start = if leading.is_empty() { token.start } else { token.start.saturating_sub(1) };
        if RESERVED.contains(&text.as_str()) {
            self.issues.report(start, format!("reserved identifier: {text}"));
            if self.eat("(").is_some() {
                self.arguments()?;
            }
            return Ok(self.tree.add(start, Expr::Unspecified));
        }
        let name = format!("{leading}{text}");
        match self.eat("(") {
            Some(open) => {
                let args = self.arguments()?;
                self.call_or_macro(open.start, &name, None, args)
            }
            None => Ok(self.tree.add(token.start, Expr::Ident(name.into()))),
        }
    }

    /// Returns the type name of an object literal, if braces follow the name.
    fn object_name(&self) -> Option<String> {
        let mut name = String::new();
        let mut at = self.at;
        loop {
            let token = self.tokens.get(at).filter(|token| token.kind == Kind::Ident)?;
            name.push_str(self.text_of(*token));
            match self.tokens.get(at + 1)?.kind {
                Kind::Fixed(".") => name.push('.'),
                Kind::Fixed("{") => return Some(name),
                _ => return None,
            }
            at += 2;
        }
    }

    fn object(&mut self, leading: &str, name: &str) -> Parsed {
        while !self.is("{") {
            self.advance();
        }
        let open = self.advance();
        let mut fields = Vec::new();
        while !self.is("}") {
            let optional = self.eat("?").is_some();
            let Some(name) = self.field_name()? else {
                let token = self.token();
                let expected = "{'}', ',', '?', IDENTIFIER, ESC_IDENTIFIER}";
                let message = format!("mismatched input '{}' expecting {expected}", self.token_text(token));
                self.syntax_error(token, &message);
                return Err(Halt);
            };
            let colon = self.expect(":", "':'")?;
            let value = self.expr("")?;
            fields.push(Field { offset: colon.start, name, value, optional });
            if self.eat(",").is_none() {
                break;
            }
        }
        self.expect("}", "{'}', ','}")?;
        Ok(self.tree.add(open.start, Expr::Struct { name: format!("{leading}{name}").into(), fields }))
    }

    fn list(&mut self) -> Parsed {
        let open = self.advance();
        let mut elements = Vec::new();
        let mut more = true;
        while more && !self.is("]") && !(elements.is_empty() && self.is(",")) {
            if self.is(",") {
                break;
            }
            let optional = self.eat("?").is_some();
            let value = self.expr(if elements.is_empty() { "]" } else { "" })?;
            elements.push(Element { value, optional });
            more = self.eat(",").is_some();
        }
        if elements.is_empty() {
            self.eat(",");
        }
        self.expect("]", if more { "']'" } else { "{']', ','}" })?;
        Ok(self.tree.add(open.start, Expr::List(elements)))
    }

    fn map(&mut self) -> Parsed {
        let open = self.advance();
        let mut entries = Vec::new();
        let mut more = true;
        while more && !self.is("}") && !self.is(",") {
            let optional = self.eat("?").is_some();
            let key = self.expr(if entries.is_empty() { "}" } else { "" })?;
            self.expect(":", "':'")?;
            let value = self.expr("")?;
            entries.push(Entry { key, value, optional });
            more = self.eat(",").is_some();
        }
        if entries.is_empty() {
            self.eat(",");
        }
        self.expect("}", if more { "'}'" } else { "{'}', ','}" })?;
        Ok(self.tree.add(open.start, Expr::Map(entries)))
    }

    pub(super) fn arguments(&mut self) -> Parsed<Vec<ExprId>> {
        let mut args = Vec::new();
        if self.eat(")").is_some() {
            return Ok(args);
        }
        args.push(self.expr(")")?);
        while self.eat(",").is_some() {
            args.push(self.expr("")?);
        }
        self.expect(")", "')'")?;
        Ok(args)
    }
}
