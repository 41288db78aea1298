//! Semantic version library.

use std::cmp::Ordering;

use crate::EvalError;
use crate::value::{Extension, Value};

use super::{Function, mismatch};

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "semver",
        overloads: &[
            ("string_to_semver", "(string) -> kubernetes.Semver"),
            ("string_bool_to_semver", "(string, bool) -> kubernetes.Semver"),
        ],
        call: semver,
    },
    Function {
        name: "isSemver",
        overloads: &[
            ("is_semver_string", "(string) -> bool"),
            ("is_semver_string_bool", "(string, bool) -> bool"),
        ],
        call: is_semver,
    },
    Function {
        name: "isGreaterThan",
        overloads: &[("semver_is_greater_than", "kubernetes.Semver.(kubernetes.Semver) -> bool")],
        call: is_greater,
    },
    Function {
        name: "isLessThan",
        overloads: &[("semver_is_less_than", "kubernetes.Semver.(kubernetes.Semver) -> bool")],
        call: is_less,
    },
    Function {
        name: "compareTo",
        overloads: &[("semver_compare_to", "kubernetes.Semver.(kubernetes.Semver) -> int")],
        call: compare_to,
    },
    Function { name: "major", overloads: &[("semver_major", "kubernetes.Semver.() -> int")], call: major },
    Function { name: "minor", overloads: &[("semver_minor", "kubernetes.Semver.() -> int")], call: minor },
    Function { name: "patch", overloads: &[("semver_patch", "kubernetes.Semver.() -> int")], call: patch },
];

type Flow<'d> = Result<Value<'d>, EvalError>;

/// A semantic version. Build metadata is ignored in comparisons.
#[derive(Clone, Debug)]
pub(crate) struct Semver {
    /// The text, as written or normalized.
    pub(crate) text: Box<str>,
    numbers: [u64; 3],
    pre: Vec<Identifier>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Identifier {
    /// Numbers sort before words.
    Number(u64),
    Word(Box<str>),
}

impl Semver {
    pub(crate) fn compare(&self, other: &Self) -> Ordering {
        let by_pre = match (self.pre.is_empty(), other.pre.is_empty()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => self.pre.cmp(&other.pre),
        };
        self.numbers.cmp(&other.numbers).then(by_pre)
    }

    /// Parses a version. Errors are those of blang/semver, which Kubernetes uses.
    fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("Version string empty".to_owned());
        }
        let parts: Vec<&str> = text.splitn(3, '.').collect();
        let [major, minor, rest] = parts[..] else {
            return Err("No Major.Minor.Patch elements found".to_owned());
        };
        let numbers = [number(major, "Major", "major")?, number(minor, "Minor", "minor")?];
        let (rest, build) = rest.split_once('+').map_or((rest, None), |(rest, build)| (rest, Some(build)));
        let (patch, pre) = rest.split_once('-').map_or((rest, None), |(patch, pre)| (patch, Some(pre)));
        let patch = number(patch, "Patch", "patch")?;
        let pre = pre.map_or(Ok(Vec::new()), |pre| pre.split('.').map(identifier).collect())?;
        for part in build.into_iter().flat_map(|build| build.split('.')) {
            if part.is_empty() {
                return Err("Build meta data is empty".to_owned());
            }
            if !part.bytes().all(is_plain) {
                return Err(format!("Invalid character(s) found in build meta data {part:?}"));
            }
        }
        Ok(Self { text: text.into(), numbers: [numbers[0], numbers[1], patch], pre })
    }
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-'
}

fn number(text: &str, upper: &str, lower: &str) -> Result<u64, String> {
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("Invalid character(s) found in {lower} number {text:?}"));
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err(format!("{upper} number must not contain leading zeroes {text:?}"));
    }
    let error = || format!("strconv.ParseUint: parsing {text:?}: invalid syntax");
    text.parse().map_err(|_| error())
}

