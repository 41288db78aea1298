//! Builds the tree of a YAML document from parser events.

use std::borrow::Cow;
use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use coracle_meta::budget::{BudgetError, MAX_JSON_TEXT_BYTES, heap_bytes};
use coracle_meta::go_json;
use granit_parser::{Event, Options, Parser, ScalarStyle, Span, StrInput, Tag};
use serde_json::{Map, Number, Value};

use super::faults::{at, fault, of_key, of_parser, of_tag};
use super::resolve::{self, Resolved};
use crate::codec::DecodeBudget;
use crate::codec::error::{DecodeError, Problem, Quoted};
use crate::codec::json::MAX_DEPTH;
use crate::codec::text::lossy;

/// Maximum nesting depth of flow collections in the scanner. The scanner is ahead of the parser by at most one simple key,
/// which has up to 1024 characters; the parser enforces [`MAX_DEPTH`].
const FLOW_LIMIT: usize = 2 * MAX_DEPTH;

/// Memory of a duplicate key: its line, and its slot in a growing list.
const DUPLICATE_BYTES: usize = 64;

type Parsed<T> = Result<T, DecodeError>;

/// The tree of the only document of a body, and its duplicate keys.
pub(super) fn document(body: &[u8], budget: &mut DecodeBudget) -> Parsed<(Value, Option<Problem>)> {
    let text = std::str::from_utf8(body).map_err(|_| fault("yaml: invalid UTF-8"))?;
    // Whether the parser emits comments depends on the features that other crates enable.
    let mut options = Options::default();
    options.set_emit_comments(false);
    options.flow_nesting_limit = FLOW_LIMIT;
    let mut builder = Builder {
        parser: Parser::new_from_str_with_options(text, options),
        text,
        anchors: HashMap::new(),
        budget,
        text_bytes: 0,
        depth: 0,
        duplicates: Vec::new(),
    };
    let value = builder.document()?;
    let duplicates = (!builder.duplicates.is_empty()).then_some(Problem::YamlDuplicates(builder.duplicates));
    Ok((value, duplicates))
}

struct Builder<'a, 'b> {
    parser: Parser<'a, StrInput<'a>>,
    text: &'a str,
    /// Nodes with anchors; none while they are being built.
    anchors: HashMap<usize, Option<Node>>,
    /// Memory budget for the tree, with a copy of every node that has an anchor and one for every alias.
    budget: &'b mut DecodeBudget,
    /// The scalars' part of the length of the resulting JSON. A document whose aliases exceed the limit of that
    /// length is rejected at once, because building the rest of its tree would waste memory.
    text_bytes: usize,
    /// Number of open lists and maps.
    depth: usize,
    duplicates: Vec<(usize, String)>,
}

/// A value with its line, and its memory and text length, which are the cost of a copy.
#[derive(Clone)]
struct Node {
    value: Value,
    bytes: usize,
    text_bytes: usize,
    line: usize,
    is_merge: bool,
}

