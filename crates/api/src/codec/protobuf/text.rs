//! The JSON text of a stored object as a source of messages, without a tree: one pass records the offsets of its
//! values, and the encoder reads them from the text.

use std::borrow::Cow;

use super::source::{Fields, Source};
use crate::schema::Type;

/// More than the fields of any type.
pub(super) const MAX_FIELDS: usize = 64;

/// No value.
const ABSENT: u32 = u32::MAX;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Null,
    True,
    False,
    Number,
    String,
    /// A string with escapes.
    Escaped,
    List,
    Object,
}

/// A value, or the name of a member, which precedes its value.
#[derive(Clone, Copy)]
struct Node {
    kind: Kind,
    /// Start and end of its text; of a string without the quotes.
    start: u32,
    end: u32,
    /// The node after all nodes that it contains.
    next: u32,
}

/// Offsets of the values of a text. Reusable for several texts.
#[derive(Default)]
pub(super) struct Outline {
    nodes: Vec<Node>,
    /// The containers around the current value.
    open: Vec<u32>,
}

/// The error for a text that is not in stored form.
pub(super) struct NotStored;

impl Outline {
    /// Records the values of a text and returns the outermost.
    pub(super) fn read<'a>(&'a mut self, text: &'a [u8]) -> Result<Text<'a>, NotStored> {
        self.nodes.clear();
        self.open.clear();
        if u32::try_from(text.len()).is_err() {
            return Err(NotStored);
        }
        Reader { text, at: 0, nodes: &mut self.nodes, open: &mut self.open }.read()?;
        Ok(Text { text, nodes: &self.nodes, at: 0 })
    }
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    nodes: &'a mut Vec<Node>,
    open: &'a mut Vec<u32>,
}

impl Reader<'_> {
    fn read(mut self) -> Result<(), NotStored> {
        self.value()?;
        while let Some(container) = self.open.last().copied() {
            let is_object = self.nodes[container as usize].kind == Kind::Object;
            match self.take()? {
                b',' => {
                    if is_object {
                        self.name()?;
                    }
                    self.value()?;
                }
                b'}' if is_object => self.close(container),
                b']' if !is_object => self.close(container),
                _ => return Err(NotStored),
            }
        }
        if matches!(&self.text[self.at..], b"" | b"\n") { Ok(()) } else { Err(NotStored) }
    }

    /// Reads a value, or the beginning of a container up to its first value.
    fn value(&mut self) -> Result<(), NotStored> {
        loop {
            let start = self.at;
            match self.take()? {
                b'"' => return self.string(),
                b'{' => {
                    self.begin(Kind::Object, start);
                    if self.peek() == Some(b'}') {
                        return Ok(());
                    }
                    self.name()?;
                }
                b'[' => {
                    self.begin(Kind::List, start);
                    if self.peek() == Some(b']') {
                        return Ok(());
                    }
                }
                b't' => return self.word(start, b"true", Kind::True),
                b'f' => return self.word(start, b"false", Kind::False),
                b'n' => return self.word(start, b"null", Kind::Null),
                b'-' | b'0'..=b'9' => {
                    while matches!(self.peek(), Some(b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-')) {
                        self.at += 1;
                    }
                    self.push(Kind::Number, start, self.at);
                    return Ok(());
                }
                _ => return Err(NotStored),
            }
        }
    }

    fn name(&mut self) -> Result<(), NotStored> {
        if self.take()? != b'"' {
            return Err(NotStored);
        }
        self.string()?;
        if self.take()? == b':' { Ok(()) } else { Err(NotStored) }
    }

    /// Reads a string after its opening quote.
    fn string(&mut self) -> Result<(), NotStored> {
        let start = self.at;
        let mut kind = Kind::String;
        loop {
            let rest = self.text.get(self.at..).ok_or(NotStored)?;
            self.at += quote_or_escape(rest).ok_or(NotStored)?;
            if self.text[self.at] == b'"' {
                self.push(kind, start, self.at);
                self.at += 1;
                return Ok(());
            }
            kind = Kind::Escaped;
            self.at += 2;
        }
    }

    fn word(&mut self, start: usize, word: &[u8], kind: Kind) -> Result<(), NotStored> {
        if !self.text[start..].starts_with(word) {
            return Err(NotStored);
        }
        self.at = start + word.len();
        self.push(kind, start, self.at);
        Ok(())
    }

    fn begin(&mut self, kind: Kind, start: usize) {
        self.open.push(self.nodes.len() as u32);
        self.push(kind, start, start);
    }

    fn close(&mut self, container: u32) {
        let next = self.nodes.len() as u32;
        let node = &mut self.nodes[container as usize];
        node.end = self.at as u32;
        node.next = next;
        self.open.pop();
    }

    fn push(&mut self, kind: Kind, start: usize, end: usize) {
        let next = self.nodes.len() as u32 + 1;
        self.nodes.push(Node { kind, start: start as u32, end: end as u32, next });
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn take(&mut self) -> Result<u8, NotStored> {
        let byte = self.peek().ok_or(NotStored)?;
        self.at += 1;
        Ok(byte)
    }
}

/// Offset of the next quote or backslash. Compares eight bytes at a time, because most strings are longer.
fn quote_or_escape(text: &[u8]) -> Option<usize> {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGH: u64 = u64::from_ne_bytes([0x80; 8]);
    // The highest bit of the lowest zero byte, and maybe of some bytes above it.
    let zeros = |word: u64| word.wrapping_sub(ONES) & !word & HIGH;
    let (words, rest) = text.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let found = zeros(word ^ (ONES * u64::from(b'"'))) | zeros(word ^ (ONES * u64::from(b'\\')));
        if found != 0 {
            return Some(index * 8 + found.trailing_zeros() as usize / 8);
        }
    }
    let before = text.len() - rest.len();
    rest.iter().position(|byte| matches!(byte, b'"' | b'\\')).map(|at| before + at)
}

