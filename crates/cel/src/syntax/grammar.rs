//! Recursive-descent parser. Error messages match those of cel-go's generated parser where
//! possible; parsing stops at the first error other than a superfluous token.

use std::sync::Arc;

use crate::ast::{Expr, ExprId, Tree};
use crate::limits::{MAX_EXPRESSION_CHARS, MAX_NESTING};
use crate::names::{
    ADD, AND, CONDITIONAL, DIVIDE, EQUALS, GREATER, GREATER_EQUALS, IN, INDEX, LESS, LESS_EQUALS, MODULO,
    MULTIPLY, NEGATE, NOT, NOT_EQUALS, OPT_INDEX, OPT_SELECT, OR, SUBTRACT,
};
use crate::source::{CompileError, Issues, NOWHERE, Offset, Source};

use super::builder::Builder;
use super::cursor::{Halt, Parsed, Parser, starts};
use super::lexer::{Kind, Token, tokens};
use super::macros::expand;

/// Syntax extensions that an environment enables.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Dialect {
    /// The macro `cel.bind`.
    pub(crate) bindings: bool,
    /// Field names in backticks.
    pub(crate) escaped_identifiers: bool,
}

/// Parses an expression.
///
/// # Errors
/// If the syntax is invalid.
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
    fn start(&mut self) -> Parsed {
        let root = self.expr("")?;
        let token = self.token();
        if token.kind != Kind::End {
            let problem = if self.following().kind == Kind::End { "extraneous" } else { "mismatched" };
            let text = self.token_text(token);
            self.syntax_error(token, &format!("{problem} input '{text}' expecting <EOF>"));
        }
        Ok(root)
    }

    /// Parses an expression; `also` is a further token that is valid here, for the error message.
    pub(super) fn expr(&mut self, also: &str) -> Parsed {
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

    /// Parses a chain of `||` or `&&` to a balanced tree.
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

    /// Parses relations, sums and products, all left-associative.
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
        while self.is(sign) {
            self.advance();
            count += 1;
        }
        if self.token().kind == Kind::End {
            return self.sign_without_operand(sign);
        }
        let operand = self.member("")?;
        Ok(if count % 2 == 0 { operand } else { self.call(first.start, function, vec![operand]) })
    }

    fn sign_without_operand(&mut self, sign: &str) -> Parsed {
        let token = self.token();
        if sign == "!" {
            self.syntax_error(token, &format!("extraneous input '<EOF>' expecting {}", starts("")));
            return Err(Halt);
        }
        self.syntax_error(token, "no viable alternative at input '-'");
        self.no_primary("")
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
            if optional {
                let text = self.token_text(token);
                let message = format!("mismatched input '{text}' expecting {{IDENTIFIER, ESC_IDENTIFIER}}");
                self.syntax_error(token, &message);
                self.issues.report(token.start, "unsupported ident kind");
                return Err(Halt);
            }
            let message = match token.kind {
                Kind::Fixed(word @ ("true" | "false" | "null")) => {
                    format!("mismatched input '{word}' expecting IDENTIFIER")
                }
                Kind::End => "no viable alternative at input '.'".to_owned(),
                _ => format!("no viable alternative at input '.{}'", self.token_text(token)),
            };
            self.syntax_error(token, &message);
            if token.kind == Kind::Fixed("in")
                && matches!(self.following().kind, Kind::End | Kind::Fixed("+"))
            {
                // Continue parsing as if the operator had been intended.
                return Ok(self.tree.add(dot.start, Expr::Unspecified));
            }
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

    /// Parses a field name, plain or in backticks.
    pub(super) fn field_name(&mut self) -> Parsed<Option<Arc<str>>> {
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

    fn call(&mut self, offset: Offset, function: &str, args: Vec<ExprId>) -> ExprId {
        self.tree.add(offset, Expr::Call { function: function.into(), target: None, args })
    }

    pub(super) fn call_or_macro(
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
            Err((position, message)) => {
                self.issues.report(position, message);
                Ok(self.tree.add(offset, Expr::Unspecified))
            }
        }
    }
}
