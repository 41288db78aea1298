//! Decodes JSON along a type.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt::Write as _;

use coracle_meta::budget::heap_bytes;
use coracle_meta::go_json;
use serde_json::{Map, Number, Value};

use super::scan::Scanner;
use super::words::{self, Words};
use crate::codec::{DecodeBudget, DecodeError, Decoded, Problem, Target, empty};
use crate::schema::{Field, Item, Shape, Single, Type, TypeId, types};

/// Maximum number of reported problems, as in kube-apiserver.
const MAX_PROBLEMS: usize = 100;

/// Number of copies of the path of a problem: in two collections, a message, a joined message and a response.
const PROBLEM_COPIES: usize = 5;

type Scanned<T> = Result<T, DecodeError>;

/// A step from an object to a value in it.
enum Step<'a> {
    Field(&'static Type, &'static Field),
    Key(Cow<'a, str>),
    Index(usize),
}

/// The state of one decoding.
pub(super) struct Walk<'a, 'b> {
    body: &'a [u8],
    path: Vec<Step<'a>>,
    /// Memory budget for the tree and the problems.
    budget: &'b mut DecodeBudget,
    problems: Vec<Problem>,
    seen: HashSet<Problem>,
    /// Above zero inside values in which kube-apiserver does not look for problems.
    quiet: usize,
    /// Whether the value is one that kube-apiserver keeps as raw bytes.
    is_raw: bool,
    /// Wording of type errors.
    words: Words,
    /// Whether `1.0` differs from `1`.
    keeps_points: bool,
    /// The first type error; decoding continues, because syntax errors take precedence.
    misfit: Option<String>,
    /// The first error of a value that ends decoding in kube-apiserver; it takes precedence over type errors.
    refusal: Option<String>,
    /// The value of an earlier occurrence of the same field, into which the next struct, map or list is decoded.
    earlier: Option<Value>,
}

impl<'a, 'b> Walk<'a, 'b> {
    pub(super) fn new(body: &'a [u8], budget: &'b mut DecodeBudget) -> Self {
        Self {
            body,
            path: Vec::new(),
            budget,
            problems: Vec::new(),
            seen: HashSet::new(),
            quiet: 0,
            is_raw: false,
            words: Words::Json,
            keeps_points: false,
            misfit: None,
            refusal: None,
            earlier: None,
        }
    }

    pub(super) fn with_words(self, words: Words) -> Self {
        Self { words, ..self }
    }

    pub(super) fn with_points(self) -> Self {
        Self { keeps_points: true, ..self }
    }

    pub(super) fn run(mut self, target: Target) -> Result<Decoded, DecodeError> {
        let mut scanner = Scanner::new(self.body);
        scanner.skip_space();
        let object = match target {
            Target::Type(id) => {
                self.item(&mut scanner, Item::Struct(id), &|| usual_go_type(Item::Struct(id)))?
            }
            Target::Any => self.any(&mut scanner)?,
        };
        scanner.end()?;
        self.budget.check()?;
        if let Some(message) = self.refusal.or(self.misfit) {
            return Err(DecodeError::Value { message });
        }
        Ok(Decoded { object, problems: self.problems })
    }

    /// Decodes a value that another encoding contains as bytes.
    pub(super) fn run_carried(mut self, is_raw: bool) -> Result<Value, DecodeError> {
        self.quiet = 1;
        self.is_raw = is_raw;
        self.run(Target::Any).map(|decoded| decoded.object)
    }

    /// A value without a schema.
    pub(super) fn any(&mut self, scanner: &mut Scanner<'a>) -> Scanned<Value> {
        Ok(match scanner.peek() {
            Some(b'{') => {
                let mut object = Map::new();
                scanner.object(|scanner, key| {
                    if object.contains_key(&*key) {
                        self.report(Problem::Duplicate, &key);
                    }
                    self.budget.entry(object.len(), key.len())?;
                    let value = self.within(Step::Key(key.clone()), |walk| walk.any(scanner))?;
                    object.insert(key.into_owned(), value);
                    Ok(())
                })?;
                Value::Object(object)
            }
            Some(b'[') => {
                let mut items = Vec::new();
                scanner.array(|scanner, index| {
                    self.budget_item(index)?;
                    items.push(self.within(Step::Index(index), |walk| walk.any(scanner))?);
                    Ok(())
                })?;
                Value::Array(items)
            }
            Some(b'"') => {
                let text = scanner.string()?;
                self.text(text)?
            }
            Some(b'-' | b'0'..=b'9') => {
                let text = scanner.number()?;
                self.number(text)
            }
            _ => {
                let word = scanner.peek();
                scanner.skip_value()?;
                if word == Some(b'n') { Value::Null } else { Value::Bool(word == Some(b't')) }
            }
        })
    }