impl<'a> Builder<'a, '_> {
    fn document(&mut self) -> Parsed<Value> {
        let mut found = None;
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamStart | Event::DocumentEnd => {}
                Event::StreamEnd => return Ok(found.unwrap_or(Value::Null)),
                // kube-apiserver would read the first document and silently ignore the others.
                Event::DocumentStart(..) if found.is_some() => {
                    return Err(at(span.start.line(), "a body holds one document"));
                }
                Event::DocumentStart(..) => {
                    let first = self.next()?;
                    found = Some(self.node(first)?.value);
                }
                _ => return Err(at(span.start.line(), "content outside of a document")),
            }
        }
    }

    fn next(&mut self) -> Parsed<(Event<'a>, Span)> {
        match self.parser.next_event() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => Err(of_parser(&error, self.text)),
            None => Err(fault("yaml: unexpected end of the document")),
        }
    }

    fn node(&mut self, (event, span): (Event<'a>, Span)) -> Parsed<Node> {
        let line = span.start.line();
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let node = scalar(&text, style, tag.as_deref(), line)?;
                self.budget.charge(node.bytes)?;
                self.text_bytes += node.text_bytes;
                self.keep(anchor, node)
            }
            Event::SequenceStart(_, anchor, _) => {
                self.open(anchor);
                let node = self.deeper(line, Self::sequence)?;
                self.keep(anchor, node)
            }
            Event::MappingStart(_, anchor, _) => {
                self.open(anchor);
                let node = self.deeper(line, Self::mapping)?;
                self.keep(anchor, node)
            }
            Event::Alias(anchor) => {
                let node = self.anchors.get(&anchor).and_then(Option::as_ref);
                let node = node.ok_or_else(|| at(line, "the value of an anchor contains itself"))?;
                self.text_bytes = self.text_bytes.saturating_add(node.text_bytes);
                if self.text_bytes > MAX_JSON_TEXT_BYTES {
                    return Err(DecodeError::ExcessiveAliasing);
                }
                charge_copy(self.budget, node)?;
                Ok(Node { line, ..node.clone() })
            }
            _ => Err(at(line, "a value was expected")),
        }
    }

    fn open(&mut self, anchor: usize) {
        if anchor != 0 {
            self.anchors.insert(anchor, None);
        }
    }

    /// Stores a copy of a node with an anchor.
    fn keep(&mut self, anchor: usize, node: Node) -> Parsed<Node> {
        if anchor != 0 {
            charge_copy(self.budget, &node)?;
            self.anchors.insert(anchor, Some(node.clone()));
        }
        Ok(node)
    }

    /// Builds a list or a map, unless it is nested deeper than JSON may be. Building recurses, so deeper ones would
    /// exhaust the stack.
    fn deeper(&mut self, line: usize, read: fn(&mut Self, usize) -> Parsed<Node>) -> Parsed<Node> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(at(line, &format!("exceeded max depth of {MAX_DEPTH}")));
        }
        let node = read(self, line);
        self.depth -= 1;
        node
    }

    fn sequence(&mut self, line: usize) -> Parsed<Node> {
        let mut items = Vec::new();
        let before = (self.budget.spent(), self.text_bytes);
        loop {
            let event = self.next()?;
            if matches!(event.0, Event::SequenceEnd) {
                return Ok(self.collection(Value::Array(items), before, line));
            }
            self.budget.item(items.len())?;
            items.push(self.node(event)?.value);
        }
    }

    fn mapping(&mut self, line: usize) -> Parsed<Node> {
        let mut object = Map::new();
        let before = (self.budget.spent(), self.text_bytes);
        loop {
            let event = self.next()?;
            if matches!(event.0, Event::MappingEnd) {
                return Ok(self.collection(Value::Object(object), before, line));
            }
            let key = self.node(event)?;
            let event = self.next()?;
            let value = self.node(event)?;
            if key.is_merge {
                self.merge(&mut object, value)?;
            } else {
                let name = key_name(&key)?;
                self.set(&mut object, name, &key.value, value.value, value.line)?;
            }
        }
    }

    /// The node of a complete list or map; `before` are the memory and text length before it.
    fn collection(&self, value: Value, before: (usize, usize), line: usize) -> Node {
        let (bytes, text_bytes) = (self.budget.spent() - before.0, self.text_bytes - before.1);
        Node { value, bytes, text_bytes, line, is_merge: false }
    }

    /// Merges the fields of another map, or of several, of which the first take precedence.
    fn merge(&mut self, object: &mut Map<String, Value>, from: Node) -> Parsed<()> {
        let line = from.line;
        let maps = match from.value {
            Value::Object(_) => vec![from.value],
            Value::Array(maps) => maps.into_iter().rev().collect(),
            _ => Vec::new(),
        };
        if maps.is_empty() || maps.iter().any(|map| !map.is_object()) {
            return Err(fault("yaml: map merge requires map or sequence of maps as the value"));
        }
        for map in maps {
            let Value::Object(fields) = map else { continue };
            for (name, value) in fields {
                let key = Value::String(name.clone());
                self.set(object, name, &key, value, line)?;
            }
        }
        Ok(())
    }

    /// Sets a field. The last value counts, and all keys but the first are reported as duplicates.
    fn set(
        &mut self,
        object: &mut Map<String, Value>,
        name: String,
        key: &Value,
        value: Value,
        line: usize,
    ) -> Parsed<()> {
        self.budget.entry(object.len(), name.len())?;
        if object.insert(name, value).is_some() {
            let shown = shown_key(key);
            self.budget.text(DUPLICATE_BYTES + shown.len())?;
            self.duplicates.push((line, shown));
        }
        Ok(())
    }
}

fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>, line: usize) -> Parsed<Node> {
    let is_plain = style == ScalarStyle::Plain;
    let resolved = match tag.map(core_name) {
        None if is_plain => resolve::plain(text),
        None => Resolved::Value(Value::from(text)),
        Some(name) => tagged(&name, text)?,
    };
    let value = match resolved {
        Resolved::Value(value) => value,
        Resolved::NoNumber(name) => return Err(fault(&format!("json: unsupported value: {name}"))),
    };
    let is_merge = is_plain && tag.is_none() && text == "<<";
    let bytes = heap_bytes(&value);
    Ok(Node { value, bytes, text_bytes: text.len(), line, is_merge })
}

/// Charges a copy of a node. The error is that of kube-apiserver for excessive aliasing.
fn charge_copy(budget: &mut DecodeBudget, node: &Node) -> Parsed<()> {
    // Even a copy of nothing takes time.
    match budget.charge(node.bytes.max(1)) {
        Err(BudgetError::TooLarge { .. }) => Err(DecodeError::ExcessiveAliasing),
        charged => Ok(charged?),
    }
}

/// A key as Go prints it in messages, with quotes.
fn shown_key(key: &Value) -> String {
    match key {
        Value::String(text) => Quoted(text).to_string(),
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() => go_json::general_text(float),
            _ => number.to_string(),
        },
        other => other.to_string(),
    }
}

/// A number as a field name: `sigs.k8s.io/yaml` prints it with the precision of a float32.
fn number_name(number: &Number) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "the precision of the name is that of a float32")]
    match number.as_f64() {
        Some(float) if number.is_f64() => match float as f32 {
            f32::INFINITY => ".inf".to_owned(),
            f32::NEG_INFINITY => "-.inf".to_owned(),
            float => go_json::general_text_of_f32(float),
        },
        _ => number.to_string(),
    }
}

/// The name of a core tag of YAML, such as `int`; empty for others.
fn core_name(tag: &Tag) -> Cow<'_, str> {
    tag.suffix_in_namespace("tag:yaml.org,2002:").unwrap_or_default()
}

fn tagged(name: &str, text: &str) -> Parsed<Resolved> {
    let resolved = resolve::plain(text);
    let fits = match (&resolved, name) {
        (Resolved::Value(Value::Number(number)), "int") => !number.is_f64(),
        (Resolved::Value(Value::Number(_)) | Resolved::NoNumber(_), "float") => true,
        (Resolved::Value(Value::Bool(_)), "bool") | (Resolved::Value(Value::Null), "null") => true,
        (_, "int" | "float" | "bool" | "null") => false,
        (_, "binary") => match STANDARD.decode(text) {
            Ok(bytes) => return Ok(Resolved::Value(lossy(&bytes).into())),
            Err(_) => return Err(fault("yaml: !!binary value contains invalid base64 data")),
        },
        _ => return Ok(Resolved::Value(Value::from(text))),
    };
    if fits { Ok(resolved) } else { Err(of_tag(&resolved, text, name)) }
}

fn key_name(key: &Node) -> Parsed<String> {
    match &key.value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number_name(number)),
        Value::Bool(_) => Ok(shown_key(&key.value)),
        Value::Null => Err(at(key.line, "a key of a map is text, a number or a boolean")),
        other => Err(of_key(other)),
    }
}
