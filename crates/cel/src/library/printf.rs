//! String formatting: the function `format`.

use crate::EvalError;
use crate::limits::MAX_STRING_BYTES;
use crate::types::Type;
use crate::value::{Map, Value, convert, format_double};

use super::{Function, mismatch};

pub(super) const FUNCTIONS: &[Function] = &[Function {
    name: "format",
    overloads: &[("string_format", "string.(list(dyn)) -> string")],
    call: format,
}];

type Flow<'d> = Result<Value<'d>, EvalError>;

const DEFAULT_PRECISION: usize = 6;

/// A formatting clause such as `%s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clause {
    Text,
    Decimal,
    Fixed(usize),
    Scientific,
    Binary,
    Hex { upper: bool },
    Octal,
}

/// A part of a format string.
#[derive(Clone, Debug)]
pub(crate) enum Part<'a> {
    Plain(&'a str),
    Clause(Clause),
}

/// Splits off the next part of a format string. Returns it and the rest; `None` at the end.
///
/// # Errors
/// If the format string is malformed; the message is cel-go's.
pub(crate) fn next_part<'a>(text: &'a str) -> Option<Result<(Part<'a>, &'a str), String>> {
    let at = match text.find('%') {
        None if text.is_empty() => return None,
        None => return Some(Ok((Part::Plain(text), ""))),
        Some(0) => 0,
        Some(at) => return Some(Ok((Part::Plain(&text[..at]), &text[at..]))),
    };
    if let Some(rest) = text.strip_prefix("%%") {
        return Some(Ok((Part::Plain(&text[at..=at]), rest)));
    }
    let clause = clause(&text[1..]);
    Some(clause.map(|(clause, rest)| (Part::Clause(clause), rest)))
}

fn clause(text: &str) -> Result<(Clause, &str), String> {
    if text.is_empty() {
        return Err("unexpected end of string".to_owned());
    }
    let context = "could not parse formatting clause";
    let (precision, rest) = match text.strip_prefix('.') {
        None => (None, text),
        Some(rest) => {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            if digits == rest.len() {
                return Err(format!(
                    "{context}: error while parsing precision: could not find end of precision specifier"
                ));
            }
            let (number, rest) = rest.split_at(digits);
            let precision = number.parse::<usize>().map_err(|_| {
                format!("{context}: error while parsing precision: error while converting precision to integer: strconv.Atoi: parsing {number:?}: invalid syntax")
            })?;
            (Some(precision), rest)
        }
    };
    let letter = rest.chars().next().unwrap_or_default();
    let clause = match letter {
        's' => Clause::Text,
        'd' => Clause::Decimal,
        'f' => Clause::Fixed(precision.unwrap_or(DEFAULT_PRECISION)),
        'e' => Clause::Scientific,
        'b' => Clause::Binary,
        'x' | 'X' => Clause::Hex { upper: letter == 'X' },
        'o' => Clause::Octal,
        other => return Err(format!("{context}: unrecognized formatting clause \"{other}\"")),
    };
    Ok((clause, &rest[letter.len_utf8()..]))
}

impl Clause {
    /// Returns the error for a value of the wrong type; `found` is the name of the type.
    pub(crate) fn type_error(self, found: &str) -> String {
        let rule = match self {
            Self::Text => {
                "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps"
            }
            Self::Decimal => "decimal clause can only be used on integers",
            Self::Fixed(_) => "fixed-point clause can only be used on doubles",
            Self::Scientific => "scientific clause can only be used on doubles",
            Self::Binary => "only integers and bools can be formatted as binary",
            Self::Hex { .. } => "only integers, byte buffers, and strings can be formatted as hex",
            Self::Octal => "octal clause can only be used on integers",
        };
        format!("error during formatting: {rule}, was given {found}")
    }

    /// Returns true if the clause accepts values of this type.
    pub(crate) fn accepts(self, found: &Type) -> bool {
        match self {
            _ if found.is_dyn() => true,
            Self::Text => !matches!(found, Type::Struct(_) | Type::Opaque(..) | Type::Error),
            Self::Decimal | Self::Octal => matches!(found, Type::Int | Type::Uint),
            Self::Fixed(_) | Self::Scientific => matches!(found, Type::Double | Type::String),
            Self::Binary => matches!(found, Type::Int | Type::Uint | Type::Bool),
            Self::Hex { .. } => matches!(found, Type::Int | Type::Uint | Type::String | Type::Bytes),
        }
    }

