//! Parser of the expanded text of `data/schema.txt`.
//!
//! Each line consists of words. `package` sets the package of the following lines; `single` declares a definition
//! that is a scalar, and its letter; `type` begins a struct type, and the lines after it are its fields:
//!
//! ```text
//! name shape numbers flags attributes...
//! ```
//!
//! A shape is a letter (see `single`), `@` and a type (of the same package if it has no dot), or one of those after
//! `[` for a list or `{` for a map. Numbers are those of protobuf, from the outermost message inwards, or `-`. Flags
//! are `!` required, `o` omitted when empty, `*` pointer, `e` keeps an empty list, `z` the empty value is the
//! default, or `-` for none.

use std::collections::HashMap;

use super::attributes::Attributes;
use super::types::{Entry, Field, Item, Shape, Single, Slot, Type, TypeId, Types, beginning};

static COMPRESSED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/schema.deflate"));

type Names = HashMap<(&'static str, &'static str), TypeId>;

pub(super) fn expand() -> Types {
    read(inflate(COMPRESSED).leak())
}

/// Decompresses a text of the build script.
pub(crate) fn inflate(compressed: &[u8]) -> String {
    let bytes =
        miniz_oxide::inflate::decompress_to_vec(compressed).expect("the build compressed it, in this binary");
    String::from_utf8(bytes).expect("the build compressed text")
}

fn read(text: &'static str) -> Types {
    let mut types = Types { by_name: names(text), ..Types::default() };
    let mut package = "";
    let mut open: Option<Draft> = None;
    for line in lines(text) {
        let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
        match first {
            "package" => package = rest,
            "single" if is_definition(rest) => {}
            "type" if is_definition(rest) => {
                types.push(open.take());
                open = Some(Draft::new(package, rest));
            }
            _ => open.as_mut().expect("a field follows its type").field(line, &types.by_name),
        }
    }
    types.push(open.take());
    types
}

fn lines(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.lines().filter(|line| !line.starts_with('#'))
}

/// There are fields named `type`; they are followed by a shape instead of the name of a type.
fn is_definition(rest: &str) -> bool {
    rest.starts_with(|first: char| first.is_ascii_uppercase())
        && !rest
            .split(' ')
            .nth(1)
            .is_some_and(|word| word.starts_with(|c: char| c.is_ascii_digit() || c == '-'))
}

/// Assigns ids first, because types refer to later types and to themselves.
fn names(text: &'static str) -> Names {
    let mut names = HashMap::new();
    let mut package = "";
    for line in lines(text) {
        if let Some(rest) = line.strip_prefix("package ") {
            package = rest;
        } else if let Some(rest) = line.strip_prefix("type ").filter(|rest| is_definition(rest)) {
            let id = u16::try_from(names.len()).expect("fewer than 2^16 types");
            names.insert((package, rest.split(' ').next().unwrap_or(rest)), TypeId(id));
        }
    }
    names
}

/// A type to which more fields may be added.
struct Draft {
    package: &'static str,
    name: &'static str,
    attributes: Attributes,
    fields: Vec<Field>,
    message: Vec<Entry>,
}

impl Draft {
    fn new(package: &'static str, line: &'static str) -> Self {
        let (name, attributes) = line.split_once(' ').unwrap_or((line, ""));
        Self { package, name, attributes: Attributes(attributes), fields: Vec::new(), message: Vec::new() }
    }

    fn field(&mut self, line: &'static str, names: &Names) {
        let mut words = line.splitn(5, ' ');
        let mut word = || words.next().expect("a field has a name, a shape, numbers and flags");
        let (name, shape, numbers, flags) = (word(), word(), word(), word());
        let has = |flag: char| flags.contains(flag);
        if numbers != "-" {
            let index = u16::try_from(self.fields.len()).expect("fewer than 2^16 fields");
            place(&mut self.message, numbers, index);
        }
        self.fields.push(Field {
            name,
            shape: read_shape(shape, self.package, names),
            required: has('!'),
            omit_empty: has('o'),
            pointer: has('*'),
            keep_empty: has('e'),
            zero_default: has('z'),
            attributes: Attributes(words.next().unwrap_or("")),
        });
    }
}

impl Types {
    fn push(&mut self, draft: Option<Draft>) {
        let Some(draft) = draft else { return };
        let id = TypeId(u16::try_from(self.all.len()).expect("fewer than 2^16 types"));
        debug_assert_eq!(self.by_name.get(&(draft.package, draft.name)), Some(&id));
        self.by_kind.extend(draft.attributes.kinds().map(|kind| (kind, id)));
        if draft.attributes.words().any(|word| word == "everywhere") {
            self.everywhere.push(id);
        }
        let mut message = draft.message;
        sort(&mut message);
        self.all.push(Type {
            package: draft.package,
            name: draft.name,
            beginnings: draft.fields.iter().map(|field| beginning(field.name.as_bytes())).collect(),
            fields: draft.fields.into(),
            message: message.into(),
            attributes: draft.attributes,
        });
    }
}