    /// A string, which is charged before it is copied from the body.
    pub(super) fn text(&mut self, text: Cow<'a, str>) -> Scanned<Value> {
        self.budget.text(text.len())?;
        Ok(Value::String(text.into_owned()))
    }

    /// Charges text of this length.
    pub(super) fn budget_text(&mut self, bytes: usize) -> Scanned<()> {
        Ok(self.budget.text(bytes)?)
    }

    /// Charges the slot of a list item.
    pub(super) fn budget_item(&mut self, index: usize) -> Scanned<()> {
        Ok(self.budget.item(index)?)
    }

    /// A number: signed integers of 64 bits unchanged, all others as the nearest float64.
    fn number(&mut self, text: &str) -> Value {
        if let Ok(whole) = text.parse::<i64>() {
            return Value::from(whole);
        }
        // kube-apiserver keeps raw bytes unchanged; a tree can keep this many of their digits.
        if let Some(whole) = text.parse::<u64>().ok().filter(|_| self.is_raw || self.keeps_points) {
            return Value::from(whole);
        }
        let found = text.parse::<f64>().ok();
        let held = if self.keeps_points { Number::from_f64 } else { go_json::number };
        match found.and_then(held) {
            Some(number) => Value::Number(number),
            None => {
                self.mistake("number", Some(text), "float64");
                Value::Null
            }
        }
    }

    /// A value of a type. `null` leaves the earlier value, which is none here.
    pub(super) fn item(
        &mut self,
        scanner: &mut Scanner<'a>,
        item: Item,
        go_type: &dyn Fn() -> String,
    ) -> Scanned<Value> {
        match (item, scanner.peek()) {
            (_, Some(b'n')) => {
                scanner.literal("null")?;
                let value = empty::of_item(item);
                self.budget.charge(heap_bytes(&value))?;
                Ok(value)
            }
            (Item::Struct(id), Some(b'{')) => self.structure(scanner, id),
            (Item::Struct(_), _) if self.words == Words::Tree => {
                self.misfit(scanner, &|| words::STRUCT.to_owned())
            }
            (Item::Struct(_), _) => self.misfit(scanner, go_type),
            (Item::Single(single), _) => self.single(scanner, single, go_type),
        }
    }

    fn structure(&mut self, scanner: &mut Scanner<'a>, id: TypeId) -> Scanned<Value> {
        let one = types().get(id);
        let mut object = self.earlier_object();
        let mut seen = Seen::default();
        let is_whole = self.path.is_empty();
        scanner.object(|scanner, key| {
            let Ok(index) = one.fields.binary_search_by(|field| field.name.cmp(&key)) else {
                self.report(Problem::Unknown, &key);
                return scanner.skip_value().map(drop);
            };
            let field = &one.fields[index];
            if seen.again(index) {
                self.report(Problem::Duplicate, field.name);
            }
            // Go decodes into the existing value: structs and maps are merged, and lists of structs by index.
            self.earlier = object.remove(field.name).filter(|_| is_decoded_into(field));
            let value = self.within(Step::Field(one, field), |walk| walk.field(scanner, field))?;
            self.earlier = None;
            if is_whole && empty::is_told(field, &value) {
                object.insert(field.name.to_owned(), value);
            } else {
                empty::insert(&mut object, field, value);
            }
            Ok(())
        })?;
        let added = empty::complete(&mut object, id);
        empty::charge_fields(self.budget, &object, added)?;
        Ok(Value::Object(object))
    }

    fn field(&mut self, scanner: &mut Scanner<'a>, field: &'static Field) -> Scanned<Value> {
        if scanner.peek() == Some(b'n') {
            return scanner.literal("null").map(|()| Value::Null);
        }
        let go_type = || go_type(field);
        match (field.shape, scanner.peek()) {
            (Shape::One(item), _) => self.item(scanner, item, &go_type),
            (Shape::List(item), Some(b'[')) => self.list(scanner, item, field),
            (Shape::Map(item), Some(b'{')) => self.map(scanner, item, field),
            (Shape::List(_) | Shape::Map(_), _) => self.misfit(scanner, &go_type),
        }
    }