/// A value of a text.
#[derive(Clone, Copy)]
pub(super) struct Text<'a> {
    text: &'a [u8],
    nodes: &'a [Node],
    at: u32,
}

impl<'a> Text<'a> {
    fn node(self) -> &'a Node {
        &self.nodes[self.at as usize]
    }

    fn raw(self) -> &'a [u8] {
        let node = self.node();
        &self.text[node.start as usize..node.end as usize]
    }

    fn not_null(self) -> Option<Self> {
        (self.node().kind != Kind::Null).then_some(self)
    }

    /// The values in a container, or the names of members and the nodes after them.
    fn inside(self, kind: Kind) -> Values<'a> {
        let node = self.node();
        let end = if node.kind == kind { node.next } else { self.at + 1 };
        Values { next: Self { at: self.at + 1, ..self }, end }
    }
}

/// An iterator over consecutive values.
struct Values<'a> {
    next: Text<'a>,
    end: u32,
}

impl<'a> Iterator for Values<'a> {
    type Item = Text<'a>;

    fn next(&mut self) -> Option<Text<'a>> {
        (self.next.at < self.end).then(|| {
            let value = self.next;
            self.next.at = value.node().next;
            value
        })
    }
}

impl<'a> Source<'a> for Text<'a> {
    type Fields = TextFields<'a>;

    fn fields(object: Option<Self>, one: &Type) -> TextFields<'a> {
        let mut fields = TextFields { object, places: [ABSENT; MAX_FIELDS] };
        let mut values = object.into_iter().flat_map(|object| object.inside(Kind::Object));
        while let (Some(name), Some(value)) = (values.next(), values.next()) {
            // Field names have no escapes.
            if let Some(index) = one.index_of(name.raw())
                && let Some(place) = fields.places.get_mut(index)
            {
                *place = value.at;
            }
        }
        fields
    }

    fn members(self) -> impl Iterator<Item = (Cow<'a, [u8]>, Option<Self>)> {
        let mut values = self.inside(Kind::Object);
        std::iter::from_fn(move || {
            let (name, value) = (values.next()?, values.next()?);
            Some((name.string().unwrap_or_default(), value.not_null()))
        })
    }

    fn items(self) -> impl Iterator<Item = Option<Self>> {
        self.inside(Kind::List).map(Self::not_null)
    }

    fn string(self) -> Option<Cow<'a, [u8]>> {
        let node = self.node();
        match node.kind {
            Kind::String => Some(self.raw().into()),
            Kind::Escaped => {
                let quoted = &self.text[node.start as usize - 1..=node.end as usize];
                serde_json::from_slice::<String>(quoted).ok().map(|text| text.into_bytes().into())
            }
            _ => None,
        }
    }

    fn integer(self) -> Option<i64> {
        let number = self.node().kind == Kind::Number;
        number.then(|| std::str::from_utf8(self.raw()).ok()?.parse().ok()).flatten()
    }

    fn double(self) -> Option<f64> {
        let number = self.node().kind == Kind::Number;
        number.then(|| std::str::from_utf8(self.raw()).ok()?.parse().ok()).flatten()
    }

    fn is_true(self) -> bool {
        self.node().kind == Kind::True
    }

    fn is_object(self) -> bool {
        self.node().kind == Kind::Object
    }

    fn json(self) -> Cow<'a, [u8]> {
        let node = self.node();
        let quotes = usize::from(matches!(node.kind, Kind::String | Kind::Escaped));
        self.text[node.start as usize - quotes..node.end as usize + quotes].into()
    }
}

/// The nodes of an object's fields, by their index in the type.
pub(super) struct TextFields<'a> {
    object: Option<Text<'a>>,
    places: [u32; MAX_FIELDS],
}

impl<'a> Fields<Text<'a>> for TextFields<'a> {
    fn get(&self, index: u16, _name: &str) -> Option<Text<'a>> {
        let at = *self.places.get(usize::from(index))?;
        let object = self.object.filter(|_| at != ABSENT)?;
        Text { at, ..object }.not_null()
    }
}
