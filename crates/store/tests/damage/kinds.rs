//! Kinds of damage, each applied to every file to which it applies.

use coracle_store::disk::Files;
use coracle_store::disk::fake::FakeDisk;

pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) harm: Box<dyn Fn(&FakeDisk)>,
}

/// An edit of the bytes of one file, with its name.
type Edit = (&'static str, fn(&mut Vec<u8>));

/// Offset of the frames of a segment and of the blocks of a snapshot.
const BODY: usize = 4096;

/// Edits of every structure of a header, then of the data after it.
const EDITS: &[Edit] = &[
    ("magic flipped", |bytes| bytes[3] ^= 4),
    ("version flipped", |bytes| bytes[8] ^= 8),
    ("identity flipped", |bytes| bytes[12] ^= 1),
    ("number flipped", |bytes| bytes[20] ^= 1),
    ("salt flipped", |bytes| bytes[28] ^= 1),
    ("size flipped", |bytes| bytes[36] ^= 1),
    ("header checksum flipped", |bytes| bytes[44] ^= 1),
    ("header zeroed", |bytes| bytes[..BODY].fill(0)),
    ("cut within the header", |bytes| bytes.truncate(100)),
    ("emptied", Vec::clear),
    ("first frame's magic flipped", |bytes| flip(bytes, BODY)),
    ("first frame's checksum flipped", |bytes| flip(bytes, BODY + 4)),
    ("first frame's length flipped", |bytes| flip(bytes, BODY + 8)),
    ("first frame's number flipped", |bytes| flip(bytes, BODY + 16)),
    ("first frame's payload flipped", |bytes| flip(bytes, BODY + 60)),
    ("middle flipped", |bytes| with_used(bytes, |bytes, used| flip(bytes, (BODY + used) / 2))),
    ("last byte flipped", |bytes| with_used(bytes, |bytes, used| flip(bytes, used.saturating_sub(1)))),
    ("first frame zeroed", |bytes| zero(bytes, BODY, 64)),
    ("middle zeroed", |bytes| with_used(bytes, |bytes, used| zero(bytes, (BODY + used) / 2, 512))),
    ("all frames zeroed", |bytes| zero(bytes, BODY, usize::MAX)),
    ("cut in the middle of a frame", |bytes| bytes.truncate((BODY + used(bytes)) / 2 + 3)),
    ("cut after the header", |bytes| bytes.truncate(BODY)),
    ("cut after the last frame", |bytes| bytes.truncate(used(bytes))),
];

fn flip(bytes: &mut [u8], at: usize) {
    if let Some(byte) = bytes.get_mut(at) {
        *byte ^= 0x10;
    }
}

fn zero(bytes: &mut [u8], from: usize, len: usize) {
    let from = from.min(bytes.len());
    let to = from.saturating_add(len).min(bytes.len());
    bytes[from..to].fill(0);
}

fn with_used(bytes: &mut [u8], edit: fn(&mut [u8], usize)) {
    let used = used(bytes);
    edit(bytes, used);
}

/// Offset from which only zeros follow.
fn used(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)
}

pub(crate) fn all(disk: &FakeDisk, other: &FakeDisk) -> Vec<Case> {
    let files: &dyn Files = disk;
    let names: Vec<String> = files.list().expect("the fake disk lists its files");
    let mut cases = Vec::new();
    for name in &names {
        cases.extend(EDITS.iter().map(|edit| edited(name, *edit)));
        cases.push(case(format!("{name} missing"), {
            let name = name.clone();
            move |disk| remove(disk, &name)
        }));
        cases.extend(foreign(name, other));
    }
    for pair in names.windows(2) {
        cases.extend(exchanged(&pair[0], &pair[1]));
    }
    let last = names.iter().rfind(|name| name.starts_with("log-")).expect("there is a log");
    let snapshot = names.iter().find(|name| name.starts_with("snapshot-")).expect("there is a snapshot");
    cases.push(copied("a segment copied behind the last", last, "log-00000000000000f0"));
    cases.push(copied("a snapshot copied to a later revision", snapshot, "snapshot-00000000000000f0"));
    cases
}

fn case(name: String, harm: impl Fn(&FakeDisk) + 'static) -> Case {
    Case { name, harm: Box::new(harm) }
}

fn edited(name: &str, (what, edit): Edit) -> Case {
    let file = name.to_owned();
    case(format!("{name}: {what}"), move |disk| {
        let mut bytes = disk.read(&file);
        edit(&mut bytes);
        disk.overwrite(&file, bytes);
    })
}

/// Replaces the file by that of another store.
fn foreign(name: &str, other: &FakeDisk) -> Option<Case> {
    let same_kind = if name.starts_with("log-") { "log-0000000000000001" } else { name };
    let files: &dyn Files = other;
    let bytes = files.list().expect("the fake disk lists its files").contains(&same_kind.to_owned());
    let bytes = bytes.then(|| other.read(same_kind))?;
    let file = name.to_owned();
    Some(case(format!("{name} of another store"), move |disk| disk.overwrite(&file, bytes.clone())))
}

fn exchanged(one: &str, two: &str) -> [Case; 3] {
    let names = || (one.to_owned(), two.to_owned());
    let (a, b) = names();
    let swapped = case(format!("{one} and {two} swapped"), move |disk| {
        let (first, second) = (disk.read(&a), disk.read(&b));
        disk.overwrite(&a, second);
        disk.overwrite(&b, first);
    });
    let (a, b) = names();
    let first_copied =
        case(format!("{one} copied over {two}"), move |disk| disk.overwrite(&b, disk.read(&a)));
    let (a, b) = names();
    let both_gone = case(format!("{one} and {two} missing"), move |disk| {
        remove(disk, &a);
        remove(disk, &b);
    });
    [swapped, first_copied, both_gone]
}

fn copied(what: &str, from: &str, to: &'static str) -> Case {
    let from = from.to_owned();
    case(what.to_owned(), move |disk| {
        let files: &dyn Files = disk;
        files.create(to).expect("the fake disk has room");
        disk.overwrite(to, disk.read(&from));
    })
}

fn remove(disk: &FakeDisk, name: &str) {
    let files: &dyn Files = disk;
    files.remove(name).expect("the file is there");
}