    fn list(&mut self, scanner: &mut Scanner<'a>, item: Item, field: &Field) -> Scanned<Value> {
        let mut items = Vec::new();
        let mut earlier = match self.earlier.take() {
            Some(Value::Array(items)) => items,
            _ => Vec::new(),
        }
        .into_iter();
        scanner.array(|scanner, index| {
            self.budget_item(index)?;
            self.earlier = earlier.next();
            let read = |walk: &mut Self| walk.item(scanner, item, &|| element_go_type(field, item));
            items.push(self.within(Step::Index(index), read)?);
            Ok(())
        })?;
        Ok(Value::Array(items))
    }

    fn map(&mut self, scanner: &mut Scanner<'a>, item: Item, field: &Field) -> Scanned<Value> {
        let mut object = self.earlier_object();
        // Only the keys of this occurrence are compared, so that repeated occurrences do not cost more than the
        // first.
        let mut own_keys = (!object.is_empty()).then(HashSet::new);
        scanner.object(|scanner, key| {
            let is_duplicate = match &mut own_keys {
                Some(own_keys) => !own_keys.insert(key.clone()),
                None => object.contains_key(&*key),
            };
            if is_duplicate {
                self.report(Problem::Duplicate, &key);
            }
            self.budget.entry(object.len(), key.len())?;
            let read = |walk: &mut Self| walk.item(scanner, item, &|| element_go_type(field, item));
            let value = self.within(Step::Key(key.clone()), read)?;
            object.insert(key.into_owned(), value);
            Ok(())
        })?;
        Ok(Value::Object(object))
    }

    /// The fields or entries into which the next object is decoded; usually none.
    fn earlier_object(&mut self) -> Map<String, Value> {
        match self.earlier.take() {
            Some(Value::Object(object)) => object,
            _ => Map::new(),
        }
    }

    fn within<T>(&mut self, step: Step<'a>, read: impl FnOnce(&mut Self) -> T) -> T {
        self.path.push(step);
        let result = read(self);
        self.path.pop();
        result
    }

    /// Decodes a value that kube-apiserver passes to the type as raw bytes, in which it does not look for problems.
    pub(super) fn quietly<T>(&mut self, read: impl FnOnce(&mut Self) -> T) -> T {
        self.quiet += 1;
        let result = read(self);
        self.quiet -= 1;
        result
    }

    /// Decodes a value that kube-apiserver keeps as raw bytes.
    pub(super) fn raw(&mut self, scanner: &mut Scanner<'a>) -> Scanned<Value> {
        let outside = std::mem::replace(&mut self.is_raw, true);
        let value = self.quietly(|walk| walk.any(scanner));
        self.is_raw = outside;
        value
    }

    fn report(&mut self, problem: fn(String) -> Problem, key: &str) {
        if self.quiet > 0 || self.problems.len() >= MAX_PROBLEMS {
            return;
        }
        let mut path = String::new();
        for step in &self.path {
            let point = if path.is_empty() { "" } else { "." };
            match step {
                Step::Field(_, field) => write!(path, "{point}{}", field.name),
                Step::Key(key) => write!(path, "{point}{key}"),
                Step::Index(index) => write!(path, "[{index}]"),
            }
            .expect("writing to a string cannot fail");
        }
        let path = if self.path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
        // The path is copied several times. If the problems of a body exceed the budget, it is rejected at the end.
        if self.budget.charge(PROBLEM_COPIES * path.len()).is_err() {
            return;
        }
        let problem = problem(path);
        if self.seen.insert(problem.clone()) {
            self.problems.push(problem);
        }
    }

    /// Skips a value of the wrong type, and records the error.
    pub(super) fn misfit(
        &mut self,
        scanner: &mut Scanner<'a>,
        go_type: &dyn Fn() -> String,
    ) -> Scanned<Value> {
        let found = scanner.skip_value()?;
        self.mistake(found, None, &go_type());
        Ok(Value::Null)
    }

    /// Records a type error; `text` is the literal of a number of the right kind.
    pub(super) fn mistake(&mut self, found: &str, text: Option<&str>, go_type: &str) {
        if self.misfit.is_none() {
            self.misfit = Some(self.mistake_message(found, text, go_type));
        }
    }

    /// Records a type error with this message.
    fn misfit_message(&mut self, message: String) {
        self.misfit.get_or_insert(message);
    }

    /// Records an error that ends decoding in kube-apiserver.
    pub(super) fn refuse(&mut self, message: String) {
        self.refusal.get_or_insert(message);
    }

