//! Decodes scalar values, and brings those with a canonical form into it.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::Value;

use super::scan::Scanner;
use super::walk::{Walk, double};
use crate::codec::DecodeError;
use crate::codec::quantity;
use crate::codec::time::{Precision, Timestamp};
use crate::schema::{Item, Single, types};

type Scanned<T> = Result<T, DecodeError>;

/// As lenient as Go: unused bits of the last character are ignored.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical),
);

/// Symbols of base64 that encode three bytes together.
const GROUP: usize = 4;

/// Maximum length of an encoded time.
const TIME_BYTES: usize = "2006-01-02T15:04:05.000000Z".len();

const SCHEMA: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";

impl<'a> Walk<'a, '_> {
    pub(super) fn single(
        &mut self,
        scanner: &mut Scanner<'a>,
        single: Single,
        go_type: &dyn Fn() -> String,
    ) -> Scanned<Value> {
        match (single, scanner.peek()) {
            (Single::String, Some(b'"')) => {
                let text = scanner.string()?;
                self.text(text)
            }
            (Single::Boolean, Some(b't' | b'f')) => {
                let yes = scanner.peek() == Some(b't');
                scanner.skip_value().map(|_| Value::Bool(yes))
            }
            (Single::Int32 | Single::Int64, Some(b'-' | b'0'..=b'9')) => {
                let text = scanner.number()?;
                Ok(self.whole(text, single, &go_type()))
            }
            (Single::Double, Some(b'-' | b'0'..=b'9')) => {
                let text = scanner.number()?;
                Ok(self.double(text))
            }
            (Single::Bytes, Some(b'"')) => {
                let text = scanner.string()?;
                self.budget_text(text.len())?;
                Ok(self.bytes(&text))
            }
            (Single::Bytes, Some(b'[')) => self.byte_list(scanner),
            (Single::Strings, Some(b'[')) => self.strings(scanner),
            (Single::String | Single::Boolean | Single::Int32 | Single::Int64, _) => {
                self.misfit(scanner, go_type)
            }
            (Single::Double | Single::Bytes | Single::Strings, _) => self.misfit(scanner, go_type),
            (Single::IntOrString, _) => self.int_or_string(scanner),
            (Single::Quantity, _) => self.quantity(scanner),
            (Single::Time, _) => self.time(scanner, Precision::Seconds),
            (Single::MicroTime, _) => self.time(scanner, Precision::Micros),
            (Single::RawExtension | Single::FieldsV1 | Single::Patch, _) => self.raw(scanner),
            // kube-apiserver reads the raw bytes of an `apiextensions/v1` JSON and prints the value again.
            (Single::Json, _) => self.quietly(|walk| walk.any(scanner)),
            (Single::SchemaOrArray | Single::SchemaOrBool | Single::SchemaOrStringArray, _) => {
                self.quietly(|walk| walk.schema_or(scanner, single))
            }
        }
    }

    fn whole(&mut self, text: &str, single: Single, go_type: &str) -> Value {
        let number = self.whole_number(text);
        match number.filter(|number| single == Single::Int64 || i32::try_from(*number).is_ok()) {
            Some(number) => Value::from(number),
            None => {
                self.mistake("number", Some(text), go_type);
                Value::Null
            }
        }
    }

    fn double(&mut self, text: &str) -> Value {
        match text.parse::<f64>().ok().filter(|number| number.is_finite()) {
            Some(number) => double(number),
            None => {
                self.mistake("number", Some(text), "float64");
                Value::Null
            }
        }
    }

    fn bytes(&mut self, text: &str) -> Value {
        let joined: String = text.chars().filter(|character| !matches!(character, '\r' | '\n')).collect();
        match BASE64.decode(&joined) {
            Ok(bytes) => Value::String(BASE64.encode(bytes)),
            Err(_) => {
                self.no_base64(fault_offset(text));
                Value::Null
            }
        }
    }

    /// Bytes as a list of numbers, which Go accepts too.
    fn byte_list(&mut self, scanner: &mut Scanner<'a>) -> Scanned<Value> {
        let mut bytes = Vec::new();
        scanner.array(|scanner, _| {
            self.budget_text(1)?;
            let text = match scanner.peek() {
                Some(b'-' | b'0'..=b'9') => scanner.number()?,
                Some(b'n') => scanner.literal("null").map(|()| "0")?,
                _ => return self.misfit(scanner, &|| "uint8".into()).map(drop),
            };
            match text.parse::<u8>() {
                Ok(byte) => bytes.push(byte),
                Err(_) => self.mistake("number", Some(text), "uint8"),
            }
            Ok(())
        })?;
        Ok(Value::String(BASE64.encode(bytes)))
    }

    fn strings(&mut self, scanner: &mut Scanner<'a>) -> Scanned<Value> {
        let mut items = Vec::new();
        scanner.array(|scanner, index| {
            self.budget_item(index)?;
            items.push(self.item(scanner, Item::Single(Single::String), &|| "string".into())?);
            Ok(())
        })?;
        Ok(Value::Array(items))
    }

    fn int_or_string(&mut self, scanner: &mut Scanner<'a>) -> Scanned<Value> {
        match scanner.peek() {
            Some(b'"') => {
                let text = scanner.string()?;
                self.text(text)
            }
            Some(b'-' | b'0'..=b'9') => {
                let text = scanner.number()?;
                match self.whole_number(text).and_then(|number| i32::try_from(number).ok()) {
                    Some(number) => Ok(Value::from(number)),
                    None => self.refuse_as("number", Some(text), "int32"),
                }
            }
            _ => {
                let found = scanner.skip_value()?;
                self.refuse_as(found, None, "int32")
            }
        }
    }

    fn quantity(&mut self, scanner: &mut Scanner<'a>) -> Scanned<Value> {
        let text = match scanner.peek() {
            Some(b'"') => scanner.string()?,
            Some(b'-' | b'0'..=b'9') => scanner.number()?.into(),
            // kube-apiserver parses the raw bytes of any value.
            _ => scanner.skip_value()?.into(),
        };
        self.budget_text(text.len())?;
        Ok(match quantity::canonical(text.trim()) {
            Ok(amount) => Value::String(amount),
            Err(message) => {
                self.refuse(message);
                Value::Null
            }
        })
    }

    fn time(&mut self, scanner: &mut Scanner<'a>, precision: Precision) -> Scanned<Value> {
        if scanner.peek() != Some(b'"') {
            let found = scanner.skip_value()?;
            return self.refuse_as(found, None, "string");
        }
        let text = scanner.string()?;
        self.budget_text(TIME_BYTES)?;
        Ok(match Timestamp::parse(&text, precision) {
            Ok(time) if time.is_zero() => Value::Null,
            Ok(time) => Value::String(time.format(precision)),
            Err(message) => {
                self.refuse(message);
                Value::Null
            }
        })
    }

    /// A JSON schema, or one of its alternatives.
    fn schema_or(&mut self, scanner: &mut Scanner<'a>, single: Single) -> Scanned<Value> {
        let schema = Item::Struct(types().named(SCHEMA).expect("a type that is in the table"));
        let go_type = || "v1.JSONSchemaProps".to_owned();
        match (single, scanner.peek()) {
            (_, Some(b'{')) => self.item(scanner, schema, &go_type),
            (Single::SchemaOrBool, Some(b't' | b'f')) => self.single(scanner, Single::Boolean, &go_type),
            (Single::SchemaOrBool, _) => {
                scanner.skip_value()?;
                self.refuse("boolean or JSON schema expected".into());
                Ok(Value::Null)
            }
            (Single::SchemaOrStringArray, Some(b'[')) => self.strings(scanner),
            (_, Some(b'[')) => {
                let mut items = Vec::new();
                scanner.array(|scanner, index| {
                    self.budget_item(index)?;
                    items.push(self.item(scanner, schema, &go_type)?);
                    Ok(())
                })?;
                Ok(Value::Array(items))
            }
            // kube-apiserver ignores any other value.
            _ => scanner.skip_value().map(|_| Value::Null),
        }
    }

    fn refuse_as(&mut self, found: &str, text: Option<&str>, go_type: &str) -> Scanned<Value> {
        let message = self.own_mistake_message(found, text, go_type);
        self.refuse(message);
        Ok(Value::Null)
    }
}

