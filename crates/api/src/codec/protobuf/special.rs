//! Values that are scalars in JSON and messages in protobuf.

use serde_json::Value;

use super::read::{self, State};
use super::source::Source;
use super::wire::{Field, Fields, Wire, fault, write_bytes, write_message, write_number};
use super::write;
use crate::codec::time::{Precision, Timestamp};
use crate::codec::{DecodeError, json, quantity};
use crate::schema::{Single, TypeId, types};

/// Maximum length of an encoded time.
const TIME_BYTES: usize = "2006-01-02T15:04:05.000000Z".len();

const SCHEMA: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";

fn schema_type() -> TypeId {
    types().named(SCHEMA).expect("a type of the table")
}

/// Encodes the message of a value, which may be `null`.
pub(super) fn write<'a, S: Source<'a>>(out: &mut Vec<u8>, single: Single, value: Option<S>) {
    match single {
        Single::IntOrString => write_int_or_string(out, value),
        Single::Quantity => {
            let text = value.and_then(S::string);
            write_bytes(out, 1, text.as_deref().unwrap_or(b"0"));
        }
        Single::Time => write_time(out, value, Precision::Seconds),
        Single::MicroTime => write_time(out, value, Precision::Micros),
        Single::Strings => {
            for item in value.into_iter().flat_map(S::items) {
                write_bytes(out, 1, &item.and_then(S::string).unwrap_or_default());
            }
        }
        Single::SchemaOrArray | Single::SchemaOrBool | Single::SchemaOrStringArray => {
            write_schema_or(out, single, value);
        }
        // Other values are embedded as JSON.
        _ => {
            if let Some(value) = value {
                write_bytes(out, 1, &value.json());
            }
        }
    }
}

fn write_int_or_string<'a, S: Source<'a>>(out: &mut Vec<u8>, value: Option<S>) {
    let text = value.and_then(S::string);
    write_number(out, 1, u64::from(text.is_some()));
    write_number(out, 2, value.and_then(S::integer).unwrap_or_default().cast_unsigned());
    write_bytes(out, 3, &text.unwrap_or_default());
}

fn write_time<'a, S: Source<'a>>(out: &mut Vec<u8>, value: Option<S>, precision: Precision) {
    let Some(text) = value.and_then(S::string) else { return };
    let Ok(text) = std::str::from_utf8(&text) else { return };
    let Ok(time) = Timestamp::parse(text, precision) else { return };
    write_number(out, 1, time.seconds.cast_unsigned());
    write_number(out, 2, if precision == Precision::Micros { u64::from(time.nanos) } else { 0 });
}

fn write_schema_or<'a, S: Source<'a>>(out: &mut Vec<u8>, single: Single, value: Option<S>) {
    let write_schema = |out: &mut Vec<u8>, number: u32, value: Option<S>| {
        write_message(out, number, |out| write::structure(out, value, schema_type()));
    };
    let object = value.filter(|value| S::is_object(*value));
    if single == Single::SchemaOrBool {
        write_number(out, 1, u64::from(object.is_some() || value.is_some_and(S::is_true)));
        if object.is_some() {
            write_schema(out, 2, object);
        }
        return;
    }
    if object.is_some() {
        return write_schema(out, 1, object);
    }
    for item in value.into_iter().flat_map(S::items) {
        match item.and_then(S::string) {
            Some(text) => write_bytes(out, 2, &text),
            None => write_schema(out, 2, item),
        }
    }
}

/// Decodes the message of a value.
pub(super) fn read(message: &[u8], single: Single, state: &mut State<'_>) -> Result<Value, DecodeError> {
    match single {
        Single::IntOrString => read_int_or_string(message, state),
        Single::Quantity => read_quantity(message, state),
        Single::Time => read_time(message, Precision::Seconds, state),
        Single::MicroTime => read_time(message, Precision::Micros, state),
        Single::Strings => {
            let mut texts = Vec::new();
            for value in all(message, 1) {
                state.budget.item(texts.len())?;
                texts.push(Value::String(state.text(value?)?));
            }
            Ok(Value::Array(texts))
        }
        Single::SchemaOrArray | Single::SchemaOrBool | Single::SchemaOrStringArray => {
            read_schema_or(message, single, state)
        }
        _ => match last(message, 1)? {
            Some(raw) if !raw.bytes()?.is_empty() => {
                json::decode_carried(raw.bytes()?, single != Single::Json, state.budget)
            }
            _ => Ok(Value::Null),
        },
    }
}

/// All values of a field number.
fn all(message: &[u8], number: u32) -> impl Iterator<Item = Result<Wire<'_>, DecodeError>> {
    Fields::new(message).filter_map(move |field| match field {
        Ok(Field { number: found, value }) => (found == number).then_some(Ok(value)),
        Err(error) => Some(Err(error)),
    })
}

/// The last value of a field number.
fn last(message: &[u8], number: u32) -> Result<Option<Wire<'_>>, DecodeError> {
    all(message, number).try_fold(None, |_, value| value.map(Some))
}

fn read_int_or_string(message: &[u8], state: &mut State<'_>) -> Result<Value, DecodeError> {
    let is_text = last(message, 1)?.map_or(Ok(0), Wire::number)? == 1;
    if is_text {
        let text = last(message, 3)?.map_or_else(|| Ok(String::new()), |value| state.text(value))?;
        return Ok(Value::String(text));
    }
    let number = last(message, 2)?.map_or(Ok(0), Wire::number)?;
    Ok(Value::from(number as i32))
}

fn read_quantity(message: &[u8], state: &mut State<'_>) -> Result<Value, DecodeError> {
    let Some(text) = last(message, 1)? else { return Ok(Value::from("0")) };
    let text = state.text(text)?;
    let canonical = quantity::canonical(&text).map_err(|message| DecodeError::Value { message })?;
    Ok(Value::String(canonical))
}

fn read_time(message: &[u8], precision: Precision, state: &mut State<'_>) -> Result<Value, DecodeError> {
    if message.is_empty() {
        return Ok(Value::Null);
    }
    state.budget.text(TIME_BYTES)?;
    let number = |field| -> Result<i64, DecodeError> {
        Ok(last(message, field)?.map_or(Ok(0), Wire::number)?.cast_signed())
    };
    let nanos = if precision == Precision::Micros { number(2)? } else { 0 };
    let time = Timestamp { seconds: number(1)?, nanos: u32::try_from(nanos).unwrap_or(u32::MAX) };
    if !time.is_writable() {
        return Err(fault("a time that RFC 3339 cannot write"));
    }
    Ok(if time.is_zero() { Value::Null } else { Value::String(time.format(precision)) })
}

fn read_schema_or(message: &[u8], single: Single, state: &mut State<'_>) -> Result<Value, DecodeError> {
    let schema =
        |value: Wire<'_>, state: &mut State<'_>| read::structure(value.bytes()?, schema_type(), state);
    if single == Single::SchemaOrBool {
        return match last(message, 2)? {
            Some(value) => schema(value, state),
            None => Ok(Value::Bool(last(message, 1)?.map_or(Ok(0), Wire::number)? != 0)),
        };
    }
    let mut listed = Vec::new();
    for value in all(message, 2) {
        state.budget.item(listed.len())?;
        listed.push(match single {
            Single::SchemaOrArray => schema(value?, state)?,
            _ => Value::String(state.text(value?)?),
        });
    }
    match (listed, last(message, 1)?) {
        (listed, _) if !listed.is_empty() => Ok(Value::Array(listed)),
        (_, Some(value)) => schema(value, state),
        (_, None) => Ok(Value::Null),
    }
}
