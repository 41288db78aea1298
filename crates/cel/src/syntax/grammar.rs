//! The grammar, by recursive descent. Errors are told in the words of upstream's generated parser where that
//! is possible; after the first one that is no mere surplus token, reading stops.

use std::sync::Arc;

use crate::ast::{Element, Entry, Expr, ExprId, Field, Tree};
use crate::limits::{MAX_EXPRESSION_CHARS, MAX_NESTING};
use crate::names::{
    ADD, AND, CONDITIONAL, DIVIDE, EQUALS, GREATER, GREATER_EQUALS, IN, INDEX, LESS, LESS_EQUALS, MODULO,
    MULTIPLY, NEGATE, NOT, NOT_EQUALS, OPT_INDEX, OPT_SELECT, OR, RESERVED, SUBTRACT,
};
use crate::source::{CompileError, Issues, NOWHERE, Offset, Source};

use super::builder::Builder;
use super::lexer::{Kind, Token, tokens};
use super::literals::literal;
use super::macros::expand;

/// What an environment adds to the language.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Dialect {
    /// `cel.bind`.
    pub(crate) bindings: bool,
    /// Fields in backticks.
    pub(crate) escaped_identifiers: bool,
}

/// Reads an expression.
///
/// # Errors
/// When it is malformed.
pub(crate) fn parse(source: &Source, dialect: Dialect) -> Result<(Tree, ExprId), CompileError> {
    let mut issues = Issues::new(source.clone());
    let size = source.text().chars().count();
    if size > MAX_EXPRESSION_CHARS {
        let message =
            format!("expression code point size exceeds limit: size: {size}, limit {MAX_EXPRESSION_CHARS}");
        issues.report(NOWHERE, message);
        return Err(issues.into_error());
    }
    let tokens = tokens(source.text(), &mut issues);
    let mut parser =
        Parser { text: source.text(), tokens, at: 0, depth: 0, tree: Tree::default(), issues, dialect };
    let root = parser.start();
    if parser.tree.is_too_large() {
        parser.issues.report(NOWHERE, recursion_limit());
    }
    match root {
        Ok(root) if parser.issues.is_empty() => Ok((parser.tree, root)),
        _ => Err(parser.issues.into_error()),
    }
}

fn recursion_limit() -> String {
    format!("expression recursion limit exceeded: {MAX_NESTING}")
}

/// Reading cannot go on; the reason was told.
struct Halt;

type Parsed<T = ExprId> = Result<T, Halt>;

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Token>,
    at: usize,
    depth: u16,
    tree: Tree,
    issues: Issues,
    dialect: Dialect,
}

/// What may begin an expression, in the order of upstream's token numbers; the marks between are places for
/// what else may stand there.
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

const RELATIONS: &[(&str, &str)] = &[
    ("<", LESS),
    ("<=", LESS_EQUALS),
    (">=", GREATER_EQUALS),
    (">", GREATER),
    ("==", EQUALS),
    ("!=", NOT_EQUALS),
    ("in", IN),
];
const SUMS: &[(&str, &str)] = &[("+", ADD), ("-", SUBTRACT)];
const PRODUCTS: &[(&str, &str)] = &[("*", MULTIPLY), ("/", DIVIDE), ("%", MODULO)];

