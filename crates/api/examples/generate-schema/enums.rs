//! Enumerated values of strings, where Go has a type with constants. The published documents omit them, but servers
//! publish them; the tables for that are in the source tree.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::Path;

const TABLES: [&str; 2] = [
    "pkg/generated/openapi/zz_generated.openapi.go",
    "staging/src/k8s.io/apiextensions-apiserver/pkg/generated/openapi/zz_generated.openapi.go",
];
/// Indentation of the properties of a type.
const PROPERTY: &str = "\t\t\t\t\t\"";

/// The values by type (the end of its full name) and field.
pub(crate) struct Enums(BTreeMap<(String, String), Vec<String>>);

impl Enums {
    pub(crate) fn load(source: &Path) -> Result<Self, Box<dyn Error>> {
        let mut found = BTreeMap::new();
        for table in TABLES {
            read(&fs::read_to_string(source.join(table))?, &mut found)?;
        }
        Ok(Self(found))
    }

    /// The values of a field, or of its items if it is a list or map.
    pub(crate) fn of(&self, type_name: &str, field: &str) -> Option<&[String]> {
        let mut ends = type_name.match_indices('.').map(|(at, _)| &type_name[at + 1..]);
        ends.find_map(|end| self.0.get(&(end.to_owned(), field.to_owned()))).map(Vec::as_slice)
    }
}

fn read(text: &str, found: &mut BTreeMap<(String, String), Vec<String>>) -> Result<(), Box<dyn Error>> {
    let (mut type_name, mut field) = (String::new(), String::new());
    for line in text.lines() {
        if let Some(function) = line.strip_prefix("func schema_") {
            let name = function.split('(').next().unwrap_or_default();
            type_name = name.strip_prefix("k8sio_").unwrap_or(name).replace('_', ".");
        } else if let Some(property) = line.strip_prefix(PROPERTY) {
            field = property.split('"').next().unwrap_or_default().to_owned();
        } else if let Some(values) = line.trim_start().strip_prefix("Enum:") {
            let list = values.trim().trim_end_matches(',').strip_prefix("[]interface{}{");
            let list = list.and_then(|list| list.strip_suffix('}')).ok_or("an enum that is no list")?;
            let values: Vec<String> = serde_json::from_str(&format!("[{list}]"))?;
            found.insert((type_name.clone(), field.clone()), values);
        }
    }
    Ok(())
}