    pub(super) fn mistake_message(&self, found: &str, text: Option<&str>, go_type: &str) -> String {
        if self.words == Words::Tree {
            return words::misfit_in_tree(found, text, go_type);
        }
        let blank = if text.is_some() { " " } else { "" };
        let text = text.unwrap_or("");
        format!("json: cannot unmarshal {found}{blank}{text} into Go {} of type {go_type}", self.place())
    }

    /// The same for types with a decoder of their own, which do not know their path in a tree.
    pub(super) fn own_mistake_message(&self, found: &str, text: Option<&str>, go_type: &str) -> String {
        match self.words {
            Words::Json => self.mistake_message(found, text, go_type),
            Words::Tree => words::misfit_alone(found, text, go_type),
        }
    }

    /// Records invalid base64.
    pub(super) fn no_base64(&mut self, offset: usize) {
        let reading = if self.words == Words::Tree { "error decoding from json: " } else { "" };
        self.misfit_message(format!("{reading}illegal base64 data at input byte {offset}"));
    }

    /// An integer. The converter of trees also accepts `1.0`.
    pub(super) fn whole_number(&self, text: &str) -> Option<i64> {
        let told_with_point = || match self.words {
            Words::Json => None,
            Words::Tree => go_json::number(text.parse().ok()?)?.as_i64(),
        };
        text.parse().ok().or_else(told_with_point)
    }

    /// The location of a value in Go's messages: the struct of the field, and the path to it.
    fn place(&self) -> String {
        let fields = self.path.iter().filter_map(|step| match step {
            Step::Field(owner, field) => Some((owner, field)),
            Step::Key(_) | Step::Index(_) => None,
        });
        let mut path = String::new();
        let mut innermost = None;
        for (owner, field) in fields {
            innermost = Some(owner.name);
            let embedded = field.attributes.embedded().unwrap_or("");
            let point = if embedded.is_empty() { "" } else { "." };
            write!(path, ".{embedded}{point}{}", field.name).expect("writing to a string cannot fail");
        }
        innermost.map_or("value".into(), |owner| format!("struct field {owner}{path}"))
    }
}

/// The fields of a struct that have occurred.
#[derive(Default)]
struct Seen(u128);

impl Seen {
    /// Marks a field, and returns whether it was marked before.
    fn again(&mut self, index: usize) -> bool {
        // No type has more fields than there are bits; a test verifies it.
        let bit = 1_u128 << (index % 128);
        let again = self.0 & bit != 0;
        self.0 |= bit;
        again
    }
}

/// Whether Go decodes a duplicate field into the existing value.
fn is_decoded_into(field: &Field) -> bool {
    match field.shape {
        Shape::Map(_) => true,
        Shape::One(item) | Shape::List(item) => matches!(item, Item::Struct(_)),
    }
}

/// The value of a float64 field; `null` if JSON cannot express it.
pub(in crate::codec) fn double(number: f64) -> Value {
    go_json::typed_number(number).map_or(Value::Null, Value::Number)
}

/// The Go type of a field, for error messages.
fn go_type(field: &Field) -> String {
    if let Some(name) = field.attributes.go_type() {
        return name.to_owned();
    }
    match field.shape {
        Shape::One(item) => usual_go_type(item),
        Shape::List(item) => format!("[]{}", usual_go_type(item)),
        Shape::Map(item) => format!("map[string]{}", usual_go_type(item)),
    }
}

fn element_go_type(field: &Field, item: Item) -> String {
    let named = field.attributes.go_type();
    let element = named.and_then(|name| name.strip_prefix("[]").or_else(|| Some(name.split_once(']')?.1)));
    element.map_or_else(|| usual_go_type(item), |name| name.trim_start_matches('*').to_owned())
}

fn usual_go_type(item: Item) -> String {
    let name = match item {
        Item::Struct(id) => {
            let one = types().get(id);
            return format!("{}.{}", one.package.rsplit('.').next().unwrap_or_default(), one.name);
        }
        Item::Single(Single::String) => "string",
        Item::Single(Single::Bytes) => "[]uint8",
        Item::Single(Single::Int32) => "int32",
        Item::Single(Single::Int64) => "int64",
        Item::Single(Single::Double) => "float64",
        Item::Single(Single::Boolean) => "bool",
        Item::Single(Single::Strings) => "v1.ExtraValue",
        // These have decoders of their own and no type name in messages.
        Item::Single(_) => "string",
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_fits_the_mask() {
        assert!(types().iter().all(|(_, one)| one.fields.len() <= 128));
    }
}
