//! Conversion of tokens to literals.

use crate::ast::Literal;

use super::lexer::Kind;
use super::unescape::unescape;

/// Converts a token to a literal, negated if a minus sign precedes it.
///
/// # Errors
/// cel-go's message; `None` if the token is not a literal.
pub(super) fn literal(kind: Kind, text: &str, negative: bool) -> Option<Result<Literal, String>> {
    Some(match kind {
        Kind::Int => int(text, negative).ok_or_else(|| "invalid int literal".to_owned()),
        Kind::Uint => uint(text).ok_or_else(|| "invalid uint literal".to_owned()),
        Kind::Float => float(text, negative).ok_or_else(|| "invalid double literal".to_owned()),
        Kind::String => string(text),
        Kind::Bytes => bytes(text),
        Kind::Fixed("true") => Ok(Literal::Bool(true)),
        Kind::Fixed("false") => Ok(Literal::Bool(false)),
        Kind::Fixed("null") => Ok(Literal::Null),
        _ => return None,
    })
}

fn int(text: &str, negative: bool) -> Option<Literal> {
    let (radix, digits) = radix(text);
    let magnitude = i128::from_str_radix(digits, radix).ok()?;
    i64::try_from(if negative { -magnitude } else { magnitude }).ok().map(Literal::Int)
}

fn uint(text: &str) -> Option<Literal> {
    let (radix, digits) = radix(&text[..text.len() - 1]);
    u64::from_str_radix(digits, radix).ok().map(Literal::Uint)
}

fn radix(text: &str) -> (u32, &str) {
    text.strip_prefix("0x").map_or((10, text), |digits| (16, digits))
}

fn float(text: &str, negative: bool) -> Option<Literal> {
    let value: f64 = text.parse().ok()?;
    value.is_finite().then_some(Literal::Double(if negative { -value } else { value }))
}

fn string(text: &str) -> Result<Literal, String> {
    let bytes = unescape(text, false)?;
    let text = String::from_utf8(bytes).map_err(|_| "unable to unescape string".to_owned())?;
    Ok(Literal::String(text.into()))
}

fn bytes(text: &str) -> Result<Literal, String> {
    Ok(Literal::Bytes(unescape(&text[1..], true)?.into()))
}
