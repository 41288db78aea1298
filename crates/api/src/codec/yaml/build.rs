//! Builds the tree of a document from the events of the parser.

use std::borrow::Cow;
use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use granit_parser::{Event, Options, Parser, ScalarStyle, Span, StrInput, Tag};
use serde_json::{Map, Value};

use super::faults::{at, fault, of_key, of_parser, of_tag};
use super::resolve::{self, Resolved};
use crate::codec::budget::Budget;
use crate::codec::error::{DecodeError, Problem, Quoted};
use crate::codec::text::lossy;

type Parsed<T> = Result<T, DecodeError>;

/// The tree of the only document of a body, and the keys that were set again.
pub(super) fn document(body: &[u8]) -> Parsed<(Value, Option<Problem>)> {
    let text = std::str::from_utf8(body).map_err(|_| fault("yaml: invalid UTF-8"))?;
    // Whether there are comments to tell of depends on what other crates want of the parser.
    let mut options = Options::default();
    options.set_emit_comments(false);
    let mut builder = Builder {
        parser: Parser::new_from_str_with_options(text, options),
        anchors: HashMap::new(),
        budget: Budget::default(),
        duplicates: Vec::new(),
    };
    let value = builder.document()?;
    let duplicates = (!builder.duplicates.is_empty()).then_some(Problem::YamlDuplicates(builder.duplicates));
    Ok((value, duplicates))
}

struct Builder<'a> {
    parser: Parser<'a, StrInput<'a>>,
    /// Nodes that others may refer to; none while they are being read.
    anchors: HashMap<usize, Option<Node>>,
    budget: Budget,
    duplicates: Vec<(usize, String)>,
}

/// A value with its size, which is what a reference to it costs, and its line.
#[derive(Clone)]
struct Node {
    value: Value,
    /// How Go would print it as a key, quotes included.
    key: String,
    size: usize,
    line: usize,
    is_merge: bool,
}

impl<'a> Builder<'a> {
    fn document(&mut self) -> Parsed<Value> {
        let mut found = None;
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamStart | Event::DocumentEnd => {}
                Event::StreamEnd => return Ok(found.unwrap_or(Value::Null)),
                // Upstream would read the first and never mention the others.
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
            Some(Err(error)) => Err(of_parser(&error)),
            None => Err(fault("yaml: unexpected end of the document")),
        }
    }

    fn node(&mut self, (event, span): (Event<'a>, Span)) -> Parsed<Node> {
        let line = span.start.line();
        self.budget.value()?;
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let node = scalar(&text, style, tag.as_deref(), line)?;
                self.keep(anchor, node)
            }
            Event::SequenceStart(_, anchor, _) => {
                self.open(anchor);
                let node = self.sequence(line)?;
                self.keep(anchor, node)
            }
            Event::MappingStart(_, anchor, _) => {
                self.open(anchor);
                let node = self.mapping(line)?;
                self.keep(anchor, node)
            }
            Event::Alias(anchor) => {
                let node = self.anchors.get(&anchor).cloned().flatten();
                let node = node.ok_or_else(|| at(line, "the value of an anchor contains itself"))?;
                self.charge(node.size)?;
                Ok(Node { line, ..node })
            }
            _ => Err(at(line, "a value was expected")),
        }
    }

    fn open(&mut self, anchor: usize) {
        if anchor != 0 {
            self.anchors.insert(anchor, None);
        }
    }

    /// Keeps a copy of a node that has an anchor.
    fn keep(&mut self, anchor: usize, node: Node) -> Parsed<Node> {
        if anchor != 0 {
            self.charge(node.size)?;
            self.anchors.insert(anchor, Some(node.clone()));
        }
        Ok(node)
    }

    fn charge(&mut self, size: usize) -> Parsed<()> {
        (0..size)
            .try_for_each(|_| self.budget.value())
            .map_err(|_| fault("yaml: document contains excessive aliasing"))
    }

    fn sequence(&mut self, line: usize) -> Parsed<Node> {
        let mut items = Vec::new();
        let mut size = 1;
        loop {
            let event = self.next()?;
            if matches!(event.0, Event::SequenceEnd) {
                return Ok(Node {
                    value: Value::Array(items),
                    key: String::new(),
                    size,
                    line,
                    is_merge: false,
                });
            }
            let node = self.node(event)?;
            size += node.size;
            items.push(node.value);
        }
    }

    fn mapping(&mut self, line: usize) -> Parsed<Node> {
        let mut object = Map::new();
        let mut size = 1;
        loop {
            let event = self.next()?;
            if matches!(event.0, Event::MappingEnd) {
                return Ok(Node {
                    value: Value::Object(object),
                    key: String::new(),
                    size,
                    line,
                    is_merge: false,
                });
            }
            let key = self.node(event)?;
            let event = self.next()?;
            let value = self.node(event)?;
            size += value.size + 1;
            if key.is_merge {
                self.merge(&mut object, value)?;
            } else {
                let name = key_name(&key)?;
                self.set(&mut object, name, &key.key, value.value, value.line);
            }
        }
    }

    /// Takes over the fields of another map, or of several, of which the first count most.
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
                let shown = Quoted(&name).to_string();
                self.set(object, name, &shown, value, line);
            }
        }
        Ok(())
    }

    /// Sets a field. The last one counts, and all but the first are told.
    fn set(&mut self, object: &mut Map<String, Value>, name: String, shown: &str, value: Value, line: usize) {
        if object.insert(name, value).is_some() {
            self.duplicates.push((line, shown.to_owned()));
        }
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
    let key = match &value {
        Value::String(text) => Quoted(text).to_string(),
        other => other.to_string(),
    };
    let is_merge = is_plain && tag.is_none() && text == "<<";
    Ok(Node { value, key, size: 1, line, is_merge })
}

/// The name of a tag of YAML itself, such as `int`; empty for others.
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
        Value::Number(_) | Value::Bool(_) => Ok(key.key.clone()),
        Value::Null => Err(at(key.line, "a key of a map is text, a number or a boolean")),
        other => Err(of_key(other)),
    }
}
