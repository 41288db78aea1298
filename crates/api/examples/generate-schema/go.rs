//! Parser of the tags of Go struct fields. Supports only what gofmt writes, which is enough: every type of the API is
//! declared at the top level of its file, with one field per line.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::PathBuf;

/// A field as in JSON, where the fields of embedded structs belong to the outer struct.
#[derive(Clone, Debug)]
pub(crate) struct GoField {
    pub(crate) json_name: String,
    /// Numbers from the outermost message inwards; empty if protobuf does not have the field.
    pub(crate) numbers: Vec<u32>,
    pub(crate) omit_empty: bool,
    pub(crate) omit_zero: bool,
    pub(crate) pointer: bool,
    /// The type as Go would print it, without the pointer.
    pub(crate) go_type: String,
    /// Names of the structs that embed it, from the outside.
    pub(crate) embedded: Vec<String>,
}

#[derive(Clone)]
struct RawField {
    go_type: String,
    json: String,
    protobuf: Option<u32>,
    /// Package and name of the type, if it is a struct.
    target: (String, String),
}

/// A package: its structs, and its aliases of types of other packages.
#[derive(Default)]
struct Package {
    structs: BTreeMap<String, Vec<RawField>>,
    renamed: BTreeMap<String, (String, String)>,
    /// Aliases of types of other packages, and how Go prints those.
    aliases: BTreeMap<String, String>,
}

/// Packages, parsed on first use.
pub(crate) struct Packages {
    root: PathBuf,
    read: BTreeMap<String, Package>,
}

impl Packages {
    pub(crate) fn new(root: PathBuf) -> Self {
        Self { root, read: BTreeMap::new() }
    }

    /// The fields of a struct, given as in OpenAPI, such as `io.k8s.api.core.v1` and `Pod`.
    pub(crate) fn fields(&mut self, package: &str, name: &str) -> Result<Vec<GoField>, Box<dyn Error>> {
        let read = self.package(package)?;
        if let Some((package, name)) = read.renamed.get(name).cloned() {
            return self.fields(&package, &name);
        }
        let raw = read.structs.get(name).cloned().ok_or_else(|| format!("no struct {name} in {package}"))?;
        let aliases = read.aliases.clone();
        let mut found = Vec::new();
        for RawField { go_type, json, protobuf: number, target } in raw {
            let mut options = json.split(',');
            let json_name = options.next().unwrap_or_default();
            let options: Vec<&str> = options.collect();
            if json_name == "-" {
                continue;
            }
            if json_name.is_empty() {
                found.extend(self.embedded(&target, number)?);
                continue;
            }
            found.push(GoField {
                json_name: json_name.into(),
                numbers: number.into_iter().collect(),
                omit_empty: options.contains(&"omitempty"),
                omit_zero: options.contains(&"omitzero"),
                pointer: go_type.starts_with('*'),
                go_type: printed(go_type.trim_start_matches('*'), package, &aliases),
                embedded: Vec::new(),
            });
        }
        Ok(found)
    }

    fn embedded(
        &mut self,
        (package, name): &(String, String),
        number: Option<u32>,
    ) -> Result<Vec<GoField>, Box<dyn Error>> {
        let mut fields = self.fields(package, name)?;
        for field in &mut fields {
            field.embedded.insert(0, name.clone());
            match number {
                Some(number) => field.numbers.insert(0, number),
                None => field.numbers.clear(),
            }
        }
        Ok(fields)
    }

    fn package(&mut self, package: &str) -> Result<&Package, Box<dyn Error>> {
        if !self.read.contains_key(package) {
            let relative = package.strip_prefix("io.k8s.").ok_or("not a package of Kubernetes")?;
            let directory = self.root.join(relative.replace('.', "/"));
            let mut read = Package::default();
            for entry in fs::read_dir(&directory).map_err(|e| format!("{}: {e}", directory.display()))? {
                let path = entry?.path();
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                if name.ends_with(".go") && !name.contains("generated") && !name.ends_with("_test.go") {
                    read_file(&fs::read_to_string(&path)?, package, &mut read);
                }
            }
            self.read.insert(package.to_owned(), read);
        }
        Ok(&self.read[package])
    }
}