fn identifier(text: &str) -> Result<Identifier, String> {
    if text.is_empty() {
        return Err("Prerelease is empty".to_owned());
    }
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        if text.len() > 1 && text.starts_with('0') {
            return Err(format!("Numeric PreRelease version must not contain leading zeroes {text:?}"));
        }
        let error = || format!("strconv.ParseUint: parsing {text:?}: value out of range");
        return text.parse().map(Identifier::Number).map_err(|_| error());
    }
    if text.bytes().all(is_plain) {
        return Ok(Identifier::Word(text.into()));
    }
    Err(format!("Invalid character(s) found in prerelease {text:?}"))
}

/// Normalizes a version: removes a leading `v` and leading zeros, and adds missing numbers.
fn normalize(text: &str) -> Result<String, String> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let mut parts: Vec<String> = text.splitn(3, '.').map(without_zeros).collect();
    if parts.len() < 3 {
        if parts.last().is_some_and(|last| last.contains(['+', '-'])) {
            return Err("short version cannot contain PreRelease/Build meta data".to_owned());
        }
        parts.resize(3, "0".to_owned());
    }
    Ok(parts.join("."))
}

fn without_zeros(part: &str) -> String {
    if part.len() < 2 {
        return part.to_owned();
    }
    let stripped = part.trim_start_matches('0');
    if stripped.starts_with(|first: char| first.is_ascii_digit()) {
        stripped.to_owned()
    } else {
        format!("0{stripped}")
    }
}

fn read(args: &[Value<'_>]) -> Option<Result<Semver, String>> {
    let (text, normal) = match args {
        [Value::String(text)] => (text, false),
        [Value::String(text), Value::Bool(normal)] => (text, *normal),
        _ => return None,
    };
    Some(if normal {
        normalize(text.as_str()).and_then(|text| Semver::parse(&text))
    } else {
        Semver::parse(text.as_str())
    })
}

fn semver<'d>(args: &[Value<'d>]) -> Flow<'d> {
    match read(args) {
        Some(Ok(version)) => Ok(Value::extension(Extension::Semver(version))),
        Some(Err(message)) => Err(EvalError::failed(message)),
        None => mismatch(),
    }
}

fn is_semver<'d>(args: &[Value<'d>]) -> Flow<'d> {
    read(args).map_or_else(mismatch, |version| Ok(Value::Bool(version.is_ok())))
}

fn version<'a>(value: &'a Value<'_>) -> Option<&'a Semver> {
    match value {
        Value::Extension(extension) => match &*extension.0 {
            Extension::Semver(version) => Some(version),
            _ => None,
        },
        _ => None,
    }
}

fn comparison<'d>(args: &[Value<'d>], result: fn(Ordering) -> Value<'d>) -> Flow<'d> {
    match args {
        [one, other] => match (version(one), version(other)) {
            (Some(one), Some(other)) => Ok(result(one.compare(other))),
            _ => mismatch(),
        },
        _ => mismatch(),
    }
}

fn is_greater<'d>(args: &[Value<'d>]) -> Flow<'d> {
    comparison(args, |order| Value::Bool(order.is_gt()))
}

fn is_less<'d>(args: &[Value<'d>]) -> Flow<'d> {
    comparison(args, |order| Value::Bool(order.is_lt()))
}

fn compare_to<'d>(args: &[Value<'d>]) -> Flow<'d> {
    comparison(args, |order| Value::Int(order as i64))
}

fn part<'d>(args: &[Value<'d>], index: usize) -> Flow<'d> {
    let found = args.first().and_then(version).map(|version| version.numbers[index]);
    found.map_or_else(mismatch, |number| Ok(Value::Int(number.cast_signed())))
}

fn major<'d>(args: &[Value<'d>]) -> Flow<'d> {
    part(args, 0)
}

fn minor<'d>(args: &[Value<'d>]) -> Flow<'d> {
    part(args, 1)
}

fn patch<'d>(args: &[Value<'d>]) -> Flow<'d> {
    part(args, 2)
}