/// Adds the field at `index` under its number, or under the numbers of the messages that contain it.
fn place(entries: &mut Vec<Entry>, numbers: &str, index: u16) {
    let (number, inner) = numbers.split_once('.').unwrap_or((numbers, ""));
    let number = number.parse().expect("a protobuf number");
    if inner.is_empty() {
        entries.push(Entry { number, slot: Slot::Field(index) });
        return;
    }
    let at = entries.iter().position(|entry| entry.number == number).unwrap_or_else(|| {
        entries.push(Entry { number, slot: Slot::Embedded(Box::default()) });
        entries.len() - 1
    });
    if let Slot::Embedded(message) = &mut entries[at].slot {
        let mut inside = std::mem::take(message).into_vec();
        place(&mut inside, inner, index);
        *message = inside.into();
    }
}

fn sort(entries: &mut [Entry]) {
    entries.sort_by_key(|entry| entry.number);
    for entry in entries {
        if let Slot::Embedded(inner) = &mut entry.slot {
            sort(inner);
        }
    }
}

fn read_shape(text: &'static str, package: &'static str, names: &Names) -> Shape {
    if let Some(item) = text.strip_prefix('[') {
        return Shape::List(read_item(item, package, names));
    }
    if let Some(item) = text.strip_prefix('{') {
        return Shape::Map(read_item(item, package, names));
    }
    Shape::One(read_item(text, package, names))
}

fn read_item(text: &'static str, package: &'static str, names: &Names) -> Item {
    if let Some(name) = text.strip_prefix('@') {
        let (package, name) = name.rsplit_once('.').unwrap_or((package, name));
        return Item::Struct(*names.get(&(package, name)).expect("a type that is in the file"));
    }
    Item::Single(match text {
        "s" => Single::String,
        "b" => Single::Bytes,
        "i" => Single::Int32,
        "l" => Single::Int64,
        "d" => Single::Double,
        "t" => Single::Boolean,
        "x" => Single::IntOrString,
        "q" => Single::Quantity,
        "T" => Single::Time,
        "U" => Single::MicroTime,
        "r" => Single::RawExtension,
        "F" => Single::FieldsV1,
        "j" => Single::Json,
        "A" => Single::SchemaOrArray,
        "B" => Single::SchemaOrBool,
        "S" => Single::SchemaOrStringArray,
        "v" => Single::Strings,
        "P" => Single::Patch,
        _ => unreachable!("the generator writes no other letter"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::types;

    #[test]
    fn all_types_of_the_file_are_parsed() {
        let fields: usize = types().iter().map(|(_, one)| one.fields.len()).sum();
        assert_eq!((types().all.len(), types().by_kind.len(), fields), (762, 193, 3144));
        for (_, one) in types().iter() {
            assert!(one.fields.is_sorted_by_key(|field| field.name), "{} can be searched", one.name);
            for (index, field) in one.fields.iter().enumerate() {
                assert_eq!(one.index_of(field.name.as_bytes()), Some(index), "{}.{}", one.name, field.name);
                assert_eq!(one.index_of(format!("{}x", field.name).as_bytes()), None, "{}", one.name);
                assert_eq!(one.index_of(format!("{}\0", field.name).as_bytes()), None, "{}", one.name);
            }
            assert!(one.message.is_sorted_by_key(|entry| entry.number), "{} is in order", one.name);
        }
    }

    #[test]
    fn embedded_messages_are_nested() {
        let volume = types().get(types().named("io.k8s.api.core.v1.Volume").unwrap());
        let [name, source] = &*volume.message else { panic!("a volume has a name and a source") };
        assert!(matches!(name.slot, Slot::Field(_)));
        let Slot::Embedded(sources) = &source.slot else { panic!("the source is embedded") };
        let Slot::Field(host_path) = sources[0].slot else { panic!("a source is a field") };
        assert_eq!(volume.fields[usize::from(host_path)].name, "hostPath");
    }

    #[test]
    fn field_named_type_is_not_a_definition() {
        let secret = types().get(types().kind("", "v1", "Secret").unwrap());
        let field = secret.field("type").expect("secrets have a type");
        assert_eq!(field.shape, Shape::One(Item::Single(Single::String)));
        assert_eq!(field.attributes.go_type(), Some("v1.SecretType"));
        let condition = types().get(types().named("io.k8s.api.core.v1.PodCondition").unwrap());
        assert_eq!(condition.field("lastProbeTime").unwrap().shape, Shape::One(Item::Single(Single::Time)));
    }
}