fn read_file(text: &str, package: &str, read: &mut Package) {
    let mut imports = BTreeMap::new();
    let mut open: Option<(String, Vec<RawField>)> = None;
    for line in text.lines() {
        if let Some(declared) = line.strip_prefix("type ") {
            if let Some(name) = declared.strip_suffix(" struct {") {
                open = Some((name.to_owned(), Vec::new()));
            } else if let Some(name) = declared.strip_suffix(" struct{}") {
                read.structs.insert(name.to_owned(), Vec::new());
            } else if let Some((name, target)) = declared.split_once(' ')
                && target.contains('.')
            {
                if let Some(target) = target.strip_prefix("= ") {
                    read.aliases.insert(name.to_owned(), printed(target, package, &BTreeMap::new()));
                }
                let target = target.trim_start_matches("= ");
                read.renamed.insert(name.to_owned(), resolved(target, package, &imports));
            }
        } else if line == "}" {
            read.structs.extend(open.take());
        } else if let Some((_, fields)) = &mut open {
            let field = read_field(line.trim());
            fields.extend(field.map(|field| RawField {
                target: resolved(field.go_type.trim_start_matches('*'), package, &imports),
                ..field
            }));
        } else {
            imports.extend(read_import(line.trim()));
        }
    }
}

/// `alias "k8s.io/api/core/v1"` as the alias and `io.k8s.api.core.v1`.
fn read_import(line: &str) -> Option<(String, String)> {
    let (before, path) = line.strip_suffix('"')?.split_once('"')?;
    let path = path.strip_prefix("k8s.io/")?;
    let alias = before.trim_start_matches("import").trim();
    let alias = if alias.is_empty() { path.rsplit('/').next()? } else { alias };
    Some((alias.to_owned(), format!("io.k8s.{}", path.replace('/', "."))))
}

fn resolved(go_type: &str, package: &str, imports: &BTreeMap<String, String>) -> (String, String) {
    match go_type.split_once('.') {
        Some((alias, name)) => (imports.get(alias).cloned().unwrap_or_default(), name.to_owned()),
        None => (package.to_owned(), go_type.to_owned()),
    }
}

fn read_field(line: &str) -> Option<RawField> {
    if line.starts_with("//") {
        return None;
    }
    let (declaration, rest) = line.split_once('`')?;
    let tags = rest.split('`').next()?;
    let words: Vec<&str> = declaration.split_whitespace().collect();
    let go_type = if words.len() == 1 { words[0].to_owned() } else { words[1..].join(" ") };
    let protobuf = tag(tags, "protobuf").and_then(|tag| tag.split(',').nth(1)?.parse().ok());
    Some(RawField { go_type, json: tag(tags, "json")?.to_owned(), protobuf, target: Default::default() })
}

fn tag<'a>(tags: &'a str, name: &str) -> Option<&'a str> {
    let start = tags.find(&format!("{name}:\""))? + name.len() + 2;
    tags[start..].split('"').next()
}

/// A type as Go's reflection prints it: with the name of its package, not the alias.
fn printed(go_type: &str, package: &str, aliases: &BTreeMap<String, String>) -> String {
    if let Some(name) = aliases.get(go_type) {
        return name.clone();
    }
    if let Some(item) = go_type.strip_prefix("[]") {
        return format!("[]{}", printed(item, package, aliases));
    }
    if let Some((key, value)) = go_type.strip_prefix("map[").and_then(|rest| rest.split_once(']')) {
        return format!("map[{}]{}", printed(key, package, aliases), printed(value, package, aliases));
    }
    if let Some(target) = go_type.strip_prefix('*') {
        return format!("*{}", printed(target, package, aliases));
    }
    match go_type.split_once('.') {
        Some((alias, name)) => format!("{}.{name}", package_name(alias)),
        None if go_type == "byte" => "uint8".into(),
        None if go_type.starts_with(char::is_uppercase) => {
            format!("{}.{go_type}", package.rsplit('.').next().unwrap_or_default())
        }
        None => go_type.into(),
    }
}

/// `metav1` and `corev1` are both `v1`.
fn package_name(alias: &str) -> &str {
    match alias.rfind('v') {
        Some(at) if alias[at + 1..].starts_with(|c: char| c.is_ascii_digit()) => &alias[at..],
        _ => alias,
    }
}