/// Whether base64 is in the form in which bytes are encoded.
pub(super) fn is_canonical_base64(text: &str) -> bool {
    BASE64.decode(text).is_ok_and(|bytes| BASE64.encode(bytes) == text)
}

/// Where Go's decoder finds the first fault of text that is not base64. Line breaks are skipped and counted. Of a group
/// that lacks symbols at the end it names the byte that is as far from the end as there are symbols.
fn fault_offset(text: &str) -> usize {
    let bytes = text.as_bytes();
    let next = |from: usize| (from..bytes.len()).find(|at| !matches!(bytes[*at], b'\r' | b'\n'));
    let (mut symbols, mut from) = (0, 0);
    while let Some(at) = next(from) {
        from = at + 1;
        match bytes[at] {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'+' | b'/' => symbols = (symbols + 1) % GROUP,
            b'=' if symbols == 2 => match next(from) {
                Some(second) if bytes[second] == b'=' => return next(second + 1).unwrap_or(bytes.len()),
                Some(other) => return other - 1,
                None => return bytes.len(),
            },
            b'=' if symbols == 3 => return next(from).unwrap_or(bytes.len()),
            _ => return at,
        }
    }
    bytes.len() - symbols
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_of_base64_is_where_go_finds_it() {
        for (text, offset) in [
            ("Bad_Name!", 3),
            ("a\nb", 1),
            ("%", 0),
            ("YQ", 0),
            ("YWFhYQ", 4),
            ("=", 0),
            ("Y=Q=", 1),
            ("YQ=", 3),
            ("YQ=a", 2),
            ("YQ=\na", 3),
            ("YWE=x", 4),
            ("YQ==\n\nYQ==", 6),
            ("é", 0),
        ] {
            assert_eq!(fault_offset(text), offset, "{text:?}");
        }
    }
}