    fn print(self, value: &Value<'_>) -> Result<String, EvalError> {
        let type_error = || EvalError::failed(self.type_error(value.type_of().name()));
        let number = |value: &Value<'_>| match value {
            Value::Int(number) => Some((*number < 0, number.unsigned_abs())),
            Value::Uint(number) => Some((false, *number)),
            _ => None,
        };
        let signed =
            |(negative, digits): (bool, String)| if negative { format!("-{digits}") } else { digits };
        Ok(match self {
            Self::Text => text(value)?.ok_or_else(type_error)?,
            Self::Decimal => {
                let (negative, number) = number(value).ok_or_else(type_error)?;
                signed((negative, number.to_string()))
            }
            Self::Fixed(precision) => fixed(to_double(value).ok_or_else(type_error)?, precision)?,
            Self::Scientific => scientific(to_double(value).ok_or_else(type_error)?),
            Self::Binary => match value {
                Value::Bool(truth) => if *truth { "1" } else { "0" }.to_owned(),
                value => {
                    let (negative, number) = number(value).ok_or_else(type_error)?;
                    signed((negative, format!("{number:b}")))
                }
            },
            Self::Octal => {
                let (negative, number) = number(value).ok_or_else(type_error)?;
                signed((negative, format!("{number:o}")))
            }
            Self::Hex { upper } => {
                let plain = match value {
                    Value::String(text) => hex(text.as_str().as_bytes()),
                    Value::Bytes(bytes) => hex(bytes),
                    value => {
                        let (negative, number) = number(value).ok_or_else(type_error)?;
                        signed((negative, format!("{number:x}")))
                    }
                };
                if upper { plain.to_ascii_uppercase() } else { plain }
            }
        })
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns a double, or the special value that a string names (`NaN`, `Infinity`).
fn to_double(value: &Value<'_>) -> Option<f64> {
    match value {
        Value::Double(number) => Some(*number),
        Value::String(text) => match text.as_str() {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

/// Formats a fixed-point number with commas between thousands, like cel-go's American English
/// locale.
fn fixed(number: f64, precision: usize) -> Result<String, EvalError> {
    if precision > MAX_STRING_BYTES {
        return Err(EvalError::CostLimitExceeded);
    }
    if !number.is_finite() {
        return Ok(if number.is_nan() {
            "NaN"
        } else if number > 0.0 {
            "∞"
        } else {
            "-∞"
        }
        .to_owned());
    }
    let plain = format!("{number:.precision$}");
    let (whole, fraction) =
        plain.split_once('.').map_or((&*plain, None), |(whole, rest)| (whole, Some(rest)));
    let digits = whole.trim_start_matches('-');
    let mut grouped = if whole.starts_with('-') { String::from("-") } else { String::new() };
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    if let Some(fraction) = fraction {
        grouped.push('.');
        grouped.push_str(fraction);
    }
    Ok(grouped)
}

/// Formats a number as `1.234500×10⁰³`. cel-go uses the precision as width, so there are always six
/// digits.
fn scientific(number: f64) -> String {
    if !number.is_finite() {
        let text = if number.is_nan() {
            "NaN"
        } else if number > 0.0 {
            "∞"
        } else {
            "-∞"
        };
        return format!("{text:>6}");
    }
    let plain = format!("{number:.6e}");
    let (digits, exponent) = plain.split_once('e').unwrap_or((&plain, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let sign = if exponent < 0 { "⁻" } else { "" };
    let raised: String = format!("{:02}", exponent.abs())
        .bytes()
        .filter_map(|digit| "⁰¹²³⁴⁵⁶⁷⁸⁹".chars().nth(usize::from(digit - b'0')))
        .collect();
    format!("{digits}×10{sign}{raised}")
}

/// Formats a value for `%s`; `None` for an unsupported type.
fn text(value: &Value<'_>) -> Result<Option<String>, EvalError> {
    Ok(Some(match value {
        Value::Null => "null".to_owned(),
        Value::List(_) | Value::Map(_) => return nested(value).map(Some),
        Value::Type(found) => found.name().to_owned(),
        value => match convert(value, &Type::String) {
            Some(converted) => converted?.to_string(),
            None => return Ok(None),
        },
    }))
}

/// Formats an element of a list or map as CEL source.
fn nested(value: &Value<'_>) -> Result<String, EvalError> {
    Ok(match value {
        Value::Double(number) if number.is_finite() => format!("{number:.DEFAULT_PRECISION$}"),
        Value::Double(number) => format!("{:?}", format_double(*number)),
        Value::String(text) => format!("{:?}", text.as_str()),
        Value::Bytes(bytes) => format!("b{:?}", String::from_utf8_lossy(bytes)),
        Value::Timestamp(_) => format!("timestamp(\"{value}\")"),
        Value::Duration(_) => format!("duration(\"{value}\")"),
        Value::List(list) => {
            let mut parts = Vec::new();
            for element in list.0.iter() {
                parts.push(nested(&element?)?);
            }
            bounded(format!("[{}]", parts.join(", ")))?
        }
        Value::Map(map) => nested_map(&map.0)?,
        value => {
            let unknown = || format!("no formatting function for {}", value.type_of().name());
            text(value)?.ok_or_else(|| EvalError::failed(unknown()))?
        }
    })
}

fn nested_map(map: &Map<'_>) -> Result<String, EvalError> {
    let mut parts = Vec::new();
    for entry in map.entries() {
        let (key, value) = entry?;
        parts.push((nested(&key)?, nested(&value)?));
    }
    parts.sort();
    let parts: Vec<String> = parts.into_iter().map(|(key, value)| format!("{key}:{value}")).collect();
    bounded(format!("{{{}}}", parts.join(", ")))
}

fn bounded(text: String) -> Result<String, EvalError> {
    if text.len() > MAX_STRING_BYTES { Err(EvalError::CostLimitExceeded) } else { Ok(text) }
}

fn format<'d>(args: &[Value<'d>]) -> Flow<'d> {
    let [Value::String(pattern), Value::List(values)] = args else { return mismatch() };
    let mut printed = String::new();
    let mut rest = pattern.as_str();
    let mut index = 0;
    while let Some(part) = next_part(rest) {
        let starts_clause = rest.starts_with('%') && !rest.starts_with("%%");
        if starts_clause && index >= values.0.len() {
            return Err(EvalError::failed(format!("index {index} out of range")));
        }
        let (part, after) = part.map_err(EvalError::failed)?;
        match part {
            Part::Plain(text) => printed.push_str(text),
            Part::Clause(clause) => {
                let value = values.0.get(index).transpose()?.unwrap_or(Value::Null);
                printed.push_str(&clause.print(&value)?);
                index += 1;
            }
        }
        printed = bounded(printed)?;
        rest = after;
    }
    Ok(Value::string(printed))
}