impl Parser<'_> {
    fn token(&self) -> Token {
        self.tokens[self.at]
    }

    /// The token after the next one, or the end.
    fn following(&self) -> Token {
        self.tokens[(self.at + 1).min(self.tokens.len() - 1)]
    }

    fn advance(&mut self) -> Token {
        let token = self.token();
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        token
    }

    fn is(&self, fixed: &str) -> bool {
        matches!(self.token().kind, Kind::Fixed(found) if found == fixed)
    }

    fn eat(&mut self, fixed: &str) -> Option<Token> {
        self.is(fixed).then(|| self.advance())
    }

    fn text_of(&self, token: Token) -> &str {
        &self.text[token.start as usize..token.end as usize]
    }

    fn shown(&self, token: Token) -> String {
        if token.kind == Kind::End { "<EOF>".to_owned() } else { self.text_of(token).to_owned() }
    }

    fn syntax_error(&mut self, token: Token, message: &str) {
        self.issues.report(token.start, format!("Syntax error: {message}"));
    }

    /// The one token that must be here.
    fn expect(&mut self, fixed: &str, expected: &str) -> Parsed<Token> {
        if let Some(token) = self.eat(fixed) {
            return Ok(token);
        }
        let token = self.token();
        let shown = self.shown(token);
        if matches!(self.following().kind, Kind::Fixed(next) if next == fixed) {
            self.syntax_error(token, &format!("extraneous input '{shown}' expecting {expected}"));
            self.advance();
            return Ok(self.advance());
        }
        if fixed == ")" && token.kind == Kind::End {
            self.syntax_error(token, &format!("missing {expected} at '{shown}'"));
        } else {
            self.syntax_error(token, &format!("mismatched input '{shown}' expecting {expected}"));
        }
        Err(Halt)
    }

    fn start(&mut self) -> Parsed {
        let root = self.expr("")?;
        let token = self.token();
        if token.kind != Kind::End {
            let surplus = if self.following().kind == Kind::End { "extraneous" } else { "mismatched" };
            let shown = self.shown(token);
            self.syntax_error(token, &format!("{surplus} input '{shown}' expecting <EOF>"));
        }
        Ok(root)
    }

    /// An expression; `also` is what might stand in its place, for the message if there is neither.
    fn expr(&mut self, also: &str) -> Parsed {
        if self.depth >= MAX_NESTING {
            self.issues.report(NOWHERE, recursion_limit());
            return Err(Halt);
        }
        self.depth += 1;
        let found = self.conditional(also);
        self.depth -= 1;
        found
    }

    fn conditional(&mut self, also: &str) -> Parsed {
        let condition = self.logic(OR, also)?;
        let Some(operator) = self.eat("?") else { return Ok(condition) };
        let truthy = self.logic(OR, "")?;
        self.expect(":", "':'")?;
        let falsy = self.expr("")?;
        Ok(self.call(operator.start, CONDITIONAL, vec![condition, truthy, falsy]))
    }

    /// A chain of `||`, or of `&&`, as a balanced tree.
    fn logic(&mut self, function: &str, also: &str) -> Parsed {
        let mut terms = vec![self.logic_term(function, also)?];
        let mut operators = Vec::new();
        while let Some(operator) = self.eat(if function == OR { "||" } else { "&&" }) {
            operators.push(operator.start);
            terms.push(self.logic_term(function, "")?);
        }
        Ok(self.balanced(function, &terms, &operators))
    }

    fn logic_term(&mut self, function: &str, also: &str) -> Parsed {
        if function == OR { self.logic(AND, also) } else { self.binary(0, also) }
    }

    fn balanced(&mut self, function: &str, terms: &[ExprId], operators: &[Offset]) -> ExprId {
        if operators.is_empty() {
            return terms[0];
        }
        let middle = operators.len() / 2;
        let left = self.balanced(function, &terms[..=middle], &operators[..middle]);
        let right = self.balanced(function, &terms[middle + 1..], &operators[middle + 1..]);
        self.call(operators[middle], function, vec![left, right])
    }

    /// Relations, sums and products, all of which group to the left.
    fn binary(&mut self, level: usize, also: &str) -> Parsed {
        let Some(operators) = [RELATIONS, SUMS, PRODUCTS].get(level) else { return self.unary(also) };
        let mut left = self.binary(level + 1, also)?;
        loop {
            let Kind::Fixed(found) = self.token().kind else { return Ok(left) };
            let Some((_, function)) = operators.iter().find(|(text, _)| *text == found) else {
                return Ok(left);
            };
            let operator = self.advance();
            let right = self.binary(level + 1, "")?;
            left = self.call(operator.start, function, vec![left, right]);
            if self.tree.is_too_large() {
                return Err(Halt);
            }
        }
    }

    fn unary(&mut self, also: &str) -> Parsed {
        let (sign, function) = match self.token().kind {
            Kind::Fixed("!") => ("!", NOT),
            Kind::Fixed("-") if !matches!(self.following().kind, Kind::Int | Kind::Float) => ("-", NEGATE),
            _ => return self.member(also),
        };
        let first = self.advance();
        let mut count = 1;
        while self.is(sign) && (sign == "!" || self.following().kind != Kind::End) {
            self.advance();
            count += 1;
        }
        let operand = self.member("")?;
        Ok(if count % 2 == 0 { operand } else { self.call(first.start, function, vec![operand]) })
    }

    fn member(&mut self, also: &str) -> Parsed {
        let mut operand = self.primary(also)?;
        loop {
            operand = if let Some(dot) = self.eat(".") {
                self.selection(operand, dot)?
            } else if let Some(bracket) = self.eat("[") {
                let function = if self.eat("?").is_some() { OPT_INDEX } else { INDEX };
                let index = self.expr(if function == INDEX { "?" } else { "" })?;
                self.expect("]", "']'")?;
                self.call(bracket.start, function, vec![operand, index])
            } else {
                return Ok(operand);
            };
            if self.tree.is_too_large() {
                return Err(Halt);
            }
        }
    }

    fn selection(&mut self, operand: ExprId, dot: Token) -> Parsed {
        let optional = self.eat("?").is_some();
        let token = self.token();
        let Some(field) = self.field_name()? else {
            let message = match token.kind {
                Kind::Fixed(word @ ("true" | "false" | "null")) => {
                    format!("mismatched input '{word}' expecting IDENTIFIER")
                }
                Kind::End => "no viable alternative at input '.'".to_owned(),
                _ => format!("no viable alternative at input '.{}'", self.shown(token)),
            };
            self.syntax_error(token, &message);
            return Err(Halt);
        };
        if optional {
            let name = self.tree.add(token.start, Expr::Literal(crate::ast::Literal::String(field)));
            return Ok(self.call(dot.start, OPT_SELECT, vec![operand, name]));
        }
        if token.kind == Kind::Ident
            && let Some(open) = self.eat("(")
        {
            let args = self.arguments()?;
            return self.call_or_macro(open.start, &field, Some(operand), args);
        }
        Ok(self.tree.add(dot.start, Expr::Select { operand, field, test_only: false }))
    }

    /// The name of a field, plain or in backticks.
    fn field_name(&mut self) -> Parsed<Option<Arc<str>>> {
        let token = self.token();
        let text: Arc<str> = match token.kind {
            Kind::Ident => self.text_of(token).into(),
            Kind::EscapedIdent if self.dialect.escaped_identifiers => {
                self.text_of(token).trim_matches('`').into()
            }
            Kind::EscapedIdent => {
                self.issues.report(token.start, "unsupported syntax: '`'");
                self.text_of(token).into()
            }
            _ => return Ok(None),
        };
        self.advance();
        Ok(Some(text))
    }

    fn arguments(&mut self) -> Parsed<Vec<ExprId>> {
        let mut args = Vec::new();
        if self.eat(")").is_some() {
            return Ok(args);
        }
        args.push(self.expr(")")?);
        while self.eat(",").is_some() {
            args.push(self.expr("")?);
        }
        self.expect(")", if self.token().kind == Kind::End { "')'" } else { "{')', ','}" })?;
        Ok(args)
    }

    fn primary(&mut self, also: &str) -> Parsed {
        let mut token = self.token();
        if !begins_primary(token.kind) && begins_primary(self.following().kind) && token.kind != Kind::End {
            let message = format!("extraneous input '{}' expecting {}", self.shown(token), starts(also));
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
                self.constant(token, true)
            }
            _ => self.constant(token, false).or_else(|Halt| self.no_primary(also)),
        }
    }

    fn no_primary(&mut self, also: &str) -> Parsed {
        let token = self.token();
        let message = format!("mismatched input '{}' expecting {}", self.shown(token), starts(also));
        self.syntax_error(token, &message);
        Err(Halt)
    }

    fn constant(&mut self, first: Token, negative: bool) -> Parsed {
        let token = self.token();
        match literal(token.kind, self.text_of(token), negative) {
            None => return Err(Halt),
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

    /// An identifier, a call, or the construction of an object.
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

    /// The name of a type whose fields follow in braces.
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
            let Some(name) = self.field_name()? else { break };
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
            let value = self.expr("")?;
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
            let key = self.expr("")?;
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

    fn call(&mut self, offset: Offset, function: &str, args: Vec<ExprId>) -> ExprId {
        self.tree.add(offset, Expr::Call { function: function.into(), target: None, args })
    }

    fn call_or_macro(
        &mut self,
        offset: Offset,
        function: &str,
        target: Option<ExprId>,
        args: Vec<ExprId>,
    ) -> Parsed {
        let mut build = Builder { tree: &mut self.tree, offset };
        match expand(&mut build, self.dialect, function, target, &args) {
            Ok(Some(expanded)) => Ok(expanded),
            Ok(None) => Ok(self.tree.add(offset, Expr::Call { function: function.into(), target, args })),
            Err((place, message)) => {
                self.issues.report(place, message);
                Ok(self.tree.add(offset, Expr::Unspecified))
            }
        }
    }
}

fn begins_primary(kind: Kind) -> bool {
    match kind {
        Kind::Fixed(fixed) => ["[", "{", "(", ".", "-", "!", "true", "false", "null"].contains(&fixed),
        Kind::EscapedIdent | Kind::End => false,
        _ => true,
    }
}

/// What may begin an expression, as upstream's messages list it.
fn starts(also: &str) -> String {
    let place = match also {
        ")" => 3,
        "?" => 6,
        _ => STARTS.len(),
    };
    let mut all: Vec<String> = STARTS.iter().map(|start| (*start).to_owned()).collect();
    if !also.is_empty() {
        all.insert(place, format!("'{also}'"));
    }
    format!("{{{}}}", all.join(", "))
}
